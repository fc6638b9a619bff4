"""What is said about a note when it is added, checked: a mistake in it is told before anything is
written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from kb.errors import InvalidRequest, choose, text_of
from kb.ingest.dates import expiry
from kb.types import KINDS, SCOPES, TRUSTS, Attributes
from kb.words import nfc


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
            text_of(name, value)
    for name, value, valid in (("kind", kind, KINDS), ("scope", scope, SCOPES),
                               ("trust", trust, TRUSTS)):  # fmt: skip
        if value is not None:
            choose(name, value, valid)
    if not text_of("a note", text).strip():
        raise InvalidRequest("the note is empty", "give it a text")
    return Attributes(
        title=title,
        tags=clean_tags(tags),
        kind=kind,
        scope=scope,
        trust=trust,
        lang=lang,
        expires_at=None if ttl is None else _expiry(ttl, now_s),
        metadata=_jsonable(metadata or {}),
    )


def clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Each once, without the # that may stand before it."""
    listed = tags.split(",") if isinstance(tags, str) else tags
    clean = (nfc(text_of("a tag", tag)).strip().lstrip("#") for tag in listed)
    return tuple(dict.fromkeys(tag for tag in clean if tag))


def _expiry(ttl: str, now_s: float) -> str | None:
    try:
        return expiry(ttl, datetime.fromtimestamp(now_s, UTC))
    except ValueError as error:
        raise InvalidRequest(str(error), "units: s, m, h, d, w") from error


def _jsonable(metadata: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return json.loads(json.dumps(dict(metadata), allow_nan=False))  # type: ignore[no-any-return]  # a dict again
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(
            f"metadata is not JSON: {error}", "use texts, numbers, lists"
        ) from error
