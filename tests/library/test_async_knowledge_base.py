"""AsyncKnowledgeBase: the methods of `KnowledgeBase`, awaited."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

from kb import AsyncKnowledgeBase, KnowledgeBase


def test_calls_run_side_by_side(tmp_path: Path) -> None:
    async def run() -> list[int]:
        async with AsyncKnowledgeBase(tmp_path / "kb.sqlite", encoder="none") as kb:
            note = await kb.add("the kedge holds in mud", tags=["boat"])
            assert (await kb.document(note.doc_path)).tags == ("boat",)
            responses = await asyncio.gather(*(kb.search("kedge") for _ in range(8)))
            assert (await kb.get(note.doc_path)).text == "the kedge holds in mud"
            await kb.remove(note.doc_path)
            return [len(response.hits) for response in responses]

    assert asyncio.run(run()) == [1] * 8


def test_methods_have_the_signatures_of_the_original() -> None:
    for name, method in vars(AsyncKnowledgeBase).items():
        if not name.startswith("_") and name != "close":
            assert inspect.iscoroutinefunction(method)
            assert inspect.signature(method) == inspect.signature(getattr(KnowledgeBase, name))
