"""Encodes queries: one pass of the encoder computes every output that a search uses.

The retrievers of a search need the encoding at the same time, and a user who is still typing
repeats the query. So encodings are cached; one thread encodes a text while others that need it
wait; and outputs that were not needed before (token vectors, for a reranker) are added later. If a
pass for all outputs fails, each output is tried alone, so that one failure does not affect the
others.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, nullcontext, suppress
from math import inf

from kb.deadline import pause_deadline
from kb.errors import InvalidRequest, ModelBroken, ModelMissing
from kb.index.normalize import normalize as normalize_vector
from kb.search.retrievers.availability import EncoderSource
from kb.values import TYPE_CHECKING, NamedTuple, dataclass

if TYPE_CHECKING:
    from kb.ports import Encoder
    from kb.types import Encoding, TokenVectors, Vector


_CACHE_SIZE = 256  # queries
_NO_OUTPUTS: frozenset[str] = frozenset()
_OUTPUTS = ("dense", "sparse", "tokens")
_MAX_NUMBERS = 1 << 16  # in a caller's embedding
_WARM = "warm"  # a text to encode, so that the model is loaded


@dataclass(frozen=True, slots=True)
class QueryEncoding:
    """The outputs of the model for a query; None if one was not requested or not produced. `vector`
    is normalized. `truncated` is the number of tokens that did not fit into the model."""

    vector: Vector[float] | None = None
    sparse: Mapping[str, float] | None = None
    tokens: TokenVectors | None = None
    truncated: int = 0


class _Key(NamedTuple):
    model: str
    version: str
    text: str


class _Entry:
    """The cached outputs for one text. The holder of the lock may add to them."""

    __slots__ = ("began", "encoding", "errors", "failures", "lock", "outputs")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.began = 0.0
        self.outputs = _NO_OUTPUTS
        self.encoding = QueryEncoding()
        self.failures = 0
        self.errors: dict[str, Exception] = {}  # of outputs that failed in the last attempt


class QueryEncoder:
    """Encodes queries and caches the encodings. Threads may share it. `timeout_s` limits how long a
    thread waits for another one that is encoding the same text."""

    def __init__(self, source: EncoderSource, *, timeout_s: float | None = None) -> None:
        self._source = source
        self._timeout_s = timeout_s
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        self._lock = threading.Lock()
        self.warm = False  # whether the model is loaded, so that timeouts are fair

    def encode(
        self,
        text: str,
        want: Set[str] = frozenset({"dense"}),
        encoder: Encoder | None = None,
        *,
        need: Set[str] | None = None,
    ) -> QueryEncoding:
        """Return the outputs in `want` that the model has, and those in the cache.

        Only the outputs in `need` must succeed, by default all of `want`; the errors of others are
        raised when they are needed. `encoder` is the one that the search started with, because a
        model switch may replace the active one in the meantime. If another thread is encoding the
        same text, this one waits, and shares its failure. Raises `TimeoutError` if that takes too
        long.
        """
        encoder = encoder or self._source()
        if encoder is None:
            raise ModelMissing("the encoder is disabled", "set models.encoder")
        entry = self._entry(_Key(encoder.spec.name, encoder.spec.version, text))
        needed = (want if need is None else need) & encoder.spec.gives
        loads = self._loads(encoder)
        timeout_s = None if loads else self._timeout_s
        with pause_deadline() if loads else nullcontext(), _lock_entry(entry, timeout_s, needed):
            if needed - entry.outputs:
                self._add(entry, encoder, text, (want & encoder.spec.gives) - entry.outputs)
                _raise_first(entry, needed)
            return entry.encoding

    def load(self) -> None:
        """Load the model, so that the next search need not."""
        encoder = None if self.warm else self._source()
        if encoder is not None:
            with pause_deadline() if self._loads(encoder) else nullcontext():
                encoder.encode([_WARM], as_query=True)
            self.warm = True

    def _loads(self, encoder: Encoder) -> bool:
        """Whether the next encoding loads the model, for which there is no time limit. A server may
        hang instead, so for a server the limits always apply."""
        from kb.ports import traits_of  # a lexical search need not load the ports

        return not self.warm and not traits_of(encoder).remote

    def _entry(self, key: _Key) -> _Entry:
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            self._entries.move_to_end(key)
            if len(self._entries) > _CACHE_SIZE:
                self._entries.popitem(last=False)
            return entry

    def _add(self, entry: _Entry, encoder: Encoder, text: str, missing: Set[str]) -> None:
        entry.errors = {}
        if not self._encode_outputs(entry, encoder, text, missing) and len(missing) > 1:
            for output in _OUTPUTS:
                if output in missing:
                    self._encode_outputs(entry, encoder, text, {output})
        entry.failures += bool(entry.errors)

    def _encode_outputs(
        self, entry: _Entry, encoder: Encoder, text: str, outputs: Set[str]
    ) -> bool:
        """Compute the outputs in one pass; returns whether that succeeded."""
        try:
            encoding = encoder.encode([text], as_query=True, want=outputs)[0]
            entry.encoding = _merge(entry.encoding, encoding)
        except Exception as error:  # noqa: BLE001  # of a model or a library: raised later
            entry.errors |= dict.fromkeys(outputs, error)
            return False
        entry.outputs |= outputs
        entry.errors = {
            output: error for output, error in entry.errors.items() if output not in outputs
        }
        self.warm = True
        return True


@contextmanager
def _lock_entry(entry: _Entry, timeout_s: float | None, needed: Set[str]) -> Iterator[None]:
    """Hold the entry's lock. A failure while waiting for it is raised rather than repeated."""
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
    for output in _OUTPUTS:
        if output in needed and output in entry.errors:
            raise entry.errors[output]


def _acquire(entry: _Entry, timeout_s: float | None) -> bool:
    """Wait for the lock; returns whether it was acquired. The time counts from the start of the
    encoding, so that an encoder that hangs delays only the first search."""
    if timeout_s is None:
        return entry.lock.acquire()
    left_s = timeout_s - (time.perf_counter() - entry.began)
    return entry.lock.acquire(timeout=max(0.0, left_s))


def _merge(cached: QueryEncoding, encoding: Encoding) -> QueryEncoding:
    """Add new outputs to the cached ones. A zero vector counts as none."""
    vector = cached.vector
    if encoding.dense is not None:
        with suppress(InvalidRequest):
            vector = normalize(encoding.dense)
    return QueryEncoding(
        vector=vector,
        sparse=cached.sparse if encoding.sparse is None else encoding.sparse,
        tokens=cached.tokens if encoding.tokens is None else encoding.tokens,
        truncated=encoding.truncated,
    )


def unusable_output(model: str | None, output: str) -> ModelBroken:
    """The error for a declared output that the model did not produce."""
    return ModelBroken(f"{model} returned no usable {output} vector", "see: kb models verify")


# --- vectors of callers ---------------------------------------------------------------------------


def is_empty(embedding: Sequence[float] | None) -> bool:
    """Whether the vector has no elements; False for None."""
    if embedding is None:
        return False
    check_list(embedding)
    return not len(embedding)


def normalize(vector: Sequence[float]) -> Vector[float]:
    """Return the vector scaled to length 1 [004]. Raises `InvalidRequest` for a zero vector."""
    check_list(vector)
    try:
        values = array("d", vector)
    except (TypeError, ValueError):
        raise _not_a_list() from None
    except OverflowError:
        values = array("d", [inf])
    try:
        return normalize_vector(values)
    except ValueError:
        raise InvalidRequest(
            "an embedding is zero or not finite", "it has no direction; encode the text again"
        ) from None


def check_list(vector: object) -> None:
    """Raise unless the value is a list. `array` would read bytes as raw memory."""
    is_list = hasattr(vector, "__len__") and hasattr(vector, "__getitem__")
    if not is_list or isinstance(vector, str | bytes | bytearray | Mapping):
        raise _not_a_list()
    if len(vector) > _MAX_NUMBERS:  # type: ignore[arg-type]  # it has a length
        raise InvalidRequest(
            f"an embedding has more than {_MAX_NUMBERS:,} numbers", "no model returns that many"
        )


def _not_a_list() -> InvalidRequest:
    return InvalidRequest("an embedding is not a list of numbers", "pass a list of numbers")
