"""The application, put together: a knowledge base, its routes, and the guard around them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import Depends, FastAPI

from kb import __version__
from kb.library.knowledge_base import KnowledgeBase
from kb.server import (
    documents,
    error_responses,
    ingest,
    openapi,
    search,
    static_files,
    status,
    uploads,
)
from kb.server.context import Desk
from kb.server.guard import Guard, Rules

_ABOUT = (
    "A local-first knowledge base: find the right passage again, by words and by meaning, with a "
    "citation that opens. Errors are `error.v1`."
)


def create_app(
    kb: KnowledgeBase,
    rules: Rules | None = None,
    *,
    ingest_from: tuple[Path, ...] = (),
    warm: bool = False,
) -> FastAPI:
    """The ASGI application over `kb`, which its caller closes. `ingest_from` are folders that
    clients may have ingested. With `warm`, the model is loaded at the start."""
    rules = rules or Rules()
    desk = Desk.of(kb, ingest_from)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        uploads.clean_up(kb)
        desk.worker.start()
        if warm:
            desk.warming.start()
        try:
            yield
        finally:
            desk.close()

    app = FastAPI(
        title="kb",
        version=__version__,
        description=_ABOUT,
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
        dependencies=[Depends(openapi.refuse_unknown)],
    )
    app.state.desk, app.state.rules = desk, rules
    for room in (search, documents, ingest, status):
        app.include_router(room.router())
    app.include_router(static_files.router())
    error_responses.install(app)
    openapi.install(app)
    app.add_middleware(
        Guard, rules=rules, figures=desk.figures, limits=desk.limits, to_disk=("/uploads/",)
    )
    return app
