"""Query encodings are computed once, cached, and shared between threads."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Sequence
from typing import Any

import pytest

from kb.errors import ModelMissing
from kb.search.query.query_encoder import QueryEncoder
from kb.types import Encoding
from tests.models.weightless import Weightless


class Gated(Weightless):
    """Waits inside the encoder until a test releases it, and may then fail."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.gate = threading.Event()
        self.broken = False
        self.wanted: list[frozenset[str]] = []

    def encode(self, texts: Sequence[str], **asked: Any) -> list[Encoding]:
        self.wanted.append(frozenset(asked["want"]))
        self.entered.set()
        assert self.gate.wait(30)
        made = super().encode(texts, **asked)
        if self.broken:
            raise RuntimeError("out of memory")
        return made


@pytest.fixture
def open_gate() -> Gated:
    encoder = Gated()
    encoder.gate.set()
    return encoder


def test_all_parts_in_one_pass(open_gate: Gated) -> None:
    encodings = QueryEncoder(lambda: open_gate)
    parts = frozenset({"dense", "sparse", "tokens"})
    made = encodings.encode("harbour keys", parts)
    assert made.vector is not None
    assert made.sparse == {"harbour": 1.0, "keys": 1.0}
    assert made.tokens is not None
    assert len(made.tokens) == 2
    assert encodings.encode("harbour keys", {"sparse"}) == made
    assert open_gate.wanted == [parts]


def test_a_part_that_was_not_made_is_made_later(open_gate: Gated) -> None:
    encodings = QueryEncoder(lambda: open_gate)
    first = encodings.encode("harbour", {"dense"})
    assert (first.sparse, first.tokens) == (None, None)
    second = encodings.encode("harbour", {"dense", "tokens"})
    assert (second.vector, second.tokens is not None) == (first.vector, True)
    assert open_gate.wanted == [{"dense"}, {"tokens"}]


def test_a_part_that_the_model_does_not_give_is_none() -> None:
    encoder = Weightless()
    object.__setattr__(encoder.spec, "gives", frozenset({"dense"}))
    encodings = QueryEncoder(lambda: encoder)
    assert encodings.encode("harbour", {"dense", "sparse"}).sparse is None
    assert encodings.encode("harbour", {"sparse"}).sparse is None
    assert len(encoder.calls) == 1


def test_a_part_without_use_leaves_the_others(open_gate: Gated) -> None:
    encodings = QueryEncoder(lambda: open_gate)
    zero = Encoding(dense=array("f", [0.0] * 64), sparse={"harbour": 1.0})
    open_gate.encode = lambda *_, **__: [zero]  # type: ignore[method-assign]
    made = encodings.encode("harbour", {"dense", "sparse"})
    assert (made.vector, made.sparse) == (None, {"harbour": 1.0})


def test_without_an_encoder() -> None:
    with pytest.raises(ModelMissing):
        QueryEncoder(lambda: None).encode("harbour")


def _ask(encodings: QueryEncoder, told: list[object], want: frozenset[str]) -> threading.Thread:
    def work() -> None:
        try:
            told.append(encodings.encode("harbour", want))
        except RuntimeError as error:
            told.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    return thread


class Watched:
    """A lock that records every thread that waits for it."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self.comers = threading.Semaphore(0)
        self.release, self.locked = lock.release, lock.locked

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if blocking:
            self.comers.release()
        return self._lock.acquire(blocking, timeout)


@pytest.mark.parametrize("broken", [False, True])
def test_one_encodes_and_the_others_wait(broken: bool) -> None:
    """Failures are shared too: waiting threads do not repeat them."""
    encoder = Gated()
    encoder.broken = broken
    encodings = QueryEncoder(lambda: encoder)
    told: list[object] = []
    parts = frozenset({"dense", "sparse"})
    threads = [_ask(encodings, told, parts)]
    assert encoder.entered.wait(30)
    (entry,) = encodings._entries.values()
    watched = Watched(entry.lock)
    entry.lock = watched  # type: ignore[assignment]
    threads += [_ask(encodings, told, parts) for _ in range(4)]
    assert watched.locked()
    for _ in range(4):
        assert watched.comers.acquire(timeout=30)
    encoder.gate.set()
    for thread in threads:
        thread.join(30)
    assert len(told) == 5
    assert len(encoder.calls) == (1 + len(parts) if broken else 1)  # each part by itself, once
    assert all(one == told[0] for one in told)
    assert (told[0] == "out of memory") == broken == (not encodings.warm)
