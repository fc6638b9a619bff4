"""Adds and edits notes, and changes tags. All values are checked before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kb.errors import EditConflict, InvalidRequest, NotFound, check_choice, check_text, short_repr
from kb.ingest.dates import expiry
from kb.ingest.indexer import Indexer
from kb.metadata import LANG_CHARS, MAX_TAGS, TAG_CHARS, check_metadata
from kb.text.normalize import nfc
from kb.types import KINDS, SCOPES, TRUSTS, Attributes

if TYPE_CHECKING:
    from kb.library.knowledge_base import KnowledgeBase
    from kb.ports import Store
    from kb.types import Document

_MAX_CHARS = 10_000_000  # fits in one line of an export
_MAX_TITLE_CHARS = 10_000


def add(
    kb: KnowledgeBase,
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
    on_warning: Callable[[str], None] | None,
) -> Document:
    """See `KnowledgeBase.add`."""
    attributes = _attributes(
        text, title=title, tags=tags, kind=kind, scope=scope, trust=trust, lang=lang, ttl=ttl,
        metadata=metadata, now_s=kb._clock(),
    )  # fmt: skip
    indexer = Indexer(kb._store, kb.config, kb._clock)
    doc_id = indexer.note(text, attributes, on_warning=on_warning).doc_id
    return kb._store.catalog.documents_by_id([doc_id])[doc_id]


def edit(
    kb: KnowledgeBase,
    name: str,
    text: str,
    *,
    title: str | None,
    tags: Iterable[str],
    kind: str | None,
    ttl: str | None,
    version: str | None,
) -> Document:
    """See `KnowledgeBase.edit`."""
    document = kb.document(name)
    check_editable(document, version)
    attributes = _attributes(
        text, title=title, tags=tags, kind=kind, scope=None, trust=None, lang=None, ttl=ttl,
        metadata=None, now_s=kb._clock(),
    )  # fmt: skip
    attributes = _with_unchanged(attributes, document, ttl)
    Indexer(kb._store, kb.config, kb._clock).note(text, attributes, replaces=document)
    return kb.document(document.doc_path)


def _attributes(
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
    """Check the arguments of `add`. Raises `InvalidRequest`."""
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
    for name, value, limit in (("a note", text, _MAX_CHARS), ("title", title, _MAX_TITLE_CHARS)):
        if (value is not None or name == "a note") and len(check_text(name, value)) > limit:
            raise InvalidRequest(
                f"{name} is longer than {limit:,} characters", "put it into a file, and ingest that"
            )
    if not text.strip():
        raise InvalidRequest("the note is empty", "give it some text")
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


def is_note(document: Document) -> bool:
    return document.root_id is None and document.doc_path.startswith("note:")


def version(document: Document) -> str:
    """A digest of everything that an edit can change, to detect conflicting edits."""
    from hashlib import sha256

    parts = (document.content_hash, document.title, sorted(document.tags), document.kind,
             document.expires_at)  # fmt: skip
    return sha256(repr(parts).encode()).hexdigest()[:20]


def check_editable(document: Document, expected: str | None) -> None:
    """Raise `InvalidRequest` for a file, and `EditConflict` if the note is not at the version
    `expected`."""
    if not is_note(document):
        raise InvalidRequest(
            f"{document.doc_path} is a file", "edit the file itself, and ingest it again"
        )
    if expected is not None and version(document) != expected:
        raise EditConflict(
            f"{document.doc_path} was changed in the meantime", "read it again, and merge both"
        )


def own_title(document: Document, text: str) -> str | None:
    """The title that a note was given; None if its title is its first words."""
    from kb.ingest.parsers.text import first_words

    return None if document.title == first_words(text) else document.title


def _with_unchanged(attributes: Attributes, document: Document, ttl: str | None) -> Attributes:
    """The attributes of an edited note, with those of `document` that an edit does not change."""
    return replace(
        attributes,
        scope=document.scope,
        trust=document.trust,
        lang=document.lang,
        date=document.date,
        created_at=document.created_at,
        expires_at=document.expires_at if ttl is None else attributes.expires_at,
        metadata=document.metadata,
    )


def new_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Normalize tags for a document, and refuse tags that are too long or too many."""
    clean = clean_tags(tags)
    if too_long := [tag for tag in clean if len(tag) > TAG_CHARS]:
        raise InvalidRequest(
            f"the tag {short_repr(too_long[0])} is longer than {TAG_CHARS} characters",
            "give a shorter one, or put it into the text",
        )
    check_tag_count(len(clean))
    return clean


def check_tag_count(count: int) -> None:
    """Raise `InvalidRequest` if a document cannot have this many tags."""
    if count > MAX_TAGS:
        raise InvalidRequest(
            f"{count:,} tags are too many: a document can have at most {MAX_TAGS:,}",
            "give fewer tags",
        )


def clean_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Normalize tags: each once, without a leading #. A string is split at commas."""
    if not isinstance(tags, Iterable):
        raise InvalidRequest(f"tags cannot be {short_repr(tags)}", "give a list of strings")
    given = tags.split(",") if isinstance(tags, str) else tags
    clean = (nfc(check_text("a tag", tag)).strip().lstrip("#") for tag in given)
    return tuple(dict.fromkeys(tag for tag in clean if tag))


def change_tags(
    store: Store, document: Document, add: Iterable[str], remove: Iterable[str]
) -> None:
    """Add and remove tags of a document. Raises `NotFound` for a tag that it does not have."""
    added, removed = new_tags(add), clean_tags(remove)
    sources = store.catalog.tag_sources(document.doc_id)
    for tag in removed:
        if tag not in sources:
            raise NotFound(f"{document.doc_path} has no tag {tag!r}", "kb list shows its tags")
        if sources[tag] == "file" and document.root_id is not None:
            raise InvalidRequest(
                f"the tag {tag!r} is in the front matter of {document.doc_path}",
                "remove it there, and ingest the file again",
            )
    if added:
        check_tag_count(len((sources.keys() | added) - set(removed)))
    if added or removed:
        store.catalog.tag(document.doc_id, added, removed)


def _expiry(ttl: str, now_s: float) -> str | None:
    try:
        return expiry(ttl, datetime.fromtimestamp(now_s, UTC))
    except ValueError as error:
        raise InvalidRequest(str(error), "units: s, m, h, d, w") from error
