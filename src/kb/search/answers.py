"""Answers a question with sentences from the store, without a language model.

The passages come from a search. Of the relevant ones, every sentence, list item and table row is
scored: by the share of the question's words that it contains, weighted by their rarity among these
sentences; by the similarity of its token vectors to those of the question; and by the rank of its
passage. The answer consists of the best of them, each with its citation. If no passage is relevant,
there is no answer.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kb.errors import InvalidRequest, check_integer
from kb.relevance import is_weak
from kb.search.query.analysis import Analysis, analyze
from kb.search.results.hits import CandidateCache
from kb.search.results.layout import Layout, Unit, lay_out
from kb.search.results.snippets import (
    match_ranges,
    rarity,
    without_front_matter,
    without_headings,
)
from kb.snapshots import repeat_if_lost
from kb.text.citations import cite
from kb.text.links import locate
from kb.types import Answer, AnswerSentence, Citation, Hit, SearchRequest, Span

if TYPE_CHECKING:
    from kb.ports import Store
    from kb.search.searcher import Searcher

PASSAGES = 6  # in which answers are searched
SENTENCES = 3
MAX_SENTENCES = 20
_CLOSEST = 3  # passages to cite if nothing answers
_RANK = 0.15  # subtracted from a sentence's score for each passage ranked above its own
_MAX_CHARS = 20_000  # of a passage; only huge tables are longer
_LEAST_CHARS = 3
_MARKER = re.compile(r"(?:[-*+•‣◦]|\d{1,3}[.)])[ \t]+(?=\S)")  # of a list item
_HEADING = re.compile(r"#{1,6}[ \t]")
_QUESTION = re.compile(r"[?？؟]['\")\]»”’]*$")


class _Candidate(NamedTuple):
    """A sentence of a hit. `terms` are the words of the question in it."""

    hit: Hit
    text: str
    terms: frozenset[str]
    near: float


@repeat_if_lost
def ask(
    searcher: Searcher,
    store: Store,
    request: SearchRequest,
    sentences: int = SENTENCES,
    link_form: str = "file",
) -> Answer:
    """Answer `request.query` with at most this many sentences. Raises `InvalidRequest` if the
    question is empty."""
    check_integer("sentences", sentences, least=1)
    if sentences > MAX_SENTENCES:
        raise InvalidRequest(f"sentences cannot be {sentences}", f"use at most {MAX_SENTENCES}")
    began = time.perf_counter()
    with searcher.deadline(), store.snapshot():
        response = searcher.search(
            replace(request, top=request.top or PASSAGES, include_text=True, malformed="empty")
        )
        relevant = [hit for hit in response.hits if hit.relevance and not is_weak(hit)]
        analysis = analyze(request.query)
        candidates = _candidates(searcher, store, request, relevant, analysis)
        best = rank_sentences(candidates)[:sentences]
        locations = store.catalog.file_locations({each.hit.doc_id for each, _ in best})
        found = tuple(
            _sentence(rank, each, score, locate(
                _narrow(each), each.hit.type, locations.get(each.hit.doc_id), link_form
            ))
            for rank, (each, score) in enumerate(best, start=1)
        )  # fmt: skip
    total_ms = (time.perf_counter() - began) * 1000
    search_ms = response.timing_ms["total"]
    return Answer(
        question=request.query,
        sentences=found,
        closest=() if found else tuple(hit.citation for hit in response.hits[:_CLOSEST]),
        degraded=response.degraded,
        timing_ms={"search": search_ms, "sentences": total_ms - search_ms, "total": total_ms},
    )


def rank_sentences(candidates: Sequence[_Candidate]) -> list[tuple[_Candidate, float]]:
    """The sentences with their scores, best first; sentences with the same text only once."""
    weights = rarity([each.terms for each in candidates])
    total = sum(weights.values()) or 1.0
    scored = [
        (each, sum(weights[term] for term in sorted(each.terms)) / total + each.near
         - _RANK * (each.hit.rank - 1))
        for each in candidates
    ]  # fmt: skip
    scored.sort(key=lambda pair: -pair[1])
    seen: set[str] = set()
    unique = []
    for each, score in scored:
        key = " ".join(each.text.casefold().split())
        if key not in seen:
            unique.append((each, score))
        seen.add(key)
    return unique


def _candidates(
    searcher: Searcher,
    store: Store,
    request: SearchRequest,
    hits: Sequence[Hit],
    analysis: Analysis,
) -> list[_Candidate]:
    layouts = {hit.chunk_id: _layout(hit, analysis) for hit in hits}
    near: Mapping[int, Sequence[float]] = {}
    similarity = searcher.similarity(request) if layouts else None
    if similarity is not None:
        cache = CandidateCache(store)
        cache.fetch_chunks(layouts)
        near = similarity(request.query, layouts, cache)
    return [
        candidate
        for hit in hits
        for candidate in _sentences(
            hit, layouts[hit.chunk_id], near.get(hit.chunk_id, ()), analysis
        )
    ]


def _layout(hit: Hit, analysis: Analysis) -> Layout:
    """The sentences and lines of a passage. Code is shown as its snippet."""
    if hit.type == "code":
        return Layout(hit.snippet, (Unit(0, len(hit.snippet)),))
    text = without_front_matter((hit.text or "")[:_MAX_CHARS], analysis)
    if hit.type not in ("note", "table"):
        text = without_headings(text, (*hit.heading_path, hit.title))
    return lay_out(text, by_lines=hit.type == "table")


def _sentences(
    hit: Hit, layout: Layout, near: Sequence[float], analysis: Analysis
) -> Iterable[_Candidate]:
    """The sentences of a hit. A heading, a question or the first row of a table is not an answer:
    its words and its similarity count for the unit below it."""
    matches = match_ranges(layout.text, analysis)
    rated = [
        (
            frozenset(term for start, _, term in matches if unit.start <= start < unit.end),
            near[number] if number < len(near) else 0.0,
        )
        for number, unit in enumerate(layout.units)
    ]
    above: int | None = None  # the heading or question above the unit
    for number, unit in enumerate(layout.units):
        text = layout.text[unit.start : unit.end].strip()
        if _is_introduction(layout, number, text):
            above = number
            continue
        if len(text) >= _LEAST_CHARS:
            counted = [rated[each] for each in (number, above, unit.header) if each is not None]
            terms = frozenset[str]().union(*(each for each, _ in counted))
            yield _Candidate(
                hit, _with_header(layout, number), terms, max(value for _, value in counted)
            )
        if unit.header is None:
            above = None


def _is_introduction(layout: Layout, number: int, text: str) -> bool:
    """Whether a unit only introduces the next one."""
    if number + 1 == len(layout.units):
        return bool(_HEADING.match(text))
    is_first_row = layout.units[number].header == number == layout.units[number + 1].header
    return is_first_row or bool(_HEADING.match(text) or _QUESTION.search(text))


def _with_header(layout: Layout, number: int) -> str:
    """The text of a unit without the marker of a list item; a row of a table has the table's first
    row above it."""
    unit = layout.units[number]
    text = layout.text[unit.start : unit.end].strip()
    if unit.header is None or unit.header == number:
        return _MARKER.sub("", text, count=1) if _MARKER.match(text) else text
    header = layout.units[unit.header]
    return f"{layout.text[header.start : header.end].strip()}\n{text}"


def _narrow(candidate: _Candidate) -> Citation:
    """The citation of the sentence's own lines, if the passage is cited by lines that are those of
    its text; otherwise the citation of the passage."""
    hit, span = candidate.hit, candidate.hit.citation.span
    passage = hit.text or ""
    if span.start is None or span.end is None or hit.type == "code":
        return hit.citation
    if span.end - span.start != passage.count("\n"):
        return hit.citation
    words = candidate.text.rsplit("\n", 1)[-1].split()
    place = re.search(r"\s+".join(map(re.escape, words)), passage)
    if place is None:
        return hit.citation
    start = span.start + passage.count("\n", 0, place.start())
    end = start + passage.count("\n", place.start(), place.end())
    lines = Span(span.kind, start, end, symbol=span.symbol, lang=span.lang)
    return cite(hit.doc_path, lines, hit.section_label)


def _sentence(rank: int, candidate: _Candidate, score: float, citation: Citation) -> AnswerSentence:
    hit = candidate.hit
    return AnswerSentence(
        rank=rank,
        text=candidate.text,
        score=round(score, 6),
        relevance=hit.relevance or 0.0,
        citation=citation,
        chunk_id=hit.chunk_id,
        doc_path=hit.doc_path,
        title=hit.title,
        heading_path=hit.heading_path,
    )
