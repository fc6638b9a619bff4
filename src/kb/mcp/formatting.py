"""What the tools say. An agent pays for every character it reads: an answer is plain text, holds no
more than `max_chars`, and where something is left, its last line says how to ask for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kb.degradation import degradation_messages
from kb.errors import KbError
from kb.text.headings import SEPARATOR
from kb.types import Document, Hit, Passage, Response

DEFAULT_CHARS = 12_000
LEAST_CHARS, MOST_CHARS = 500, 200_000
_FOOT_CHARS = 300  # kept free for what stands below the hits or the text
_SHOWN_TAGS = 40


def found(response: Response, *, offset: int, top: int, max_chars: int) -> str:
    """The hits behind the first `offset`, as many as fit; the first one always does."""
    hits = response.hits[offset : offset + top]
    shown = _fitting(map(_hit, hits), max_chars - _FOOT_CHARS)
    last = offset + len(shown)
    foot = list(_degraded(response))
    if not shown:
        shown = [f"no hits behind the first {offset}" if offset else "nothing found"]
    elif last < len(response.hits) or len(hits) == top:
        foot.insert(0, f"[hits {offset + 1} to {last}; for more: offset={last}]")
    return "\n\n".join([*shown, "\n".join(foot)] if foot else shown)[:max_chars]


def _fitting(texts: Iterable[str], room: int) -> list[str]:
    """The first of `texts`, cut if need be, and those that fit in behind it."""
    shown: list[str] = []
    for text in texts:
        if shown and len(text) + 2 > room:
            break
        shown.append(text[:room])
        room -= len(text) + 2
    return shown


def _hit(hit: Hit) -> str:
    about = [
        hit.type,
        *([hit.kind] if hit.kind else []),
        *(f"#{_visible(tag)}" for tag in hit.tags),
    ]
    heading = _visible(SEPARATOR.join(dict.fromkeys((hit.title, *hit.heading_path))))
    return (
        f"{hit.rank}. {hit.citation.uri}\n   {heading} ({', '.join(about)}; score {hit.score:.3f})"
        f"\n   {' '.join(hit.snippet.split())}"
    )


def _degraded(response: Response) -> Iterable[str]:
    """What waits for vectors gets them from the server itself."""
    for text in degradation_messages(response.degraded, can_embed=lambda: False):
        yield f"degraded: {text}"[:_FOOT_CHARS]


_STATES = {
    "exact": "as it was indexed",
    "moved": "it has moved to this place since it was indexed",
    "stale": "its file has changed since it was indexed",
}


def opened(passage: Passage, *, offset: int, max_chars: int) -> str:
    """The text behind the first `offset` characters, as much as fits."""
    document, text = passage.document, passage.text
    why = passage.reason or _STATES[passage.state]
    head = f"{passage.citation.uri}\n{_visible(document.title)} ({passage.state}: {why})"
    head = head[: max_chars // 2]
    room = max_chars - len(head) - _FOOT_CHARS // 2
    part = text[offset : offset + room]
    behind = offset + len(part)
    if offset and not part:
        return f"{head}\n\n[its text has {len(text)} characters]"
    more = f"\n\n[characters {offset + 1} to {behind} of {len(text)}; for more: offset={behind}]"
    return f"{head}\n\n{part}" + (more if behind < len(text) else "")


def added(document: Document) -> str:
    expires = f", until {document.expires_at}" if document.expires_at else ""
    return (
        f"{document.doc_path}\nstored as {document.title!r}{expires}; its words can be searched now"
    )


def _many(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def standing(status: Mapping[str, Any], *, max_chars: int) -> str:
    vectors = status["vectors"]
    encoder = vectors["encoder"] or "no encoder"
    waiting = f", {_many(vectors['pending'], 'passage')} waiting" if vectors["pending"] else ""
    lines = [
        f"{_many(status['documents'], 'document')}, {_many(status['chunks'], 'passage')}"
        f" in {status['store']}",
        f"search by meaning: {vectors['state']} ({encoder}{waiting})",
        *_counted("types", status["by_type"]),
        *_counted("kinds", status["by_kind"]),
        *_counted("tags", status["tags"]),
        *map(_root, status["roots"]),
    ]
    if status["expired"]:
        lines.append(f"{status['expired']} expired, which are not found")
    return "\n".join(lines)[:max_chars]


def _counted(name: str, counts: Mapping[str, int]) -> Sequence[str]:
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{_visible(value)} {count}" for value, count in most[:_SHOWN_TAGS])
    rest = f" and {len(most) - _SHOWN_TAGS} more" if len(most) > _SHOWN_TAGS else ""
    return [f"{name}: {listed}{rest}"] if most else []


def _root(root: Mapping[str, Any]) -> str:
    missing = ", not there now" if root["missing"] else ""
    name, path = _visible(root["name"]), _visible(root["path"])
    return f"folder {name}/: {path}, {root['documents']} documents{missing}"


def _visible(text: str) -> str:
    """`text` in a line of its own: a line break in a file's name begins no other line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def failed(error: KbError) -> str:
    """As `error.v1` has it, in lines."""
    shape = error.to_dict()
    return "\n".join(f"{name}: {shape[name]}" for name in ("code", "message", "hint"))
