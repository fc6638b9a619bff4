"""What is said about a note when it is added, checked: a mistake in it is told before anything is
written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from kb.errors import InvalidRequest, check_choice, check_text, short_repr
from kb.ingest.dates import expiry
from kb.metadata import LANG_CHARS, MAX_TAGS, TAG_CHARS, check_metadata
from kb.text.normalize import nfc
from kb.types import KINDS, SCOPES, TRUSTS, Attributes

_MOST_CHARS = 10_000_000  # so that a line of an export holds it
_MOST_TITLE_CHARS = 10_000


def attributes(
    text: str,
    *,
    title: str | None,
    tags: Iterable[str],
    kind: str | None,
    scope: str | None,
    trust: str | None,
    lang: str | None,
    ttl: str | None,
    metadata: Mapping[str, Any] | None,
    now_s: float,
) -> Attributes:
    """See `KnowledgeBase.add`."""
    for name, value in (("title", title), ("lang", lang), ("ttl", ttl)):
        if value is not None:
            check_text(name, value)
    for name, value, valid in (("kind", kind, KINDS), ("scope", scope, SCOPES),
                               ("trust", trust, TRUSTS)):  # fmt: skip
        if value is not None:
            check_choice(name, value, valid)
    if lang is not None and len(lang) > LANG_CHARS:
        raise InvalidRequest(
            f"lang is longer than {LANG_CHARS} characters", "give a language such as en or pt-BR"
        )
    for name, value, most in (("a note", text, _MOST_CHARS), ("title", title, _MOST_TITLE_CHARS)):
        if (value is not None or name == "a note") and len(check_text(name, value)) > most:
            raise InvalidRequest(
                f"{name} is longer than {most:,} characters", "put it into a file, and ingest that"
            )
    if not text.strip():
        raise InvalidRequest("the note is empty", "give it a text")
    return Attributes(
        title=title,
        tags=new_tags(tags),
        kind=kind,
        scope=scope,
        trust=trust,
        lang=lang,
        expires_at=None if ttl is None else _expiry(ttl, now_s),
        metadata=check_metadata({} if metadata is None else metadata),
    )


def new_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """`clean_tags`, for a document to have: not too long, and not too many."""
    clean = clean_tags(tags)
    if long := [tag for tag in clean if len(tag) > TAG_CHARS]:
        raise InvalidRequest(
            f"the tag {short_repr(long[0])} is longer than {TAG_CHARS} characters",
            "give a shorter one, or put it into the text",
        )
    check_tag_count(len(clean))
    return clean


def check_tag_count(count: int) -> None:
    """`InvalidRequest` if a document cannot have so many tags."""
    if count > MAX_TAGS:
        raise InvalidRequest(
            f"{count:,} tags are more than the {MAX_TAGS:,} of a document", "give fewer tags"
        )


def clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Each once, without the # that may stand before it."""
    if not isinstance(tags, Iterable):
        raise InvalidRequest(f"tags cannot be {short_repr(tags)}", "give a list of texts")
    listed = tags.split(",") if isinstance(tags, str) else tags
    clean = (nfc(check_text("a tag", tag)).strip().lstrip("#") for tag in listed)
    return tuple(dict.fromkeys(tag for tag in clean if tag))


def _expiry(ttl: str, now_s: float) -> str | None:
    try:
        return expiry(ttl, datetime.fromtimestamp(now_s, UTC))
    except ValueError as error:
        raise InvalidRequest(str(error), "units: s, m, h, d, w") from error
