"""Finds the documents of a store that judgments refer to.

The judgments of a collection with its own corpus use exact ids. Judgments about a store are written
by people, who may use a path as `kb list` shows it, a citation as `kb search` shows it, a file on
this machine, or the end of a path if it is unique. A number is not a name: the ids of another
collection would match unrelated documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kb.errors import EvalDataError, InvalidCitation
from kb.evaluation.qrels import Collection
from kb.ports import Store
from kb.snapshots import repeat_if_lost
from kb.text.citations import parse_uri
from kb.text.normalize import nfc
from kb.types import Filters

_MAX_SHOWN = 3  # documents in an error about an ambiguous name


@repeat_if_lost
def resolve_documents(
    collection: Collection, store: Store, *, exact: bool
) -> tuple[Collection, frozenset[str]]:
    """Replace the names of documents with their paths; also return the names without a document.

    Raises `EvalDataError` if no name has a document, since it must be the wrong store.
    """
    names = collection.document_ids()
    with store.snapshot():
        index = _PathIndex(store, exact=exact)
        paths = {name: index.path_of(name) for name in sorted(names)}
    unknown = frozenset(name for name, path in paths.items() if path is None)
    if unknown == names:
        raise EvalDataError(
            f"the store has none of the {len(names)} judged documents, such as {min(names)!r}",
            "use the paths that `kb list` shows, or give another store with --store",
        )
    return _rename_documents(
        collection, {name: path or name for name, path in paths.items()}
    ), unknown


def _rename_documents(collection: Collection, paths: dict[str, str]) -> Collection:
    if all(name == path for name, path in paths.items()):
        return collection
    qrels: dict[str, dict[str, int]] = {}
    for query_id, judgments in collection.qrels.items():
        graded = qrels.setdefault(query_id, {})
        for name, grade in judgments.items():
            if graded.setdefault(paths[name], grade) != grade:
                raise EvalDataError(
                    f"{collection.name}: two grades for {paths[name]!r} and query {query_id!r}, "
                    "under two names",
                    "keep one of them",
                )
    return replace(collection, qrels=qrels)


class _PathIndex:
    """Finds the paths of documents by any of their names."""

    def __init__(self, store: Store, *, exact: bool) -> None:
        self._store = store
        self._exact = exact
        self._by_file: dict[str, list[str]] | None = None

    def path_of(self, name: str) -> str | None:
        if self._exact:
            return name if self._exists(name) else None
        spellings = dict.fromkeys(_spellings(name))
        path = next(filter(self._exists, spellings), None)
        return path or next(filter(None, map(self._by_ending, spellings)), None)

    def _exists(self, path: str) -> bool:
        return self._store.catalog.document_by_path(path) is not None

    def _by_ending(self, name: str) -> str | None:
        """The document whose path ends with the name or, if the name is an absolute path, whose
        path is the end of the name."""
        matches = [
            path
            for path in self._files().get(name.rsplit("/", 1)[-1], ())
            if f"/{path}".endswith(f"/{name}") or name.endswith(f"/{path}")
        ]
        if len(matches) > 1:
            listing = ", ".join(matches[:_MAX_SHOWN]) + (
                ", ..." if len(matches) > _MAX_SHOWN else ""
            )
            raise EvalDataError(
                f"{name!r} matches {len(matches)} documents: {listing}",
                "use more of the path that `kb list` shows",
            )
        return matches[0] if matches else None

    def _files(self) -> dict[str, list[str]]:
        """The paths of all documents, by file name. Read from the store when first used."""
        if self._by_file is None:
            self._by_file = {}
            for document in self._store.catalog.documents(Filters(), None):
                path = document.doc_path
                self._by_file.setdefault(path.rsplit("/", 1)[-1], []).append(path)
        return self._by_file


def _spellings(name: str) -> Iterator[str]:
    yield nfc(name)
    plain = nfc(name).replace("\\", "/").removeprefix("./")
    yield plain
    try:
        yield parse_uri(plain).path
    except InvalidCitation:
        return
