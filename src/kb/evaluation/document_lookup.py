"""Which document of a store is meant by a name in judged data.

A corpus that comes with its judgments has ids, and they are exact. Judgments about a store were
written by a person, who names a document as it comes: by its path, as `kb list` shows it; by a
citation, as `kb search` shows it; by its file on this machine; or by the end of its path, if only
one document's ends so. A number is no name of a document: ids of some other collection would find
whatever has that number here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kb.errors import EvalDataError, InvalidCitation
from kb.evaluation.qrels import Judged
from kb.ports import Store
from kb.text.citations import parse_uri
from kb.text.normalize import nfc
from kb.types import Filters

_SHOWN = 3  # of documents that have the same name


def known(judged: Judged, store: Store, *, exact: bool) -> tuple[Judged, frozenset[str]]:
    """The data with the paths of documents for their names, and the names that are nobody's. If
    all of them are, it is the wrong store, and figures would say nothing."""
    names = judged.document_ids()
    with store.snapshot():
        catalogue = _Catalogue(store, exact=exact)
        paths = {name: catalogue.path_of(name) for name in sorted(names)}
    unknown = frozenset(name for name, path in paths.items() if path is None)
    if unknown == names:
        raise EvalDataError(
            f"none of the {len(names)} judged documents is there, such as {min(names)!r}",
            "documents are named as `kb list` shows them; --store names another store",
        )
    return _renamed(judged, {name: path or name for name, path in paths.items()}), unknown


def _renamed(judged: Judged, paths: dict[str, str]) -> Judged:
    if all(name == path for name, path in paths.items()):
        return judged
    qrels: dict[str, dict[str, int]] = {}
    for query_id, judgments in judged.qrels.items():
        graded = qrels.setdefault(query_id, {})
        for name, grade in judgments.items():
            if graded.setdefault(paths[name], grade) != grade:
                raise EvalDataError(
                    f"{judged.name}: two grades for {paths[name]!r} and query {query_id!r}, "
                    "under two names",
                    "keep one of them",
                )
    return replace(judged, qrels=qrels)


class _Catalogue:
    """The documents of a store by all their names."""

    def __init__(self, store: Store, *, exact: bool) -> None:
        self._store = store
        self._exact = exact
        self._by_file: dict[str, list[str]] | None = None

    def path_of(self, name: str) -> str | None:
        if self._exact:
            return name if self._is_there(name) else None
        spelled = dict.fromkeys(_spellings(name))
        found = next(filter(self._is_there, spelled), None)
        return found or next(filter(None, map(self._ending, spelled)), None)

    def _is_there(self, path: str) -> bool:
        return self._store.catalog.document_by_path(path) is not None

    def _ending(self, name: str) -> str | None:
        """The document whose path ends as the name does, or the name as its path: a path from the
        root of the file system ends in the store's own."""
        alike = [
            path
            for path in self._files().get(name.rsplit("/", 1)[-1], ())
            if f"/{path}".endswith(f"/{name}") or name.endswith(f"/{path}")
        ]
        if len(alike) > 1:
            told = ", ".join(alike[:_SHOWN]) + (", ..." if len(alike) > _SHOWN else "")
            raise EvalDataError(
                f"{name!r} names {len(alike)} documents: {told}",
                "write more of its path, as `kb list` shows it",
            )
        return alike[0] if alike else None

    def _files(self) -> dict[str, list[str]]:
        """Paths by the name of their file; read only where a name is nobody's path."""
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
