"""Encodings of queries: made once, kept, shared between threads."""

from __future__ import annotations

import sys
import threading
from array import array
from collections.abc import Sequence
from typing import Any

import pytest

from kb.errors import ModelMissing
from kb.search.encoded import QueryEncodings
from kb.types import Encoding
from tests.models.weightless import Weightless


class Gated(Weightless):
    """Waits inside of the encoder until it is let go, and then fails if it is told to."""

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
    encodings = QueryEncodings(lambda: open_gate)
    parts = frozenset({"dense", "sparse", "tokens"})
    made = encodings.of("harbour keys", parts)
    assert made.vector is not None
    assert made.sparse == {"harbour": 1.0, "keys": 1.0}
    assert made.tokens is not None
    assert len(made.tokens) == 2
    assert encodings.of("harbour keys", {"sparse"}) == made
    assert open_gate.wanted == [parts]


def test_a_part_that_was_not_made_is_made_later(open_gate: Gated) -> None:
    encodings = QueryEncodings(lambda: open_gate)
    first = encodings.of("harbour", {"dense"})
    assert (first.sparse, first.tokens) == (None, None)
    second = encodings.of("harbour", {"dense", "tokens"})
    assert (second.vector, second.tokens is not None) == (first.vector, True)
    assert open_gate.wanted == [{"dense"}, {"tokens"}]


def test_a_part_that_the_model_does_not_give_is_none() -> None:
    encoder = Weightless()
    object.__setattr__(encoder.spec, "gives", frozenset({"dense"}))
    encodings = QueryEncodings(lambda: encoder)
    assert encodings.of("harbour", {"dense", "sparse"}).sparse is None
    assert encodings.of("harbour", {"sparse"}).sparse is None
    assert len(encoder.calls) == 1


def test_a_part_without_use_leaves_the_others(open_gate: Gated) -> None:
    encodings = QueryEncodings(lambda: open_gate)
    zero = Encoding(dense=array("f", [0.0] * 64), sparse={"harbour": 1.0})
    open_gate.encode = lambda *_, **__: [zero]  # type: ignore[method-assign]
    made = encodings.of("harbour", {"dense", "sparse"})
    assert (made.vector, made.sparse) == (None, {"harbour": 1.0})


def test_without_an_encoder() -> None:
    with pytest.raises(ModelMissing):
        QueryEncodings(lambda: None).of("harbour")


def _ask(encodings: QueryEncodings, told: list[object], want: frozenset[str]) -> threading.Thread:
    def work() -> None:
        try:
            told.append(encodings.of("harbour", want))
        except RuntimeError as error:
            told.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize("broken", [False, True])
def test_one_encodes_and_the_others_wait(broken: bool) -> None:
    """Also for what goes wrong: it is not tried again by each that waited for it."""
    encoder = Gated()
    encoder.broken = broken
    encodings = QueryEncodings(lambda: encoder)
    told: list[object] = []
    parts = frozenset({"dense", "sparse"})
    threads = [_ask(encodings, told, parts)]
    assert encoder.entered.wait(30)
    (entry,) = encodings._kept.values()
    threads += [_ask(encodings, told, parts) for _ in range(4)]
    assert entry.lock.locked()
    while _waiting(threads[1:]):
        pass
    encoder.gate.set()
    for thread in threads:
        thread.join(30)
    assert len(told) == 5
    assert len(encoder.calls) == (1 + len(parts) if broken else 1)  # each part by itself, once
    assert all(one == told[0] for one in told)
    assert (told[0] == "out of memory") == broken == (not encodings.warm)


def _waiting(threads: Sequence[threading.Thread]) -> bool:
    """Whether some have not come to the lock yet. A failure counts for those that had."""
    frames = sys._current_frames()
    inside = [frames.get(thread.ident or 0) for thread in threads]
    return any(frame is None or frame.f_code.co_name != "_waited" for frame in inside)


def test_an_encoder_that_hangs_is_waited_for_once() -> None:
    """By those that find it at work; and not before it has been loaded, which takes its time."""
    encoder = Gated()
    encodings = QueryEncodings(lambda: encoder, patience_s=1e-9)
    told: list[object] = []
    thread = _ask(encodings, told, frozenset({"dense"}))
    assert encoder.entered.wait(30)
    encodings.warm = True
    for _ in range(3):
        with pytest.raises(TimeoutError, match="no answer within"):
            encodings.of("harbour")
    encoder.gate.set()
    thread.join(30)
    assert encodings.of("harbour") == told[0]
    assert len(encoder.calls) == 1


def test_what_failed_is_tried_again_by_the_next_one(open_gate: Gated) -> None:
    encodings = QueryEncodings(lambda: open_gate)
    open_gate.broken = True
    with pytest.raises(RuntimeError):
        encodings.of("harbour")
    open_gate.broken = False
    assert encodings.of("harbour").vector is not None
    assert encodings.warm


def test_encodings_are_forgotten_at_last() -> None:
    encoder = Weightless()
    encodings = QueryEncodings(lambda: encoder)
    for number in range(300):
        encodings.of(f"query {number}")
    encodings.of("query 299")
    encodings.of("query 0")
    assert len(encoder.calls) == 301
    assert len(encodings._kept) <= 256


class Partly(Weightless):
    """Fails where it is to make one of some parts."""

    def __init__(self, *fails: str) -> None:
        super().__init__()
        self.fails = frozenset(fails)
        self.wanted: list[frozenset[str]] = []

    def encode(self, texts: Sequence[str], **asked: Any) -> list[Encoding]:
        self.wanted.append(frozenset(asked["want"]))
        if bad := self.fails & self.wanted[-1]:
            raise RuntimeError(f"no {' and '.join(sorted(bad))}")
        return super().encode(texts, **asked)


ALL = frozenset({"dense", "sparse", "tokens"})


@pytest.mark.parametrize("part", sorted(ALL))
def test_a_part_that_fails_leaves_the_others(part: str) -> None:
    encoder = Partly(part)
    encodings = QueryEncodings(lambda: encoder)
    for other in sorted(ALL - {part}):
        made = encodings.of("harbour", ALL, need={other})
        found = {"dense": made.vector, "sparse": made.sparse, "tokens": made.tokens}
        assert {name for name, each in found.items() if each} == ALL - {part}
    assert encoder.wanted == [ALL, {"dense"}, {"sparse"}, {"tokens"}]  # dense first, and once
    with pytest.raises(RuntimeError, match=f"no {part}$"):
        encodings.of("harbour", ALL, need={part})
    with pytest.raises(RuntimeError, match=f"no {part}$"):
        encodings.of("harbour", ALL)
    encoder.fails = frozenset()
    assert encodings.of("harbour", ALL).tokens is not None


def test_one_part_is_not_tried_twice() -> None:
    encoder = Partly("dense")
    with pytest.raises(RuntimeError):
        QueryEncodings(lambda: encoder).of("harbour")
    assert encoder.wanted == [{"dense"}]


def test_loading_is_done_once() -> None:
    encoder = Weightless()
    encodings = QueryEncodings(lambda: encoder)
    encodings.load()
    encodings.load()
    assert (len(encoder.calls), encodings.warm) == (1, True)
    QueryEncodings(lambda: None).load()
