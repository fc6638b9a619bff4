"""What the routes share: the knowledge base, its worker pools, and the limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request, Response
from fastapi.responses import JSONResponse

from kb.config import ServeConfig
from kb.deadline import Deadline
from kb.embedding.worker import Worker
from kb.errors import InvalidRequest
from kb.library.knowledge_base import KnowledgeBase
from kb.library.limited import Views
from kb.server import request_bodies
from kb.server.access import identity_of
from kb.server.events import Events, progress
from kb.server.memory import MEMORY_KEY, RequestMemory
from kb.server.metrics import Metrics
from kb.server.upload_folder import UploadSlots
from kb.server.warmup import Warmup
from kb.server.worker_pool import WorkerPool
from kb.types import JsonDict

_READERS = 4
_UPLOADS = 8
_ANSWERS = 4  # by a language model at the same time
_UPLOADS_AT_ONCE = 4  # parsed and written at a time; others wait
_MAX_QUEUED_EVALUATIONS = 4

Result = JsonDict | Response  # what a route's work returns


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The shared state of the routes. Clients may ingest from `folders`, and refresh whatever is
    already in the store.

    Each kind of work has its own pool, so that a slow kind does not block the others: `passages`
    opens documents, which may be large; `local_searches` are those that encode no query and so
    never wait for an endpoint; `writes` runs short transactions; `ingests` and `uploads` parse
    files for as long as that takes; `answers` wait for a language model.
    """

    kb: KnowledgeBase
    limits: ServeConfig
    events: Events
    metrics: Metrics
    worker: Worker
    warmup: Warmup
    reads: WorkerPool
    passages: WorkerPool
    health: WorkerPool
    searches: WorkerPool
    local_searches: WorkerPool
    writes: WorkerPool
    ingests: WorkerPool
    uploads: WorkerPool
    evaluations: WorkerPool
    answers: WorkerPool
    upload_slots: UploadSlots
    views: Views
    folders: tuple[Path, ...] = field(default=())

    @classmethod
    def create(cls, kb: KnowledgeBase, folders: tuple[Path, ...] = ()) -> ServerContext:
        limits, events = kb.config.serve, Events()
        queue_size = limits.max_waiting
        return cls(
            kb,
            limits,
            events,
            Metrics(),
            kb.worker(lambda state: events.publish("embedding", progress(state))),
            Warmup(kb, events),
            reads=WorkerPool("reads", _READERS, queue_size),
            passages=WorkerPool("passages", _READERS, queue_size),
            health=WorkerPool("health checks", 1, queue_size),
            searches=WorkerPool("searches", limits.searches_at_once, queue_size),
            local_searches=WorkerPool("searches", limits.searches_at_once, queue_size),
            writes=WorkerPool("writes", 1, queue_size),  # the store has one writer at a time
            ingests=WorkerPool("ingests", 1, queue_size, atomic=True),
            uploads=WorkerPool("uploads", _UPLOADS_AT_ONCE, queue_size, atomic=True),
            evaluations=WorkerPool("evaluations", 1, _MAX_QUEUED_EVALUATIONS),
            answers=WorkerPool("answers", _ANSWERS, queue_size),
            upload_slots=UploadSlots(_UPLOADS),
            views=Views(kb),
            folders=folders,
        )

    def pools(self) -> tuple[WorkerPool, ...]:
        return (self.searches, self.local_searches, self.answers, self.evaluations, self.ingests,
                self.uploads, self.writes, self.passages, self.reads, self.health)  # fmt: skip

    def cancel(self) -> None:
        """Stop all work at its next step; its clients get an error."""
        for pool in self.pools():
            pool.cancel()

    def close(self) -> None:
        self.events.close()
        self.cancel()
        for pool in self.pools():
            pool.close()
        self.warmup.stop()
        self.worker.stop()

    def view(self, request: Request) -> KnowledgeBase:
        """The knowledge base as the sender of the request may see it."""
        return self.views.of(identity_of(request.scope))

    # --- work -------------------------------------------------------------------------------------
    # Each method runs `work` in a pool and returns its result as a response. The thread also
    # encodes it, because a large one would block the event loop.

    async def read(self, request: Request, work: Callable[[], Result]) -> Response:
        """Run a short read."""
        return await self._run(self.reads, request, work)

    async def read_large(
        self, request: Request, work: Callable[[RequestMemory], Result]
    ) -> Response:
        """Run a read with a large result; `work` reserves memory before it builds the result."""
        memory = request_memory(request)

        def build() -> Response:
            response = _response(work(memory))
            memory.shrink_response(len(response.body))
            return response

        return await self._run(self.passages, request, build)

    async def check_health(self, request: Request, work: Callable[[], Result]) -> Response:
        return await self._run(self.health, request, work)

    async def search(
        self, request: Request, work: Callable[[], Result], *, encodes_query: bool = True
    ) -> Response:
        pool = self.searches if encodes_query else self.local_searches
        return await self._run(pool, request, work)

    async def write(
        self, request: Request, work: Callable[[], Result], status: int = 200
    ) -> Response:
        """Run one short transaction. It is rolled back if the store stays busy, or if the client
        disconnects."""
        return await self._run(self.writes, request, work, status)

    async def _run(
        self, pool: WorkerPool, request: Request, work: Callable[[], Result], status: int = 200
    ) -> Response:
        timeout_s = self.limits.request_timeout_s
        return await pool.run(request, lambda _: _response(work(), status), timeout_s)

    async def evaluate(self, request: Request, work: Callable[[Deadline], Result]) -> Response:
        """Run many searches, each with its own time limit."""
        return await self.evaluations.run(request, lambda deadline: _response(work(deadline)))

    async def ingest(self, request: Request, work: Callable[[Deadline], Result]) -> Response:
        """Index files and folders, one request at a time, for as long as that takes."""
        return await self.ingests.run(
            request,
            lambda deadline: _response(work(deadline)),
            start_timeout_s=self.limits.request_timeout_s,
        )

    async def upload(self, request: Request, work: Callable[[], Result]) -> Response:
        """Index one uploaded file, for as long as that takes."""
        return await self.uploads.run(
            request,
            lambda _: _response(work(), 201),
            start_timeout_s=self.limits.request_timeout_s,
        )

    # --- requests ---------------------------------------------------------------------------------

    async def body(self, request: Request) -> JsonDict:
        """The JSON object in the body of a request."""
        data = await request_bodies.read(request, limit_bytes=self.limits.max_body_bytes)
        request_memory(request).reserve_body(request_bodies.check_shape(data))
        return request_bodies.parse_object(data)

    def check_query(self, text: object) -> None:
        limit = self.limits.max_query_chars
        if isinstance(text, str) and len(text) > limit:
            raise InvalidRequest(f"the query is longer than {limit:,} characters", "shorten it")

    def check_top(self, top: object) -> None:
        limit = self.limits.max_page
        if isinstance(top, int) and top > limit:
            raise InvalidRequest(f"top cannot be {top}", f"send at most {limit}")


def request_memory(request: Request) -> RequestMemory:
    memory = request.scope[MEMORY_KEY]
    assert isinstance(memory, RequestMemory)
    return memory


def _response(result: Result, status: int = 200) -> Response:
    return result if isinstance(result, Response) else json_response(result, status)


def json_response(shape: JsonDict, status: int = 200) -> Response:
    """Encode a wire shape. FastAPI would copy a plain dict once more."""
    return JSONResponse(shape, status)


async def _context(request: Request) -> ServerContext:
    context = request.app.state.context
    assert isinstance(context, ServerContext)
    return context


Context = Annotated[ServerContext, Depends(_context)]
