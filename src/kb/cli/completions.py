"""The values that the shell offers for options and arguments: from the store, the settings, or a
fixed list. Errors yield no values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from kb.cli.invocation import Invocation
from kb.errors import KbError
from kb.types import KINDS, TYPES

if TYPE_CHECKING:
    from kb.library.knowledge_base import KnowledgeBase

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _from_store(
    values: Callable[[KnowledgeBase], Iterable[str]], *, many: bool = False
) -> Complete:
    """Complete the typed text with values from the store; with `many`, complete the text after the
    last comma."""

    def complete(context: click.Context, _param: click.Parameter, typed: str) -> list[str]:
        done, comma, begun = typed.rpartition(",") if many else ("", "", typed)
        invocation = context.ensure_object(Invocation)
        invocation.quiet = True
        try:
            with invocation.open() as kb:
                offered = sorted(set(values(kb)))
        except KbError:
            return []
        return [done + comma + value for value in offered if value.startswith(begun)]

    return complete


def _folders(kb: KnowledgeBase) -> Iterable[str]:
    """Patterns for the folders in the store, and the paths of documents."""
    for document in kb.documents():
        yield document.doc_path
        folder = document.doc_path.rpartition("/")[0]
        while folder:
            yield f"{folder}/**"
            folder = folder.rpartition("/")[0]


complete_document = _from_store(lambda kb: (each.doc_path for each in kb.documents()))
OPTIONS = {
    "--kind": _from_store(lambda _: KINDS, many=True),
    "--lang": _from_store(lambda kb: (each.lang for each in kb.documents() if each.lang)),
    "--links-to": complete_document,
    "--path": _from_store(_folders),
    "--profile": _from_store(lambda kb: kb.profiles()),
    "--tags": _from_store(lambda kb: kb.tags(), many=True),
    "--tags-any": _from_store(lambda kb: kb.tags(), many=True),
    "--type": _from_store(lambda _: TYPES, many=True),
}
