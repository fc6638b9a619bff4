"""What the routes share: the knowledge base, the lanes it runs in, and the limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeVar

from fastapi import Depends, Request, Response
from fastapi.responses import JSONResponse

from kb.config import ServeConfig
from kb.deadline import Deadline
from kb.embedding.worker import Worker
from kb.errors import InvalidRequest
from kb.library.knowledge_base import KnowledgeBase
from kb.server import request_bodies
from kb.server.events import Events, progress
from kb.server.metrics import Figures
from kb.server.uploads import Slots
from kb.server.warmup import Warming
from kb.server.worker_pool import Lane
from kb.types import JsonDict

T = TypeVar("T")

_READERS = 4
_WAITING_EVALUATIONS = 4
_UPLOADS = 8


@dataclass(frozen=True, slots=True)
class Desk:
    """`folders` are those that clients may have ingested, besides what was ingested before.
    `passages` is for documents, which may be large, and `health` for what is not to wait behind
    anything else."""

    kb: KnowledgeBase
    limits: ServeConfig
    events: Events
    figures: Figures
    worker: Worker
    warming: Warming
    reads: Lane
    passages: Lane
    health: Lane
    searches: Lane
    writes: Lane
    evaluations: Lane
    uploads: Slots
    folders: tuple[Path, ...] = field(default=())

    @classmethod
    def of(cls, kb: KnowledgeBase, folders: tuple[Path, ...] = ()) -> Desk:
        limits, events = kb.config.serve, Events()
        return cls(
            kb,
            limits,
            events,
            Figures(),
            kb.worker(lambda now: events.tell("embedding", progress(now))),
            Warming(kb, events),
            reads=Lane("reads", _READERS, limits.max_waiting),
            passages=Lane("passages", _READERS, limits.max_waiting),
            health=Lane("health", 1, limits.max_waiting),
            searches=Lane("searches", limits.searches_at_once, limits.max_waiting),
            # One at a time, since the store has one writer.
            writes=Lane("writes", 1, limits.max_waiting, whole=True),
            evaluations=Lane("evaluations", 1, _WAITING_EVALUATIONS),
            uploads=Slots(_UPLOADS),
            folders=folders,
        )

    def _lanes(self) -> tuple[Lane, ...]:
        return self.searches, self.evaluations, self.writes, self.passages, self.reads, self.health

    def cancel(self) -> None:
        """Have everything stop at its next step, and be answered."""
        for lane in self._lanes():
            lane.cancel()

    def close(self) -> None:
        self.events.close()
        self.cancel()
        for lane in self._lanes():
            lane.close()
        self.warming.stop()
        self.worker.stop()

    async def read(self, request: Request, work: Callable[[], T]) -> T:
        """Something short that writes nothing, or a counter."""
        return await self.reads.run(request, lambda _: work(), self.limits.request_timeout_s)

    async def open_passage(self, request: Request, work: Callable[[], Response]) -> Response:
        """A passage or a document as an answer, which is made in the thread too: so no more of them
        are in memory than the lane has threads."""
        return await self.passages.run(request, lambda _: work(), self.limits.request_timeout_s)

    async def check_health(self, request: Request, work: Callable[[], T]) -> T:
        return await self.health.run(request, lambda _: work(), self.limits.request_timeout_s)

    async def search(self, request: Request, work: Callable[[], T]) -> T:
        return await self.searches.run(request, lambda _: work(), self.limits.request_timeout_s)

    async def evaluate(self, request: Request, work: Callable[[Deadline], T]) -> T:
        """Many searches, which take as long as they take, and each no longer than it may. They are
        in no other's way."""
        return await self.evaluations.run(request, work)

    async def write(self, request: Request, work: Callable[[Deadline], T]) -> T:
        return await self.writes.run(request, work)

    async def body(self, request: Request) -> JsonDict:
        """The JSON object that a request carries."""
        data = await request_bodies.read(request, limit_bytes=self.limits.max_body_bytes)
        return request_bodies.parse_object(data)

    def check_query(self, text: object) -> None:
        most = self.limits.max_query_chars
        if isinstance(text, str) and len(text) > most:
            raise InvalidRequest(f"the query is longer than {most:,} characters", "ask for less")

    def check_top(self, top: object) -> None:
        most = self.limits.max_page
        if isinstance(top, int) and top > most:
            raise InvalidRequest(f"top cannot be {top}", f"at most {most} at a time")


def told(shape: JsonDict, status: int = 200) -> Response:
    """An answer, as it is. What is no `Response`, FastAPI would walk through once more."""
    return JSONResponse(shape, status)


async def _desk(request: Request) -> Desk:
    desk = request.app.state.desk
    assert isinstance(desk, Desk)
    return desk


AtDesk = Annotated[Desk, Depends(_desk)]
