"""AsyncKnowledgeBase: the methods of `KnowledgeBase` for programs that use `asyncio`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from kb.library.knowledge_base import KnowledgeBase, Pathlike

P = ParamSpec("P")
R = TypeVar("R")
_THREADS = 4


def _in_thread(
    method: Callable[Concatenate[KnowledgeBase, P], R],
) -> Callable[Concatenate[AsyncKnowledgeBase, P], Coroutine[Any, Any, R]]:
    @wraps(method)
    async def call(self: AsyncKnowledgeBase, /, *args: P.args, **options: P.kwargs) -> R:
        return await self._run(partial(method, self.kb, *args, **options))

    return call


class AsyncKnowledgeBase:
    """A `KnowledgeBase` whose methods can be awaited. Each call runs in a thread, so that the event
    loop is not blocked; up to four run at once.

    Takes the arguments of `KnowledgeBase`. `kb` is the knowledge base itself. A canceled call still
    runs to completion in its thread.
    """

    def __init__(self, path: Pathlike | None = None, **options: Any) -> None:
        self.kb = KnowledgeBase(path, **options)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="kb-async")

    async def __aenter__(self) -> AsyncKnowledgeBase:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncKnowledgeBase({str(self.kb.path)!r})"

    async def close(self) -> None:
        """Wait for running calls, and close the store."""
        await self._run(self.kb.close)
        self._threads.shutdown()

    async def _run(self, work: Callable[[], R]) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    add = _in_thread(KnowledgeBase.add)
    chunks = _in_thread(KnowledgeBase.chunks)
    compare = _in_thread(KnowledgeBase.compare)
    document = _in_thread(KnowledgeBase.document)
    documents = _in_thread(KnowledgeBase.documents)
    embed = _in_thread(KnowledgeBase.embed)
    get = _in_thread(KnowledgeBase.get)
    ingest = _in_thread(KnowledgeBase.ingest)
    remove = _in_thread(KnowledgeBase.remove)
    search = _in_thread(KnowledgeBase.search)
    similar = _in_thread(KnowledgeBase.similar)
    status = _in_thread(KnowledgeBase.status)
    edit = _in_thread(KnowledgeBase.edit)
    tag = _in_thread(KnowledgeBase.tag)
