"""`make quality`: how good the search is, on judged collections in BEIR layout.

The collections are not part of kb: they are looked for in KB_DATA, or beside the project in
`../shared/data`. Without them there is nothing to measure, and that is said.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.timing import table
from kb.evaluation.metrics import parse_measure
from kb.evaluation.runs import EvalReport
from kb.evaluation.trial import run_trial

# What lexical search alone must reach: nDCG@10, gain 2^rel - 1, `match any`.
FLOORS = {
    "scifact": 0.68,
    "nfcorpus": 0.32,
    "cranfield": None,
    "cosqa": 0.37,
    "xquad-en": None,
    "xquad-zh": 0.93,
    "cmrc2018": 0.95,
    "jsquad": 0.92,
    "mdn-ko-heading": 0.40,
}
METHODS = ("match-any", "match-auto", "match-all")
MEASURES = ("nDCG@10", "Recall@100", "MRR")


def main() -> int:
    folder = Path(os.environ.get("KB_DATA", "../shared/data"))
    present = [name for name in FLOORS if (folder / name).is_dir()]
    if not present:
        print(f"no judged collections in {folder}: nothing measured (set KB_DATA)")
        return 0
    rows, below = [], []
    for name in present:
        report = run_trial(folder / name, methods=METHODS, measures=MEASURES, gain="exp")
        floor = FLOORS[name]
        rows += [_row(name, method, report, floor) for method in METHODS]
        reached = report.methods["match-any"].scores[parse_measure("nDCG@10")].mean
        if floor is not None and reached < floor:
            below.append(f"{name}: nDCG@10 {reached:.4f} is below {floor}")
        print(f"{name} measured", file=sys.stderr, flush=True)
    header = ("set", "method", *MEASURES, "p50 ms", "asked nDCG@10")
    print(table("Test splits, gain 2^rel - 1, best chunk per document", header, rows))
    print("\n".join(below) or "Every figure that was asked for is reached.")
    return 1 if below else 0


def _row(name: str, method: str, report: EvalReport, floor: float | None) -> tuple[object, ...]:
    result = report.methods[method]
    scores = (f"{result.scores[parse_measure(measure)].mean:.3f}" for measure in MEASURES)
    asked = f"{floor:.2f}" if floor is not None and method == "match-any" else ""
    return (name, method, *scores, f"{result.latency.p50_ms:.1f}", asked)


if __name__ == "__main__":
    sys.exit(main())
