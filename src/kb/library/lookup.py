"""Finds documents and passages by the names that people use for them.

A name is a path in the store, `note:<id>`, the path of a file on this machine, a citation, or, for
reading only, the end of a path that no other document shares.
"""

from __future__ import annotations

import os

from kb.errors import InvalidCitation, InvalidRequest, NotFound, check_text, short_repr
from kb.ingest.file_names import portable_path
from kb.ports import Store
from kb.text.citations import Target, parse_uri
from kb.text.normalize import nfc
from kb.types import Chunk, Document

_MAX_NAME_CHARS = 10_000
_MAX_SUGGESTION_CHARS = 500  # a longer name gets no suggestions
_MAX_ID_DIGITS = 30
_COMPARED_PATHS = 200  # paths of each kind that are compared for suggestions
_LISTED_PATHS = 10
_LIST_HINT = "kb list shows all documents"


def find_document(store: Store, name: str) -> Document:
    """Find a document by its path in the store or on disk, or by `note:<id>`. Raises `NotFound`
    with a suggestion."""
    if (document := _document(store, name)) is not None:
        return document
    raise NotFound(f"no document {short_repr(name)}", _suggestion(store, nfc(name)))


def find_documents(store: Store, name: str) -> list[Document]:
    """Find a document, or, if `name` ends with a slash, all documents of a root or folder."""
    if not name.endswith("/"):
        return [find_document(store, name)]
    documents = store.catalog.documents_below(nfc(name))
    if not documents and not any(f"{root.name}/" == nfc(name) for root in store.catalog.roots()):
        raise NotFound(f"no documents below {name!r}", _LIST_HINT)
    return documents


def find_chunk(store: Store, chunk_id: int) -> Chunk:
    """Find a chunk by its id. Raises `NotFound`."""
    if not isinstance(chunk_id, int):
        raise InvalidRequest(f"a chunk id cannot be {short_repr(chunk_id)}", "give a number")
    chunk = store.catalog.chunks_by_id([chunk_id]).get(chunk_id)
    if chunk is None:
        raise NotFound(f"no chunk {short_repr(chunk_id)}", "kb search --json shows chunk ids")
    return chunk


def find_passages(store: Store, name: str | int) -> tuple[list[Chunk], bool]:
    """Find the chunks that a chunk id, a citation or a document's path refers to, and whether they
    are the whole document."""
    is_id = isinstance(name, int) or (isinstance(name, str) and name.isdecimal())
    if is_id and len(short_repr(name)) <= _MAX_ID_DIGITS:
        return [find_chunk(store, int(name))], False
    uri = check_text("a passage", name)
    document, target = find_target(store, uri)
    chunks = _cited_chunks(store.catalog.chunks(document.doc_id), target)
    if not chunks:
        raise NotFound(f"{uri} contains no passage", "use a citation from kb search")
    return chunks, len(chunks) == document.chunks


def _cited_chunks(chunks: list[Chunk], target: Target) -> list[Chunk]:
    """The chunks on the page or on any of the lines that a citation names; all chunks if it names
    neither."""
    if target.page is not None:
        return [each for each in chunks if any(span.page == target.page for span in each.spans)]
    if target.start is None:
        return chunks
    start, end = target.start, target.end or target.start
    return [
        each
        for each in chunks
        if each.spans
        and (span := each.spans[0]).start is not None
        and span.end is not None
        and span.start <= end
        and start <= span.end
    ]


def find_target(store: Store, uri: str) -> tuple[Document, Target]:
    """Find the document of a citation, and the lines or the page that it names. A path may contain
    `#` and `%` as they are, without encoding."""
    if (document := _document(store, uri)) is not None:
        return document, Target(uri)
    target = parse_uri(uri)
    document = _document(store, target.path) or _document_by_suffix(store, target.path)
    return document or find_document(store, target.path), target


def _document(store: Store, name: str) -> Document | None:
    if len(name) > _MAX_NAME_CHARS:
        raise InvalidCitation(
            f"a citation is longer than {_MAX_NAME_CHARS:,} characters",
            "use a citation from kb search",
        )
    for path in (nfc(name), *_stored_paths(store, name)):
        if (document := store.catalog.document_by_path(path)) is not None:
            return document
    return None


def _stored_paths(store: Store, name: str) -> list[str]:
    """The paths that a file on this machine could have in the store; those below the innermost root
    come first."""
    if "\0" in name:
        return []
    absolute = os.path.realpath(os.path.expanduser(name))
    roots = sorted(store.catalog.roots(), key=lambda root: len(root.path), reverse=True)
    inside = [
        (root.name, os.path.relpath(absolute, root.path))
        for root in roots
        if absolute.startswith(root.path.rstrip(os.sep) + os.sep)
    ]
    # The store escapes undecodable bytes, and users may type the escaped form.
    return [
        f"{name}/{path}"
        for name, relative in inside
        for path in (portable_path(relative), nfc(relative).replace(os.sep, "/"))
    ]


def _document_by_suffix(store: Store, name: str) -> Document | None:
    """The only document whose path ends with `name`; None if there are several. Use it for reading
    only: a partial name must not select a document to change."""
    if not name or len(name) > _MAX_SUGGESTION_CHARS:
        return None
    paths = store.catalog.paths_with_suffix("/" + nfc(name), 2)
    return store.catalog.document_by_path(paths[0]) if len(paths) == 1 else None


# --- suggestions ----------------------------------------------------------------------------------


def _suggestion(store: Store, name: str) -> str:
    """A hint: `name` is a folder, or the end of a path, or similar to a path."""
    if len(name) > _MAX_SUGGESTION_CHARS:
        return _LIST_HINT
    if store.catalog.has_folder(name + "/"):
        return f"{name}/ is a folder; kb list --path '{name}/**' shows its documents"
    paths = store.catalog.paths_with_suffix("/" + name, _LISTED_PATHS + 1)
    if len(paths) > 1:
        more = ", and others" if len(paths) > _LISTED_PATHS else ""
        return (
            f"several paths end with that: {', '.join(paths[:_LISTED_PATHS])}{more}; {_LIST_HINT}"
        )
    similar = paths or _similar_paths(store, name)
    return f"did you mean {' or '.join(similar)}? {_LIST_HINT}" if similar else _LIST_HINT


def _similar_paths(store: Store, name: str) -> list[str]:
    """The path most similar to `name`, among its alphabetical neighbors and the paths with the same
    file name. Comparing all paths would take minutes."""
    from difflib import get_close_matches  # needed only for suggestions

    file_name = name[name.rfind("/") :] if "/" in name else "/" + name
    candidates = {
        *store.catalog.neighboring_paths(name, _COMPARED_PATHS),
        *store.catalog.paths_with_suffix(file_name, _COMPARED_PATHS),
    }
    return get_close_matches(name, sorted(candidates), n=1, cutoff=0.85)
