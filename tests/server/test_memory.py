"""The memory budget: which reservations are evicted, which wait, and which are refused."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kb.deadline import Deadline
from kb.errors import TooBusy
from kb.server.memory import MemoryBudget, RequestMemory


def test_memory_is_granted_and_released() -> None:
    room = MemoryBudget(100)
    with room.reservation() as first, room.reservation() as second:
        room.grow(first, 60)
        room.grow(second, 40)
        assert room.used_bytes == 100
        with pytest.raises(TooBusy):
            room.grow(second, 1)
        assert room.used_bytes == 100
    assert room.used_bytes == 0


def test_a_reservation_above_the_limit_is_granted_alone() -> None:
    room = MemoryBudget(100)
    with room.reservation() as large:
        room.grow(large, 500)
        with room.reservation() as other, pytest.raises(TooBusy):
            room.grow(other, 1)


def test_one_large_response_leaves_room_for_others() -> None:
    budget = MemoryBudget(100)
    with budget.reservation() as body, budget.reservation() as large, budget.reservation() as other:
        RequestMemory(budget, body, large).reserve_response(500)
        budget.grow(other, 20)
        with pytest.raises(TooBusy):
            budget.grow(other, 20)
        budget.grow(body, 0)


def test_the_reservation_that_stalled_longest_is_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("kb.server.memory.time.monotonic", lambda: now)

    async def stall() -> list[str]:
        nonlocal now
        ended: list[str] = []
        room = MemoryBudget(100)

        async def wait(name: str) -> None:
            with room.reservation() as claim:
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
        with room.reservation() as claim:
            now += 0.5  # the first has waited for 1.5 s, the second for 1 s
            room.grow(claim, 60)
            await asyncio.gather(tasks[0])
            assert room.used_bytes == 100
        tasks[1].cancel()
        return ended

    assert asyncio.run(stall()) == ["first"]


def test_a_worker_thread_waits_for_memory() -> None:
    budget, reserved = MemoryBudget(100), threading.Event()

    def reserve() -> None:
        with budget.reservation() as second:
            budget.wait_to_grow(second, 60)
            reserved.set()

    with budget.reservation() as first:
        budget.grow(first, 60)
        thread = threading.Thread(target=reserve)
        thread.start()
        assert not reserved.wait(0.2)
    thread.join(30)
    assert reserved.is_set()


def test_a_worker_thread_waits_no_longer_than_its_deadline() -> None:
    budget = MemoryBudget(100)
    with budget.reservation() as first, budget.reservation() as second:
        budget.grow(first, 60)
        with Deadline(0.1), pytest.raises(TooBusy):
            budget.wait_to_grow(second, 60)


def test_a_reservation_that_others_may_wait_for_does_not_wait() -> None:
    budget = MemoryBudget(100)
    with budget.reservation() as first, budget.reservation() as second:
        budget.grow(first, 60)
        budget.grow(second, 10)
        with pytest.raises(TooBusy):  # without a deadline: it would wait for seconds
            budget.wait_to_grow(second, 60)


def test_a_response_reserves_what_is_missing_and_shrinks_to_its_body() -> None:
    budget = MemoryBudget(100)
    with budget.reservation() as body, budget.reservation() as response:
        memory = RequestMemory(budget, body, response)
        memory.reserve_body(10)
        memory.reserve_response(60)
        memory.reserve_response(40)
        assert budget.used_bytes == 70
        memory.shrink_response(20)
        memory.shrink_response(30)
        assert budget.used_bytes == 30
