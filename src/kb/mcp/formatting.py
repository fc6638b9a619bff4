"""The results of the tools as plain text. Because an agent pays for every character it reads, a
result is at most `max_chars` long, and its last line explains how to get the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kb import relevance
from kb.degradation import degradation_messages
from kb.errors import KbError
from kb.text.controls import escape, escape_lines
from kb.types import Document, Hit, JsonDict, Passage, Response

DEFAULT_CHARS = 12_000
MIN_CHARS, MAX_CHARS = 500, 200_000
_FOOTER_CHARS = 300  # reserved for the lines below the hits or the text
_MAX_VALUES = 40
_WEAK_MATCHES = f"Weak matches (relevance below {relevance.WEAK:g}), probably about something else:"
_NOTHING_RELEVANT = (
    "NOTHING RELEVANT FOUND. All hits below are weak matches "
    f"(relevance below {relevance.WEAK:g}), probably about something else. Do not base an answer "
    "on them: search with other words, or say that the knowledge base does not cover this."
)


def format_hits(
    response: Response,
    *,
    offset: int,
    top: int,
    max_chars: int,
    min_relevance: float | None = None,
) -> str:
    """Return as many hits after the first `offset` as fit, and always at least one. If none is
    relevant, the first line is a note about that."""
    hits = response.hits[offset : offset + top]
    weak = relevance.weak_from(hits)
    room = max_chars - _FOOTER_CHARS - len(_NOTHING_RELEVANT)
    shown = _fit(map(_hit, hits), max(room, max_chars // 2))
    last = offset + len(shown)
    footer = list(_degradation_lines(response))
    if not shown:
        limit = f" with a relevance of at least {min_relevance:g}" if min_relevance else ""
        shown = [f"no hits after the first {offset}" if offset else f"nothing found{limit}"]
    elif weak < len(shown):
        heading = _WEAK_MATCHES if weak else _NOTHING_RELEVANT
        shown[weak] = f"{heading}\n\n{shown[weak]}"
    if hits and (last < len(response.hits) or len(hits) == top):
        footer.insert(0, f"[hits {offset + 1} to {last}; for more: offset={last}]")
    return "\n\n".join([*shown, "\n".join(footer)] if footer else shown)[:max_chars]


def hits_data(response: Response, *, offset: int, top: int) -> JsonDict:
    """Return the relevance and the places of the hits, for clients that read structured results."""
    hits = response.hits[offset : offset + top]
    return {
        "relevant": relevance.has_relevant(hits),
        "hits": [_hit_data(hit) for hit in hits],
    }


def _hit_data(hit: Hit) -> JsonDict:
    citation = hit.citation
    return {
        "citation": escape(citation.uri),
        "relevance": hit.relevance,
        "file": citation.file,
        "line": citation.line,
        "page": citation.page,
        "link": citation.link,
    }


def _fit(texts: Iterable[str], room: int) -> list[str]:
    """Return the first text, truncated if necessary, and the following ones that fit."""
    shown: list[str] = []
    for text in texts:
        if shown and len(text) + 2 > room:
            break
        shown.append(text[:room])
        room -= len(text) + 2
    return shown


def _hit(hit: Hit) -> str:
    labels = [
        hit.type,
        *([hit.kind] if hit.kind else []),
        *(f"#{escape(tag)}" for tag in hit.tags),
    ]
    heading = escape(" › ".join(dict.fromkeys((hit.title, *hit.heading_path))))
    measure = f"score {hit.score:.3f}"
    if hit.relevance is not None:
        measure = f"relevance {hit.relevance:.2f}"
    return (
        f"{hit.rank}. {escape(hit.citation.uri)}\n"
        f"   {heading} ({', '.join(labels)}; {measure})\n"
        f"{_passage(hit)}{_others(hit)}"
    )


def _passage(hit: Hit) -> str:
    """Return the snippet on one line, or the lines of the whole passage, indented."""
    if hit.text is None:
        return f"   {escape(' '.join(hit.snippet.split()))}"
    return "\n".join(f"   {line}" for line in escape_lines(hit.text).split("\n"))


def _others(hit: Hit) -> str:
    """Return a line about duplicates, and about passages of the document that come later."""
    return f"\n   [{hit.others}; to see them: collapse=false]" if hit.others else ""


def _degradation_lines(response: Response) -> Iterable[str]:
    """Yield a line per problem, without advice to run `kb embed`: the server embeds by itself."""
    for text in degradation_messages(response.degraded, can_embed=lambda: False):
        yield f"degraded: {escape(text)}"[:_FOOTER_CHARS]


_STATES = {
    "exact": "unchanged since it was indexed",
    "moved": "it has moved here since it was indexed",
    "stale": "its file has changed since it was indexed",
}


def format_passage(passage: Passage, *, offset: int, max_chars: int) -> str:
    """Return as much of the text after the first `offset` characters as fits."""
    document, text = passage.document, passage.text
    reason = passage.reason or _STATES[passage.state]
    state = f"{passage.state}: {escape(reason)}"
    header = f"{escape(passage.citation.uri)}\n{escape(document.title)} ({state})"
    header = header[: max_chars // 2]
    room = max_chars - len(header) - _FOOTER_CHARS // 2
    part = text[offset : offset + room]
    end = offset + len(part)
    if offset and not part:
        return f"{header}\n\n[the text has {len(text)} characters]"
    more = f"\n\n[characters {offset + 1} to {end} of {len(text)}; for more: offset={end}]"
    return f"{header}\n\n{part}" + (more if end < len(text) else "")


def format_added(document: Document) -> str:
    """Return the citation of a new note."""
    expires = f", until {document.expires_at}" if document.expires_at else ""
    path = escape(document.doc_path)
    return f"{path}\nstored as {document.title!r}{expires}; it can be found by its words now"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def format_status(status: Mapping[str, Any], *, max_chars: int) -> str:
    """Return the contents of the knowledge base: counts, tags and folders."""
    vectors = status["vectors"]
    encoder = escape(vectors["encoder"] or "no encoder")
    pending = f", {_count(vectors['pending'], 'passage')} pending" if vectors["pending"] else ""
    lines = [
        f"{_count(status['documents'], 'document')}, {_count(status['chunks'], 'passage')}"
        f" in {escape(status['store'])}",
        f"search by meaning: {vectors['state']} ({encoder}{pending})",
        *_counts("types", status["by_type"]),
        *_counts("kinds", status["by_kind"]),
        *_counts("tags", status["tags"]),
        *map(_root, status["roots"]),
    ]
    if status["expired"]:
        lines.append(f"{status['expired']} expired, hidden from search")
    return "\n".join(lines)[:max_chars]


def _counts(name: str, counts: Mapping[str, int]) -> Sequence[str]:
    """Return a line with the most frequent values, or none if there are no values."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{escape(value)} {count}" for value, count in ranked[:_MAX_VALUES])
    rest = f" and {len(ranked) - _MAX_VALUES} more" if len(ranked) > _MAX_VALUES else ""
    return [f"{name}: {shown}{rest}"] if ranked else []


def _root(root: Mapping[str, Any]) -> str:
    missing = ", missing" if root["missing"] else ""
    name, path = escape(root["name"]), escape(root["path"])
    return f"folder {name}/: {path}, {_count(root['documents'], 'document')}{missing}"


def format_error(error: KbError) -> str:
    """Return the fields of `error.v1`, one per line."""
    hint = "\n  ".join(map(escape, error.hint.split("\n")))
    return f"code: {error.code}\nmessage: {escape(error.message)}\nhint: {hint}"
