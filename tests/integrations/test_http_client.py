"""The asynchronous client, against the real application."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from kb import KnowledgeBase
from kb.errors import KbError, NotFound
from kb.integrations.http_client import AsyncClient
from kb.server.api import create_app
from kb.server.guard import AccessRules


def call(path: Path, work: Callable[[AsyncClient], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        with KnowledgeBase(path, encoder="none") as kb:
            transport = httpx.ASGITransport(create_app(kb, AccessRules(token="secret")))
            async with AsyncClient(
                "http://127.0.0.1", api_key="secret", transport=transport
            ) as client:
                return await work(client)

    return asyncio.run(run())


def test_search_get_add_and_status(store: Path, tmp_path: Path) -> None:
    found = call(store, lambda client: client.search("kedge", top=1, include_text=True))
    (hit,) = found["hits"]
    assert "kedge holds" in hit["text"]
    passage = call(store, lambda client: client.get(hit["citation"]["uri"]))
    assert passage["text"] == hit["text"]
    assert call(store, lambda client: client.status())["documents"] == 4
    added = call(tmp_path / "new.sqlite", lambda client: client.add("a note", tags=["x"]))
    assert added["tags"] == ["x"]


def test_errors_are_those_of_kb(store: Path) -> None:
    with pytest.raises(NotFound) as caught:
        call(store, lambda client: client.get("lib/none.md"))
    assert caught.value.hint is not None
    with pytest.raises(KbError):
        call(store, lambda client: client.search("x", top=-1))
