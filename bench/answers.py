"""`python -m bench.answers`: whether `kb ask` quotes the sentence that answers.

For xquad-en (see `bench.quality`): a store of its paragraphs, its questions, and as many questions
of other collections, which nothing in the store answers. A question counts as answered if the
sentence with the answer is among the first three. If KB_XQUAD is the path of XQuAD's
`xquad.en.json`, which has the positions of the answers, that sentence is known; otherwise any
sentence of the judged paragraph counts, which is easier. KB_QUESTIONS sets the largest number of
questions of each kind, 600 by default.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from training.relevance_data import read_lines

from bench.timing import table
from kb import KnowledgeBase
from kb.search.results.layout import lay_out

SET = "xquad-en"
OTHERS = ("scifact", "nfcorpus", "cranfield", "cosqa")
BOUNDS = {"answered in three": 0.80, "nothing said to others": 0.90}


def main() -> int:
    folder = Path(os.environ.get("KB_DATA", "../shared/data"))
    if not (folder / SET).is_dir():
        print(f"no {SET} in {folder}: answers not measured (set KB_DATA)")
        return 0
    most = int(os.environ.get("KB_QUESTIONS", "600"))
    queries = {line["_id"]: line["text"] for line in read_lines(folder / SET / "queries.jsonl.gz")}
    chosen = random.Random(3).sample(sorted(queries), min(most, len(queries)))
    foreign = list(_foreign(folder, most))
    judged = dict(_read_qrels(folder / SET))
    sentences = _answering_sentences(os.environ.get("KB_XQUAD"))
    with TemporaryDirectory() as scratch, KnowledgeBase(Path(scratch) / "kb.sqlite") as kb:
        paths = _fill(kb, folder / SET)
        ranks = []
        for query_id in chosen:
            found = kb.ask(queries[query_id], sentences=5).sentences
            if sentences:
                good = [_flat(each.text) == sentences[query_id] for each in found]
            else:
                good = [each.doc_path == paths[judged[query_id]] for each in found]
            ranks.append(good.index(True) + 1 if any(good) else None)
        refused = [not kb.ask(question).answered for question in foreign]
    shares = {
        "answered first": sum(rank == 1 for rank in ranks) / len(ranks),
        "answered in three": sum(rank is not None and rank <= 3 for rank in ranks) / len(ranks),
        "nothing said to others": sum(refused) / max(1, len(refused)),
    }
    what = "by the answer's place" if sentences else "by the judged paragraph"
    rows = [(name, f"{value:.3f}", BOUNDS.get(name, "")) for name, value in shares.items()]
    title = f"kb ask on {SET}, {len(ranks)} questions {what}, {len(refused)} of other sets"
    print(table(title, ("", "share", "at least"), rows))
    return int(any(shares[name] < least for name, least in BOUNDS.items()))


def _foreign(folder: Path, most: int) -> Iterator[str]:
    present = [name for name in OTHERS if (folder / name).is_dir()]
    for name in present:
        texts = sorted(line["text"] for line in read_lines(folder / name / "queries.jsonl.gz"))
        yield from random.Random(name).sample(texts, min(most // len(present), len(texts)))


def _read_qrels(folder: Path) -> Iterator[tuple[str, str]]:
    for row in (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query_id, doc_id, _ = row.split("\t")[:3]
        yield query_id, doc_id


def _fill(kb: KnowledgeBase, folder: Path) -> dict[str, str]:
    """Add the paragraphs, and return the path of each."""
    paths = {
        line["_id"]: kb.add(line["text"], title=line["title"]).doc_path
        for line in read_lines(folder / "corpus.jsonl.gz")
    }
    kb.embed()
    return paths


def _answering_sentences(path: str | None) -> Mapping[str, str]:
    """The sentence with the answer by question, from a file in SQuAD's format."""
    if not path:
        return {}
    sentences = {}
    for article in json.loads(Path(path).read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            layout = lay_out(context := paragraph["context"])
            for question in paragraph["qas"]:
                start = question["answers"][0]["answer_start"]
                at = len(_flat(context[: start + 1])) - 1  # the same place in the flat text
                unit = next(each for each in layout.units if each.start <= at < each.end)
                sentences[question["id"]] = _flat(layout.text[unit.start : unit.end])
    return sentences


def _flat(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.exit(main())
