"""Models: their specifications, encodings, exam results and stored records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from array import array

    Vector = array  # of type code "f": numpy and SQLite read its buffer without a copy
else:
    Vector = Sequence  # before Python 3.12, `array` cannot be subscripted

_LANGUAGES = {"LATIN": "English", "CJK": "Chinese", "HIRAGANA": "Japanese", "HANGUL": "Korean"}
PASS_MARK = 0.4  # a model that cannot read the language scores 0, or little more by luck


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Describes an encoder or a judge without loading it. A judge computes a `score` and has no
    dimension. `scripts` lists the scripts that the model reads, each by the first word of the
    Unicode names of its letters (`Latin`), and `languages` the ISO 639-1 codes of its languages
    (`en`); empty for any script or language. `max_tokens` is 0 if it is unknown or unlimited."""

    name: str
    version: str
    dimension: int
    gives: frozenset[str]  # members of PARTS, or `score`
    token_dimension: int | None = None
    max_tokens: int = 512
    query_prefix: str = ""
    passage_prefix: str = ""
    scripts: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()

    @property
    def is_judge(self) -> bool:
        """Whether the model is a judge rather than an encoder."""
        return "score" in self.gives


class ExamMark(NamedTuple):
    """The exam result of one part of a model in one script: `known` correct answers to `asked`
    questions."""

    part: str
    script: str
    known: int
    asked: int

    def __str__(self) -> str:
        return f"{self.known} of {self.asked} correct in {_LANGUAGES.get(self.script, self.script)}"

    @property
    def passed(self) -> bool:
        """Whether enough answers are correct."""
        return self.known >= PASS_MARK * self.asked


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model whose vectors are in the store, with the number of chunks in each state.

    `sparse` and `tokens` count the ready chunks that have these parts too. `pending`, `failed`,
    `no_sparse` and `no_tokens` leave out expired documents. `role` is `search` for the model that
    searches use, `next` for the one that will replace it, `gone` for one that is being dropped.
    `source` is the name that its encoder is loaded by, if it is not the configured one. `marks` are
    the results of its exam, or None without an exam.
    """

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
        """How many vectors lack the part `sparse` or `tokens`."""
        return {"sparse": self.no_sparse, "tokens": self.no_tokens}.get(part, 0)

    def failed_scripts(self, part: str) -> frozenset[str]:
        """The scripts in which this part of the model failed the exam."""
        return frozenset(mark.script for mark in self._failed_marks(part))

    def reads_nothing(self, part: str) -> bool:
        """Whether this part failed in every script of the exam, which leaves no reason to trust it
        in others."""
        marks = [mark for mark in self.marks or () if mark.part == part]
        return bool(marks) and not any(mark.passed for mark in marks)

    def verdict(self, part: str, scripts: frozenset[str] | None = None) -> str:
        """A message about the scripts in which this part failed the exam, or about those of them
        that are in `scripts`; empty if there are none."""
        marks = self._failed_marks(part)
        failed = ", ".join(str(mark) for mark in marks if scripts is None or mark.script in scripts)
        return f"{self.name} failed kb's exam: {failed}" if failed else ""

    def _failed_marks(self, part: str) -> list[ExamMark]:
        return [mark for mark in self.marks or () if mark.part == part and not mark.passed]


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """The normalized vectors of a text's tokens, row after row in one buffer."""

    dimension: int
    data: Vector[float] | memoryview

    def __len__(self) -> int:
        return len(self.data) // self.dimension


@dataclass(frozen=True, slots=True)
class Encoding:
    """The outputs of an encoder for one text; None for parts that were not requested or that the
    model lacks. `truncated` is the number of tokens that did not fit into the model."""

    dense: Vector[float] | None = None
    sparse: Mapping[str, float] | None = None  # token -> weight
    tokens: TokenVectors | None = None
    truncated: int = 0


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A line of `kb models list`. `origin` is `kb`, `pulled`, `folder`, `endpoint` or the package
    that provides the model. `problem` is the reason why the model cannot be used. `marks` are the
    results of the exam that `kb models verify` runs. `device` is the device of a local model;
    `missing` describes the vectors that an export does not compute, and how to get them."""

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
    device: str | None = None
    missing: tuple[str, ...] = ()
