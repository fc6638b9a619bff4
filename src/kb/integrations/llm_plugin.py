"""A plug-in for the program `llm`: kb as a tool and as fragments (extra `llm`).

    llm -T kb_search "what did we decide about batteries?"
    llm -f kb:"battery life" "how long do they last?"

It searches the store that `kb` would use in this folder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llm

from kb.integrations import passages
from kb.library.knowledge_base import KnowledgeBase

_TOP = 6


def kb_search(query: str, top: int = _TOP) -> str:
    """Search the user's own notes and documents. Returns passages with their citations."""
    with KnowledgeBase() as kb:
        hits = list(passages.search(kb, query, min(max(top, 1), 50), None, None))
    return "\n\n".join(f"[{hit.citation.uri}]\n{hit.text or hit.snippet}" for hit in hits) or (
        "nothing found"
    )


@llm.hookimpl
def register_tools(register: Callable[[Callable[..., Any]], None]) -> None:
    register(kb_search)


@llm.hookimpl
def register_fragment_loaders(register: Callable[[str, Callable[..., Any]], None]) -> None:
    register("kb", _fragments)


def _fragments(query: str) -> list[Any]:
    """The best passages for a query, each as a fragment with its citation as the source."""
    with KnowledgeBase() as kb:
        hits = list(passages.search(kb, query, _TOP, None, None))
    return [llm.Fragment(hit.text or hit.snippet, hit.citation.uri) for hit in hits]
