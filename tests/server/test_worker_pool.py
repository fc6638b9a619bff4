"""A bounded number of tasks at a time, and none for clients that have disconnected."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from starlette.requests import Request

from kb.deadline import Deadline
from kb.errors import Cancelled, ClientGone, TooBusy
from kb.server.worker_pool import WorkerPool

PATIENCE_S = 30.0


def request(gone: asyncio.Event | None = None) -> Request:
    async def receive() -> dict[str, Any]:
        await (gone or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http", "method": "GET", "headers": []}, receive)


def test_work_is_done_in_a_thread() -> None:
    pool = WorkerPool("x", 1, 0)
    name = asyncio.run(pool.run(request(), lambda _: threading.current_thread().name))
    pool.close()
    assert name.startswith("kb-x")


def test_errors_come_through() -> None:
    pool = WorkerPool("x", 1, 0)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(pool.run(request(), lambda _: 1 / 0))
    assert pool.task_count == 0
    pool.close()


def test_excess_tasks_are_refused_and_queued_ones_run() -> None:
    pool, go = WorkerPool("x", 1, 1), threading.Event()

    def work(_: Deadline) -> bool:
        return go.wait(PATIENCE_S)

    async def scene() -> list[Any]:
        first = asyncio.create_task(pool.run(request(), work))
        second = asyncio.create_task(pool.run(request(), work))
        while pool.task_count < 2:
            await asyncio.sleep(0)
        with pytest.raises(TooBusy):
            await pool.run(request(), work)
        go.set()
        return list(await asyncio.gather(first, second))

    assert asyncio.run(scene()) == [True, True]
    pool.close()


def test_work_stops_at_its_next_step_when_the_client_disconnects() -> None:
    pool = WorkerPool("x", 1, 0)
    begun, ended = threading.Event(), threading.Event()

    def work(deadline: Deadline) -> None:
        begun.set()
        try:
            while True:
                deadline.check()
        except ClientGone:
            ended.set()
            raise

    async def scene() -> None:
        gone = asyncio.Event()
        running = asyncio.create_task(pool.run(request(gone), work))
        await asyncio.to_thread(begun.wait, PATIENCE_S)
        gone.set()
        with pytest.raises(ClientGone):
            await running
        assert await asyncio.to_thread(ended.wait, PATIENCE_S)

    asyncio.run(scene())
    pool.close()


def test_queued_work_is_dropped_when_the_client_disconnects() -> None:
    pool, go, done = WorkerPool("x", 1, 1), threading.Event(), list[str]()

    async def scene() -> None:
        first = asyncio.create_task(pool.run(request(), lambda _: go.wait(PATIENCE_S)))
        gone = asyncio.Event()
        second = asyncio.create_task(pool.run(request(gone), lambda _: done.append("second")))
        while pool.task_count < 2:
            await asyncio.sleep(0)
        gone.set()
        with pytest.raises(ClientGone):
            await second
        go.set()
        await first

    asyncio.run(scene())
    pool.close()
    assert done == []


def test_closing_stops_running_tasks() -> None:
    pool, begun = WorkerPool("x", 1, 0), threading.Event()

    def work(deadline: Deadline) -> None:
        begun.set()
        while True:
            deadline.check()

    async def scene() -> None:
        running = asyncio.create_task(pool.run(request(), work))
        await asyncio.to_thread(begun.wait, PATIENCE_S)
        await asyncio.to_thread(pool.close)
        with pytest.raises(Cancelled, match="the server is stopping"):
            await running

    asyncio.run(scene())
