"""`make quality`: search quality on judged collections in BEIR's layout.

python -m bench.quality [set ...]

The collections are not part of kb: they are read from KB_DATA, or from `../shared/data` beside the
project. Every profile is compared with plain fusion by rank, `two_way_hybrid`. Vectors are computed
once and cached in `build/vectors`; without an encoder, only words are measured. KB_SPLIT selects a
split other than `test`, for tuning. KB_METHODS="match-any default" measures these methods only,
without the judge, in a fraction of the time.

The judge is slow, so it is measured on the first 100 queries only, in a separate table with the
other methods on the same queries.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from bench.timing import table
from kb import models
from kb.config import Config
from kb.errors import ModelError
from kb.evaluation.experiment import run_experiment
from kb.evaluation.metrics import parse_measure
from kb.evaluation.runs import EvalReport
from kb.ports import Encoder, Judge

# The minimum for lexical search alone: nDCG@10, gain 2^rel - 1, `match any`.
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
LEXICAL = ("match-any", "match-auto", "match-all")
HYBRID = (
    "two_way_hybrid", "three_way_hybrid", "three_way_reranked", "dense_only", "sparse_only",
    "default", "default_reranked", "notes", "memory", "knowledge",
)  # fmt: skip
BASELINE = "two_way_hybrid"
MEASURES = ("nDCG@10", "nDCG@20", "Recall@100", "MRR")
JUDGED = Config(
    profiles={
        "three_way_judged": {"base": "research", "rerank": "cross-encoder", "rerank_blend": 0.2},
        "default_reranked": {"base": "default", "rerank": "colbert"},
        "default_judged": {"base": "default", "rerank": "cross-encoder"},
    }
)
READ = (
    "two_way_hybrid", "three_way_hybrid", "three_way_reranked", "three_way_judged", "default",
    "default_reranked", "default_judged",
)  # fmt: skip
READ_QUERIES = 100
CACHE = Path("build/vectors")


def main() -> int:
    folder = Path(os.environ.get("KB_DATA", "../shared/data"))
    chosen = sys.argv[1:] or list(FLOORS)
    present = [name for name in chosen if (folder / name).is_dir()]
    if not present:
        print(f"no judged collections in {folder}: nothing measured (set KB_DATA)")
        return 0
    encoder, split = _encoder(), os.environ.get("KB_SPLIT", "test")
    methods = os.environ.get("KB_METHODS", "").split()
    rows, read, below = [], [], []
    for name in present:
        report = _measured(folder / name, split, encoder, methods or (*HYBRID, *LEXICAL))
        rows += [_row(name, method, report) for method in report.methods]
        below += _below(name, report) if split == "test" else []
        if encoder is not None and not methods:
            judged = _measured(folder / name, split, encoder, READ, READ_QUERIES)
            read += [_row(name, method, judged) for method in judged.methods]
        print(f"{name} measured", file=sys.stderr, flush=True)
    header = (
        "set",
        "method",
        *MEASURES,
        f"nDCG@10 - {BASELINE}",
        "nDCG@20 in %",
        "p50 ms",
        "required",
    )
    print(table(f"Split {split}, gain 2^rel - 1, best chunk per document", header, rows))
    if read:
        print(table(f"The first {READ_QUERIES} queries, with the judge", header, read))
    print("\n".join(below) or "Every required figure is reached.")
    return 1 if below else 0


def _encoder() -> Encoder | None:
    try:
        return models.encoder(Config(), os.environ.get("KB_MODELS_ENCODER"))
    except ModelError as error:
        print(f"words alone are measured: {error.message}", file=sys.stderr)
        return None


@cache
def _judge() -> Judge | None:
    return models.judge(Config())


def _measured(
    data: Path,
    split: str,
    encoder: Encoder | None,
    chosen: Sequence[str],
    limit_queries: int | None = None,
) -> EvalReport:
    methods = LEXICAL if encoder is None else chosen
    return run_experiment(
        data,
        config=JUDGED,
        judge=_judge,
        limit_queries=limit_queries,
        split=split,
        methods=methods,
        measures=MEASURES,
        gain="exp",
        baseline=methods[0],
        encoder=encoder,
        cache=CACHE,
    )


def _below(name: str, report: EvalReport) -> list[str]:
    if "match-any" not in report.methods:
        return []
    reached = report.methods["match-any"].scores[parse_measure("nDCG@10")].mean
    floor = FLOORS[name]
    if floor is None or reached >= floor:
        return []
    return [f"{name}: nDCG@10 {reached:.4f} is below {floor}"]


def _row(name: str, method: str, report: EvalReport) -> tuple[object, ...]:
    result = report.methods[method]
    scores = (f"{result.scores[parse_measure(measure)].mean:.3f}" for measure in MEASURES)
    floor = FLOORS[name] if method == "match-any" else None
    required = "" if floor is None else f"{floor:.2f}"
    gain = (_gain(report, method), _per_cent(report, method))
    return (name, method, *scores, *gain, f"{result.latency.p50_ms:.1f}", required)


def _per_cent(report: EvalReport, method: str) -> str:
    """The gain over the baseline [002 R6.5]."""
    if BASELINE not in report.methods:
        return ""
    base, here = (
        report.methods[one].scores[parse_measure("nDCG@20")].mean for one in (BASELINE, method)
    )
    return f"{100 * (here / base - 1):+.1f}" if base and method != BASELINE else ""


def _gain(report: EvalReport, method: str) -> str:
    """The difference from the baseline, with its interval."""
    compared = report.methods[method].comparisons
    if compared is None or report.baseline != BASELINE:
        return ""
    one = compared[parse_measure("nDCG@10")]
    return f"{one.difference:+.3f} ({one.interval.low:+.3f} to {one.interval.high:+.3f})"


if __name__ == "__main__":
    sys.exit(main())
