"""Removes passages that the model cannot read from the lists of the model.

The vectors of a Japanese passage by an English model are noise, and sometimes near a query. Such a
passage is treated as one that has no vectors: it is ranked by its words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kb.search.retrievers import registry
from kb.search.retrievers.base import Candidates
from kb.text.function_words import detect_by_words, is_written_in
from kb.text.scripts import is_unreadable, unsupported_scripts
from kb.types import ScoredChunk

if TYPE_CHECKING:
    from kb.ports import Store
    from kb.search.context import SearchContext

_DEPTH_FACTOR = 4  # how many times more candidates are retrieved if most are unreadable


@dataclass(frozen=True, slots=True)
class Readability:
    """The scripts that the model reads and those it `failed` in, and the language of the query if
    the model does not read it: passages in that language are unreadable too."""

    scripts: tuple[str, ...]
    failed: frozenset[str] = frozenset()
    language: str | None = None

    def unreadable(self, store: Store, chunk_ids: Iterable[int]) -> set[int]:
        """The chunks that the model cannot read."""
        # A model that reads Latin script reads all texts that consist mostly of ASCII characters.
        latin = "Latin" in self.scripts and "LATIN" not in self.failed
        texts = store.catalog.chunk_texts(chunk_ids, wide=latin and self.language is None)
        return {chunk_id for chunk_id, text in texts.items() if self._is_unreadable(text)}

    def _is_unreadable(self, text: str) -> bool:
        if self.language is not None and is_written_in(text, self.language):
            return True
        return is_unreadable(text, self.scripts, self.failed)

    def retrieve(
        self, run: Callable[[int], dict[str, Candidates]], limit: int, store: Store
    ) -> tuple[dict[str, Candidates], set[int]]:
        """Retrieve candidates with `run`, and remove unreadable chunks from the lists of the model.
        If many are unreadable, retrieves more once. Returns the candidates and the unreadable
        chunks."""
        candidates = run(limit)
        if not any(each.ran and _uses_model(name) for name, each in candidates.items()):
            return candidates, set()
        unreadable = self.unreadable(store, _chunk_ids(candidates))
        if len(unreadable) > limit / 2:
            candidates = run(limit * _DEPTH_FACTOR)
            unreadable = self.unreadable(store, _chunk_ids(candidates))
        if not unreadable:
            return candidates, unreadable
        return remove_unreadable(candidates, unreadable, limit), unreadable


def readability(context: SearchContext) -> Readability | None:
    """What the model of a search reads. None if nothing has to be removed: the model reads
    everything, or no retriever uses it, or the request has a vector, or the model cannot read the
    query, so that its lists are empty or the only ones."""
    names = [registry.get(name).model_output for name in context.profile.retrievers]
    outputs = [name for name in names if name is not None]
    if not outputs or context.request.vector is not None:
        return None
    status = context.model.status(outputs[0])
    text = context.query.text
    failed = status.model.failed_scripts(outputs[0]) if status.model else frozenset()
    if not status.usable or unsupported_scripts(text, status.scripts, failed):
        return None
    language = None if context.standalone else unread_language(text, status.languages)
    if not status.scripts and not failed and language is None:
        return None
    return Readability(status.scripts, failed, language)


def unread_language(text: str, languages: tuple[str, ...]) -> str | None:
    """The language of a query in Latin script, if it is certain and not in `languages`, those that
    the model reads; an empty tuple stands for all."""
    language = detect_by_words(text) if languages else None
    return None if language in languages else language


def suggest_reader(text: str, language: str | None = None) -> str:
    """The end of a message about a query that the model cannot read: an installed model that reads
    it, and the command that switches to it; empty if there is none."""
    from kb.models import reader
    from kb.text.language import detect_language

    other = reader(text, language or detect_language(text, script_only=True))
    if other is None:
        return ""
    name, spec = other
    return f"; {spec.name} {spec.version} reads it: kb reindex --model {name}"


def remove_unreadable(
    candidates: Mapping[str, Candidates], unreadable: Set[int], limit: int
) -> dict[str, Candidates]:
    """Remove unreadable chunks from the lists of the model, and cut all lists at `limit`. The lists
    of the model become partial: they have no scores for these chunks."""
    return {
        name: _remove(name, each, unreadable, limit) if each.ran else each
        for name, each in candidates.items()
    }


def _remove(name: str, each: Candidates, unreadable: Set[int], limit: int) -> Candidates:
    if not _uses_model(name):
        return replace(each, ranked=each.ranked[:limit])
    kept = [one for one in each.ranked if one.chunk_id not in unreadable][:limit]
    ranked = [ScoredChunk(one.chunk_id, one.score, rank) for rank, one in enumerate(kept, 1)]
    return replace(each, ranked=tuple(ranked), partial=True)


def _uses_model(retriever: str) -> bool:
    return registry.get(retriever).model_output is not None


def _chunk_ids(candidates: Mapping[str, Candidates]) -> set[int]:
    return {one.chunk_id for each in candidates.values() for one in each.ranked}
