"""Encoders, and what they make of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from array import array

    Vector = array  # of type code "f": numpy and SQLite read its buffer without a copy
else:
    Vector = Sequence  # before Python 3.12, `array` cannot be subscripted

_EXAMINED_IN = {"LATIN": "English", "CJK": "Chinese", "HIRAGANA": "Japanese", "HANGUL": "Korean"}
PASS_MARK = 0.4  # who cannot read knows none, or one by luck


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """What there is to know of an encoder before it is loaded, or of a judge, which gives a
    `score` and has no dimension. `scripts` are those that it reads, as the names of their letters
    begin (`Latin`); none means: any. `max_tokens` is 0 where nobody knows, or there is no limit."""

    name: str
    version: str
    dimension: int
    gives: frozenset[str]  # of PARTS, or a score
    token_dimension: int | None = None
    max_tokens: int = 512
    query_prefix: str = ""
    passage_prefix: str = ""
    scripts: tuple[str, ...] = ()

    @property
    def is_judge(self) -> bool:
        return "score" in self.gives


class ExamMark(NamedTuple):
    """What a part of a model was worth in the exam: how many answers it knew, in a script."""

    part: str
    script: str
    known: int
    asked: int

    def __str__(self) -> str:
        return f"{self.known} of {self.asked} in {_EXAMINED_IN.get(self.script, self.script)}"

    @property
    def passed(self) -> bool:
        return self.known >= PASS_MARK * self.asked


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model whose vectors a store holds, and how many chunks stand where. `sparse` and `tokens`
    tell how many of the ready ones have those parts too. What is left to do (`pending`, `failed`,
    `no_sparse`, `no_tokens`) is counted without expired documents. `role` is `search` for the
    one that answers, `next` for the one that is to do so, `gone` for one that is being dropped;
    `source` is the name its encoder is found by, where that is not the setting's; `marks` are those
    of its exam, None where it has sat none."""

    model_id: int
    name: str
    version: str
    dimension: int
    ready: int
    pending: int
    failed: int
    sparse: int = 0
    tokens: int = 0
    no_sparse: int = 0
    no_tokens: int = 0
    role: str | None = None
    source: str | None = None
    marks: tuple[ExamMark, ...] | None = None

    def lacks(self, part: str) -> int:
        """How many vectors lack that part, `sparse` or `tokens`."""
        return {"sparse": self.no_sparse, "tokens": self.no_tokens}.get(part, 0)

    def failed_scripts(self, part: str) -> frozenset[str]:
        """Those in which that part of the model has failed the exam."""
        return frozenset(mark.script for mark in self._failed(part))

    def reads_nothing(self, part: str) -> bool:
        """Whether that part has failed in every script that it was examined in: then nobody has a
        reason to trust it in others."""
        marks = [one for one in self.marks or () if one.part == part]
        return bool(marks) and not any(mark.passed for mark in marks)

    def verdict(self, part: str) -> str:
        """What the exam has shown that part to be unable to do; empty if nothing."""
        told = ", ".join(map(str, self._failed(part)))
        return f"{self.name} failed kb's exam: it knew {told}" if told else ""

    def _failed(self, part: str) -> list[ExamMark]:
        return [one for one in self.marks or () if one.part == part and not one.passed]


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """A normalised vector for each token that counts, row after row in one buffer."""

    dimension: int
    data: Vector[float]

    def __len__(self) -> int:
        return len(self.data) // self.dimension


@dataclass(frozen=True, slots=True)
class Encoding:
    """What an encoder makes of one text; None where it was not asked for or cannot be given.
    `truncated` says how many tokens did not fit into the model."""

    dense: Vector[float] | None = None
    sparse: Mapping[str, float] | None = None  # token -> weight
    tokens: TokenVectors | None = None
    truncated: int = 0


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A line of `kb models list`. `origin` is `kb`, `pulled`, `folder`, `endpoint` or the package
    that brings the model;
    `problem` says why there is nothing more to know, or what is wrong with it; `marks` are of an
    exam that was just held."""

    name: str
    spec: ModelSpec | None = None
    origin: str | None = None
    path: str | None = None
    size_bytes: int | None = None
    licence: str | None = None
    summary: str | None = None
    in_use: bool = False
    problem: str | None = None
    marks: tuple[ExamMark, ...] | None = None
