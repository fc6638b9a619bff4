"""`python -m bench.languages PAIRS.jsonl.gz ... [language ...]`: search in other languages, on
pairs that training leaves out.

The pairs are those that kb-mini was trained with (`training/README.md`), a question or heading and
its passage; the tenth that `training.data.held_out_pair` selects was not learned. For each source
and language, `default` is compared with words alone, among all held-out passages and as many others
as fit into KB_PASSAGES (800). KB_LIMIT sets a largest number of queries (100).
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from training.data import held_out_pair, lines

from bench.quality import CACHE
from bench.timing import table
from kb import models
from kb.config import Config
from kb.evaluation.experiment import run_experiment
from kb.evaluation.metrics import parse_measure
from kb.ports import Encoder

LANGUAGES = ("zh", "ja", "ko", "de", "fr", "es", "ru")
MEASURE = parse_measure("nDCG@10")
WORDS, METHODS = "match-any", ("match-any", "dense_only", "sparse_only", "default")
LEAST_QUERIES = 40
Pairs = Sequence[tuple[str, str]]  # queries and passages


def main() -> int:
    paths = [Path(each) for each in sys.argv[1:] if "." in each]
    languages = [each for each in sys.argv[1:] if "." not in each] or LANGUAGES
    encoder = models.encoder(Config(), os.environ.get("KB_MODELS_ENCODER"))
    assert encoder is not None, "the settings choose no encoder"
    rows, gains = [], []
    for name, pairs in collections(paths, languages):
        scores = measure(pairs, encoder)
        gains.append(scores["default"] - scores[WORDS])
        figures = (f"{scores[method]:.3f}" for method in METHODS)
        rows.append((name, *figures, f"{gains[-1]:+.3f}"))
        print(*rows[-1], file=sys.stderr, flush=True)
    print(table("nDCG@10 on held-out pairs", ("set", *METHODS, "gain over words"), rows))
    if gains:
        print(f"gain of default over words: mean {sum(gains) / len(gains):+.3f}, ", end="")
        print(f"least {min(gains):+.3f}")
    return 0


def collections(paths: Sequence[Path], languages: Sequence[str]) -> Iterator[tuple[str, Pairs]]:
    """The pairs of each source and language that has enough held-out queries. Held-out pairs come
    first."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for path in paths:
        for row in lines(path):
            if row.get("lang", "en") in languages:
                name = f"{row['source']} {row.get('lang', 'en')}"
                groups.setdefault(name, []).append((row["query"], row["positive"]))
    for name, pairs in sorted(groups.items(), key=lambda each: each[0].split()[::-1]):
        if sum(held_out_pair(passage) for _, passage in pairs) >= LEAST_QUERIES:
            yield name, sorted(pairs, key=lambda pair: not held_out_pair(pair[1]))


def measure(pairs: Pairs, encoder: Encoder) -> dict[str, float]:
    """nDCG@10 of each method."""
    passages = list(dict.fromkeys(passage for _, passage in pairs))
    passages = passages[: int(os.environ.get("KB_PASSAGES", "800"))]
    place = {passage: str(number) for number, passage in enumerate(passages)}
    judged = [pair for pair in pairs if held_out_pair(pair[1]) and pair[1] in place]
    step = max(1, len(judged) // int(os.environ.get("KB_LIMIT", "100")))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder / "corpus.jsonl", ({"_id": place[text], "text": text} for text in passages))
        queries = dict(enumerate(judged[::step]))
        _write(
            folder / "queries.jsonl",
            ({"_id": f"q{number}", "text": query} for number, (query, _) in queries.items()),
        )
        (folder / "qrels").mkdir()
        (folder / "qrels" / "test.tsv").write_text(
            "query-id\tcorpus-id\tscore\n"
            + "".join(f"q{n}\t{place[passage]}\t1\n" for n, (_, passage) in queries.items())
        )
        report = run_experiment(
            folder, config=Config(), methods=METHODS, measures=(str(MEASURE),), gain="exp",
            baseline=WORDS, encoder=encoder, cache=CACHE,
        )  # fmt: skip
    return {method: each.scores[MEASURE].mean for method, each in report.methods.items()}


def _write(path: Path, rows: Iterator[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
