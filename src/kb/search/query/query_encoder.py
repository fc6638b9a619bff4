"""Queries as a model sees them: one pass of the encoder gives every part that a search asks for.

The retrievers of one search ask at the same time, and a person who types on asks again. So what was
made is kept, one thread encodes a text while the others that want it wait, and what was not asked
for before (the tokens, for a reranker) is made when it is. Where all parts at once fail, each is
tried by itself: one that cannot be made leaves the others.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from math import inf, sqrt
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from kb.deadline import pause_deadline
from kb.errors import InvalidRequest, ModelBroken, ModelMissing
from kb.search.retrievers.availability import EncoderSource

if TYPE_CHECKING:
    from kb.ports import Encoder
    from kb.types import Encoding, TokenVectors, Vector


_CACHE_SIZE = 256  # queries: a person types on, an agent asks again
_NO_PARTS: frozenset[str] = frozenset()
_PARTS = ("dense", "sparse", "tokens")
_WARM = "warm"  # a text to load a model by


@dataclass(frozen=True, slots=True)
class QueryEncoding:
    """A query's parts: None where one was not asked for, or the model gave none. The vector is at
    length 1; `truncated` tells how many tokens of the query the model did not see."""

    vector: Vector[float] | None = None
    sparse: Mapping[str, float] | None = None
    tokens: TokenVectors | None = None
    truncated: int = 0


class _Key(NamedTuple):
    model: str
    version: str
    text: str


class _Entry:
    """What there is of one text. Who holds the lock may add to it."""

    __slots__ = ("began", "encoding", "errors", "failures", "lock", "parts")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.began = 0.0
        self.parts = _NO_PARTS
        self.encoding = QueryEncoding()
        self.failures = 0
        self.errors: dict[str, Exception] = {}  # of the parts that could not be made last time


class QueryEncoder:
    """Encodings of queries, made when they are asked for. Shared between threads. `timeout_s` is
    how long an encoder may take before those that wait for another's text give up."""

    def __init__(self, source: EncoderSource, *, timeout_s: float | None = None) -> None:
        self._source = source
        self._patience_s = timeout_s
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        self._lock = threading.Lock()
        self.warm = False  # whether the model has answered: it is loaded, and can be held to a time

    def of(
        self,
        text: str,
        want: Set[str] = frozenset({"dense"}),
        encoder: Encoder | None = None,
        *,
        need: Set[str] | None = None,
    ) -> QueryEncoding:
        """The parts of `want` that the model gives, and those that were made before. What the
        caller cannot do without are those that it has `need` of, all of them if it does not say:
        others may fail, and are left to who needs them. `encoder` is the one that a search began
        with: another may have come to answer since. Who finds the text being encoded waits; if that
        fails, so does this, and if it takes too long, it is a `TimeoutError`."""
        encoder = encoder or self._source()
        if encoder is None:
            raise ModelMissing("the encoder is switched off", "set models.encoder")
        entry = self._entry(_Key(encoder.spec.name, encoder.spec.version, text))
        needed = (want if need is None else need) & encoder.spec.gives
        timeout_s = self._patience_s if self.warm else None
        with nullcontext() if self.warm else pause_deadline(), _locked(entry, timeout_s, needed):
            if needed - entry.parts:
                self._add(entry, encoder, text, (want & encoder.spec.gives) - entry.parts)
                _raise_first(entry, needed)
            return entry.encoding

    def load(self) -> None:
        """Have the model loaded, so that what comes next takes the time it takes."""
        encoder = None if self.warm else self._source()
        if encoder is not None:
            with pause_deadline():
                encoder.encode([_WARM], as_query=True)
            self.warm = True

    def _entry(self, key: _Key) -> _Entry:
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            if len(self._entries) > _CACHE_SIZE:
                self._entries.popitem(last=False)
            return entry

    def _add(self, entry: _Entry, encoder: Encoder, text: str, missing: Set[str]) -> None:
        entry.errors = {}
        if not self._encode_parts(entry, encoder, text, missing) and len(missing) > 1:
            for part in _PARTS:
                if part in missing:
                    self._encode_parts(entry, encoder, text, {part})
        entry.failures += bool(entry.errors)

    def _encode_parts(self, entry: _Entry, encoder: Encoder, text: str, parts: Set[str]) -> bool:
        """Whether these could be made, all at once."""
        try:
            made = encoder.encode([text], as_query=True, want=parts)[0]
            entry.encoding = _with_parts(entry.encoding, made)
        except Exception as error:  # noqa: BLE001  # of a model or a library: raised to who needs it
            entry.errors |= dict.fromkeys(parts, error)
            return False
        entry.parts |= parts
        entry.errors = {part: why for part, why in entry.errors.items() if part not in parts}
        self.warm = True
        return True


@contextmanager
def _locked(entry: _Entry, timeout_s: float | None, needed: Set[str]) -> Iterator[None]:
    """The entry's lock. What went wrong while this waited for it is not tried a second time."""
    failures = entry.failures
    if not entry.lock.acquire(blocking=False) and not _acquire(entry, timeout_s):
        raise TimeoutError(f"no answer within {timeout_s:g} s")
    entry.began = time.perf_counter()
    try:
        if entry.failures > failures:
            _raise_first(entry, needed)
        yield
    finally:
        entry.lock.release()


def _raise_first(entry: _Entry, needed: Set[str]) -> None:
    for part in _PARTS:
        if part in needed and part in entry.errors:
            raise entry.errors[part]


def _acquire(entry: _Entry, timeout_s: float | None) -> bool:
    """Whether the lock was had. An encoder that hangs since long ago is not waited for again."""
    if timeout_s is None:
        return entry.lock.acquire()
    left_s = timeout_s - (time.perf_counter() - entry.began)
    return entry.lock.acquire(timeout=max(0.0, left_s))


def _with_parts(known: QueryEncoding, made: Encoding) -> QueryEncoding:
    """`known` with the parts that were made. A vector without direction is none: who needs it says
    so, and the other parts are as good as before."""
    vector = known.vector
    if made.dense is not None:
        with suppress(InvalidRequest):
            vector = normalize(made.dense)
    return QueryEncoding(
        vector=vector,
        sparse=known.sparse if made.sparse is None else made.sparse,
        tokens=known.tokens if made.tokens is None else made.tokens,
        truncated=made.truncated,
    )


def unusable_part(model: str | None, part: str) -> ModelBroken:
    """The error of a part that the model says it gives, and did not."""
    return ModelBroken(f"{model} gave no usable {part} vector", "see: kb models verify")


# --- vectors that callers bring -------------------------------------------------------------------


def is_empty(embedding: Sequence[float] | None) -> bool:
    """Whether a vector was given that has no numbers."""
    if embedding is None:
        return False
    check_list(embedding)
    return not len(embedding)


def normalize(vector: Sequence[float]) -> Vector[float]:
    """The vector at length 1 [004]. One that has no direction cannot be used."""
    check_list(vector)
    try:
        given = array("d", vector)
    except (TypeError, ValueError):
        raise _no_list() from None
    except OverflowError:
        given = array("d", [inf])
    length = sqrt(sum(map(mul, given, given)))
    if not 0.0 < length < inf:  # nor is a NaN
        raise InvalidRequest(
            "an embedding is zero or not finite", "it has no direction; encode the text again"
        )
    return array("f", [value / length for value in given])


def check_list(vector: object) -> None:
    """Refuses what is no list at all. Bytes would be read as the memory of numbers."""
    ranked_list = hasattr(vector, "__len__") and hasattr(vector, "__getitem__")
    if not ranked_list or isinstance(vector, str | bytes | bytearray | Mapping):
        raise _no_list()


def _no_list() -> InvalidRequest:
    return InvalidRequest("an embedding is not a list of numbers", "give numbers")
