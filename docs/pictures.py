"""Draws `docs/pictures/` and writes the tables beside them, from measurements.

    python docs/pictures.py            search the example library, then draw: make docs
    python docs/pictures.py --draw     draw from the last measurement
    python docs/pictures.py --check    exit 1 if a picture or a table is out of date

The last digits of a search's scores depend on the processor that runs the model. So a search is
measured once and recorded (`docs/pictures/query.json`), and everything drawn from the record is the
same on every machine; a test checks that a search still agrees with it. The quality figures come
from the README.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import diagrams
import drawings

DOCS = Path(__file__).resolve().parent
FOLDER = DOCS / "pictures"
MEASURED = FOLDER / "query.json"
PAGE = DOCS / "explanation" / "ranking.md"
README = DOCS.parent / "README.md"
LIBRARY = DOCS.parent / "examples" / "library"

QUERY = "How wide are the radio slots and why were they made wider?"
TYPE = "code"
FIRST = 5  # shown of each list and of the sum
AS_SHOWN = 1e-6  # the largest difference between a score and the sum of its parts

_PART = re.compile(r"(<!-- picture: (\w+);[^>]*-->\n).*?(<!-- end -->)", re.DOTALL)


def main(args: Sequence[str]) -> int:
    if args not in ([], ["--draw"], ["--check"]):
        sys.exit("usage: python docs/pictures.py [--draw | --check]")
    if not args:
        kept = json.dumps(measure(), indent=1, ensure_ascii=False) + "\n"
        MEASURED.write_text(kept, encoding="utf-8", newline="\n")
    check = args == ["--check"]
    stale = {path: content for path, content in expected_files().items() if _read(path) != content}
    for path, content in stale.items():
        name = path.relative_to(DOCS.parent).as_posix()
        if check:
            sys.stderr.write(f"{name} is out of date: make docs\n")
        else:
            path.write_text(content, encoding="utf-8", newline="\n")
            sys.stdout.write(f"wrote {name}\n")
    return 1 if check and stale else 0


def expected_files() -> dict[Path, str]:
    """The expected content of every file."""
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    collections, methods = figures(README.read_text(encoding="utf-8"))
    pictures = {
        "stages": drawings.stages(measured),
        "query": drawings.one_query(measured),
        "filters": drawings.filters(measured),
        "quality": drawings.quality(collections, methods),
        **{f"flow-{name}": svg for name, svg in diagrams.diagrams().items()},
    }
    sections = parts(measured, collections, methods)
    text = _PART.sub(lambda match: match[1] + sections[match[2]] + match[3], _read(PAGE))
    return {**{FOLDER / f"{name}.svg": svg for name, svg in pictures.items()}, PAGE: text}


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


# --- the measured search --------------------------------------------------------------------------


def measure() -> dict[str, Any]:
    """Search a store that contains only the example library."""
    from kb import Filters, KnowledgeBase

    with tempfile.TemporaryDirectory() as folder, KnowledgeBase(f"{folder}/kb.sqlite") as kb:
        kb.ingest(LIBRARY)
        kb.embed()
        facts = _stages(kb.search(QUERY, explain=True))
        everything = kb.search(QUERY, top=facts["fuse"]["candidates"], explain=True)
        shown = [hit.chunk_id for hit in kb.search(QUERY, top=1000).hits]
        filtered = kb.search(QUERY, top=10, filters=Filters(type=(TYPE,)))
    return {
        **ranked(everything),
        "filtered": {
            "filter": f"--type {TYPE}",
            "places": [shown.index(hit.chunk_id) + 1 for hit in filtered.hits],
        },
    }


def _stages(response: Any) -> dict[str, dict[str, Any]]:
    return {stage["stage"]: stage for stage in response.explain["stages"]}


def ranked(response: Any) -> dict[str, Any]:
    """The lists and the sums, rounded for display."""
    facts = _stages(response)
    found = {name: facts[name]["found"] for name in drawings.LISTS}
    scores = {each["chunk_id"]: each["scores"] for each in response.explain["hits"]}
    z = {name: standard(name, scores, found[name]) for name in drawings.LISTS}
    own = facts["fuse"]["weights"]
    weights = {name: own[name] / math.fsum(own.values()) for name in drawings.LISTS}
    passages = []
    for letter, hit in zip("ABCDEFGH", response.hits[:FIRST], strict=False):
        total = math.fsum(weights[name] * z[name][hit.chunk_id] for name in drawings.LISTS)
        if abs(1 / (1 + math.exp(-total)) - hit.score) > AS_SHOWN:
            sys.exit(
                f"{hit.citation.uri}: its parts do not sum to its score; fusion may have changed"
            )
        passages.append({"letter": letter, "title": hit.heading_path[-1], "where": _where(hit),
                         "sum": round(total, 2), "score": round(hit.score, 3),
                         "lists": {name: _entry(hit.chunk_id, name, scores, z)
                                   for name in drawings.LISTS}})  # fmt: skip
    places = {hit.chunk_id: _where(hit) for hit in response.hits}
    return {
        "query": response.query,
        "found": found,
        "candidates": len(scores),
        "weights": {name: round(weight, 3) for name, weight in weights.items()},
        "lists": {name: _best(name, scores, z, places) for name in drawings.LISTS},
        "passages": passages,
    }


def standard(name: str, scores: Mapping[int, Mapping[str, float]], found: int) -> dict[int, float]:
    """How many standard deviations each candidate lies above the mean, as in `convex` fusion."""
    from kb.search.pipeline import absence
    from kb.search.ranking.fusion import RankedList, _column, _normalize_column
    from kb.types import ScoredChunk

    own = sorted(((each[name], chunk) for chunk, each in scores.items() if name in each),
                 reverse=True)  # fmt: skip
    ranked = [ScoredChunk(chunk, score, rank) for rank, (score, chunk) in enumerate(own, start=1)]
    listed = RankedList(name, ranked, absent=absence(name, cut=found >= 100))
    column = _normalize_column(_column(listed, scores), "zscore")
    return {chunk: value or 0.0 for chunk, value in zip(scores, column, strict=True)}


def _best(
    name: str,
    scores: Mapping[int, Mapping[str, float]],
    z: Mapping[str, Mapping[int, float]],
    places: Mapping[int, str],
) -> list[dict[str, Any]]:
    chunks = [chunk for chunk, each in scores.items() if name in each]
    best = sorted(chunks, key=lambda chunk: (-scores[chunk][name], chunk))[:FIRST]
    return [{"where": places[chunk], **_entry(chunk, name, scores, z)} for chunk in best]


def _entry(
    chunk: int, name: str, scores: Mapping[int, Any], z: Mapping[str, Mapping[int, float]]
) -> dict[str, Any]:
    score = scores[chunk].get(name)
    return {"score": None if score is None else round(score, 3), "z": round(z[name][chunk], 2)}


def _where(hit: Any) -> str:
    return str(hit.citation.uri).removeprefix("library/")


# --- figures of the README ------------------------------------------------------------------------


def figures(readme: str) -> tuple[list[str], dict[str, list[float]]]:
    """The collections, and each method's figures, from the README's table of methods."""
    rows = [
        [cell.strip(" *`") for cell in line.strip("|").split("|")]
        for line in readme.splitlines()
        if line.startswith("| ")
    ]
    start = next(index for index, row in enumerate(rows) if "SciFact" in row)
    methods = {}
    for row in rows[start + 1 :]:
        if len(row) != len(rows[start]):
            break
        methods[_method(row[0])] = [float(cell) for cell in row[1:]]
    return rows[start][1:], methods


def _method(name: str) -> str:
    """The name of a method, shortened for a picture."""
    name = name.replace("`", "").partition(" (")[0].partition(":")[0]
    return {"profile default": "default"}.get(name, name).replace(" without its ", ", no ")


# --- the parts of the page ------------------------------------------------------------------------


def parts(
    measured: Mapping[str, Any], collections: Sequence[str], methods: Mapping[str, Sequence[float]]
) -> dict[str, str]:
    kept = measured["filtered"]["places"]
    within = [place for place in kept if place <= 10]
    best = {name: max(methods, key=lambda method: methods[method][column])
            for column, name in enumerate(collections)}  # fmt: skip
    first, wanted = len(measured["passages"]), measured["filtered"]["filter"]
    sections = {
        "stages": (
            "A query is analyzed and goes to three retrievers in parallel; their lists are fused, "
            "boosted, reranked and cut. The list below describes this.",
            "",
        ),
        "query": (
            f"The first {first} of each list, and of the sum. The table below has the numbers.",
            "\n".join(_table(measured)) + f"\n\n{_fill(_citations(measured))}",
        ),
        "filters": (
            f"Of ten hits without a filter, {len(within)} are of the requested type; "
            f"with the filter applied first, there are {len(kept)}.",
            _fill(
                f"With `{wanted}`, the first {len(kept)} hits of this query have the ranks "
                f"{_and(kept)} in the unfiltered list. A filter applied to the first ten hits "
                f"would have left {len(within)} of them."
            ),
        ),
        "quality": (
            "nDCG@10 of every method on judged collections; the best: "
            + ", ".join(f"{best[name]} on {name}" for name in collections)
            + ". The numbers are those of the table in the README.",
            "",
        ),
    }
    return {name: _part(name, alt, text) for name, (alt, text) in sections.items()}


def _part(name: str, alt: str, text: str) -> str:
    picture = _fill(f"![{alt}](../pictures/{name}.svg)")
    return f"\n{picture}\n\n" + (f"{text}\n\n" if text else "")


def _fill(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _table(measured: Mapping[str, Any]) -> Iterator[str]:
    weights = measured["weights"]
    yield "| | passage | words: score, z | meaning: score, z | terms: score, z | sum | score |"
    yield "|---|---|---|---|---|---|---|"
    for each in measured["passages"]:
        cells = [f"{_score(each['lists'][name])}, {each['lists'][name]['z']:+.2f}"
                 for name in drawings.LISTS]  # fmt: skip
        yield (f"| {each['letter']} | {each['title']} | {' | '.join(cells)} "
               f"| {each['sum']:+.2f} | {each['score']:.3f} |")  # fmt: skip
    yield (f"| | weight | {' | '.join(f'{weights[name]:.2f}' for name in drawings.LISTS)} | | |")


def _citations(measured: Mapping[str, Any]) -> str:
    passages = measured["passages"]
    places = _and([f"`{each['where']}`" for each in passages])
    return f"{passages[0]['letter']} to {passages[-1]['letter']} are {places}."


def _score(entry: Mapping[str, Any]) -> str:
    return "not found" if entry["score"] is None else f"{entry['score']:.3f}"


def _and(things: Sequence[object]) -> str:
    *most, last = map(str, things)
    return f"{', '.join(most)} and {last}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
