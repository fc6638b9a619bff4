"""The bound on what requests and answers take: who gives way, and who has to come back."""

from __future__ import annotations

import asyncio

import pytest

from kb.errors import TooBusy
from kb.server.memory import Memory


def test_what_fits_is_given_and_comes_back() -> None:
    room = Memory(100)
    with room.claim() as first, room.claim() as second:
        room.grow(first, 60)
        room.grow(second, 40)
        assert room.used_bytes == 100
        with pytest.raises(TooBusy):
            room.grow(second, 1)
        assert room.used_bytes == 100
    assert room.used_bytes == 0


def test_what_is_larger_than_all_there_is_gets_it_alone() -> None:
    room = Memory(100)
    with room.claim() as large:
        room.grow(large, 500)
        with room.claim() as other, pytest.raises(TooBusy):
            room.grow(other, 1)


def test_the_one_that_has_stalled_the_longest_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("kb.server.memory.time.monotonic", lambda: now)

    async def stall() -> list[str]:
        nonlocal now
        ended: list[str] = []
        room = Memory(100)

        async def wait(name: str) -> None:
            with room.claim() as claim:
                room.grow(claim, 40)
                try:
                    async with asyncio.timeout(None) as scope:
                        with claim.waiting(scope):
                            await asyncio.Event().wait()
                except TimeoutError:
                    ended.append(name)
                    assert claim.is_evicted

        tasks = []
        for name in ("first", "second"):
            tasks.append(asyncio.ensure_future(wait(name)))
            await asyncio.sleep(0)
            now += 0.5
        with room.claim() as claim:
            now += 0.5  # the first has waited for 1.5 s, the second for 1 s
            room.grow(claim, 60)
            await asyncio.gather(tasks[0])
            assert room.used_bytes == 100
        tasks[1].cancel()
        return ended

    assert asyncio.run(stall()) == ["first"]
