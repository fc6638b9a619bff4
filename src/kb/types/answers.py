"""The answer to a question: sentences from the store, each with its citation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kb.types.citations import Citation
from kb.types.search import Degraded


@dataclass(frozen=True, slots=True)
class AnswerSentence:
    """A sentence of a passage that probably answers the question. `text` is the sentence as it
    appears in the document, without line breaks; `citation` names its lines or its page. A higher
    `score` is better, and comparable only within one answer. `relevance` is that of the passage."""

    rank: int
    text: str
    score: float
    relevance: float
    citation: Citation
    chunk_id: int
    doc_path: str
    title: str
    heading_path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WrittenSentence:
    """A sentence that a language model wrote, with the passages that it cites.

    `state` is the result of the check: `supported` by these passages; `unsupported`; `unknown` if
    it cites a passage that does not exist; `uncited` if it cites none; `unchecked` if there is no
    judge.
    """

    text: str
    citations: tuple[Citation, ...]
    state: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The sentences that answer a question best, best first. There are none if no passage is
    relevant; `closest` then cites the passages that come nearest."""

    question: str
    sentences: tuple[AnswerSentence, ...]
    closest: tuple[Citation, ...]
    degraded: tuple[Degraded, ...]
    timing_ms: Mapping[str, float]

    @property
    def answered(self) -> bool:
        """Whether anything in the store answers the question."""
        return bool(self.sentences)
