"""Builds the ASGI application: a knowledge base, its routes, and the guard around them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import Depends, FastAPI
from starlette.routing import Route

from kb import __version__
from kb.library.knowledge_base import KnowledgeBase
from kb.server import (
    asking,
    documents,
    error_responses,
    ingest,
    openapi,
    reading,
    search,
    static_files,
    status,
    upload_folder,
    uploads,
)
from kb.server.access import AuditLog
from kb.server.admission import Admission
from kb.server.context import ServerContext
from kb.server.guard import AccessRules, Guard

_DESCRIPTION = (
    "A local-first knowledge base that finds passages by words and by meaning, each with a "
    "citation. Errors have the shape `error.v1`."
)


def create_app(
    kb: KnowledgeBase,
    rules: AccessRules | None = None,
    *,
    ingest_from: tuple[Path, ...] = (),
    warm: bool = False,
) -> FastAPI:
    """Build the application around `kb`, which the caller closes. Clients may ingest from the
    folders `ingest_from`. With `warm`, the model is loaded at startup."""
    rules = rules or AccessRules()
    context = ServerContext.create(kb, ingest_from)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        upload_folder.clean_up(kb)
        context.worker.start()
        if warm:
            context.warmup.start()
        try:
            yield
        finally:
            context.close()

    app = FastAPI(
        title="kb",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,  # these pages would load scripts from other sites
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
        dependencies=[Depends(openapi.refuse_unknown_parameters)],
    )
    app.state.context, app.state.rules = context, rules
    paths: list[str] = []
    for module in (search, asking, documents, reading, ingest, uploads, status, static_files):
        router = module.router()
        app.include_router(router)
        paths += [route.path for route in router.routes if isinstance(route, Route)]
    error_responses.install(app)
    openapi.install(app)
    app.add_middleware(
        Guard,
        rules=rules,
        metrics=context.metrics,
        limits=context.limits,
        admission=Admission.for_pools(context.limits, paths),
        disk_paths=("/uploads/",),
        audit=AuditLog(context.limits.audit_log),
    )
    return app
