"""`kb get` and `kb status`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from kb.cli import output
from kb.cli.hit_number import citation_of
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.options import Command, common_options, document_argument
from kb.types import Filters

if TYPE_CHECKING:
    from kb.library.knowledge_base import KnowledgeBase
    from kb.types import Document

_STATES = {
    "exact": "",
    "moved": "the file has changed and the passage has moved; use this citation from now on",
    "stale": "the file has changed or was deleted since it was indexed; to update: kb ingest",
}
_MAX_LINKS = 20  # in a line
_COLORS = {"exact": "green", "moved": "yellow", "stale": "red"}


@click.command("get", cls=Command)
@document_argument("uri", metavar="N|CITATION")
@common_options()
@pass_invocation
def get_command(invocation: Invocation, *, uri: str) -> None:
    """Print a hit, or the passage that a citation refers to.

    N is the number of a hit of the last search in this terminal; if there is no such hit, N is the
    name of a document. CITATION is a citation from `kb search`: notes/retry.md#L12-L34,
    paper.pdf#page=4, note:7#L1. A path alone, in the store or on disk, prints the whole document.

    The state of the citation is printed to stderr: exact; moved to another place in the file; or
    stale. For a stale passage, the indexed text is printed; for a stale document, its current
    text. If a file cannot be read, for example because it is now too large, the reason follows.
    After a whole document, stderr lists its links, and the documents that link to it.

    \b
    Examples:
      kb get 1
      kb get notes/retry.md#L12-L34
      kb get note:7 --json
    """
    with invocation.open() as kb:
        uri = citation_of(uri, kb, invocation)
        passage = kb.get(uri)
        is_whole = "#" not in uri and not invocation.json
        links = list(_links(kb, passage.document)) if is_whole else []
    if invocation.json:
        from kb import wire

        output.write_json(wire.passage(passage))
        return
    console = output.Console.of(sys.stderr)
    state = console.style(f"{passage.state}:", fg=_COLORS[passage.state])
    reason = f"this is the indexed text; {passage.reason}" if passage.reason else ""
    advice = reason or _STATES[passage.state]
    suffix = f" ({output.escape(advice)})" if advice else ""
    place = f" ({output.escape(passage.citation.place)})" if passage.citation.place else ""
    output.note(f"{state} {output.escape(passage.citation.uri)}{place}{suffix}")
    if output.is_terminal(sys.stdout):
        from kb.cli.hit_view import passage_text

        output.write_paged(passage_text(passage, output.Console.of(sys.stdout)))
    else:
        output.write(passage.text.removesuffix("\n"))
    for line in links:
        output.note(output.escape(line))


def _links(kb: KnowledgeBase, document: Document) -> Iterator[str]:
    """Yield a line with the links of a document, and one with the documents that link to it."""
    links = document.metadata.get("links_to")
    if isinstance(links, list) and links:
        yield f"links to: {_first(map(str, links))}"
    linking = [each.doc_path for each in kb.documents(Filters(links_to=document.doc_path))]
    if others := [path for path in linking if path != document.doc_path]:
        yield f"linked from: {_first(others)}"


def _first(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - _MAX_LINKS} more" if len(every) > _MAX_LINKS else ""
    return ", ".join(every[:_MAX_LINKS]) + more


@click.command("status", cls=Command)
@common_options()
@pass_invocation
def status_command(invocation: Invocation) -> None:
    """Show the contents of the store and its location.

    \b
    Example:
      kb status --json
    """
    with invocation.open() as kb:
        status = kb.status()
    if invocation.json:
        output.write_json(status)
    else:
        output.write("\n".join(_status_lines(status)))
        _warn_degraded(status["degraded"])


def _warn_degraded(parts: Iterable[dict[str, Any]]) -> None:
    from kb.degradation import degradation_messages
    from kb.types import Degraded

    for text in degradation_messages((Degraded(**part) for part in parts), can_embed=lambda: True):
        output.warn(text)


def _status_lines(status: dict[str, Any]) -> list[str]:
    from kb.text.units import format_bytes

    console = output.Console.of(sys.stdout)
    facts = {
        "store": f"{status['store']} ({format_bytes(status['size_bytes'])})",
        "documents": str(status["documents"]),
        "chunks": str(status["chunks"]),
        "expired": f"{status['expired']} (to remove: kb gc)" if status["expired"] else "",
        "types": _counts(status["by_type"]),
        "kinds": _counts(status["by_kind"]),
        "scopes": _counts(status["by_scope"]),
        "tags": str(len(status["tags"]) or ""),
        "index": _counts(status["index_version"]),
        "vectors": _vectors(status["vectors"]),
    }
    lines = [f"{console.style(f'{name:10}', bold=True)} {output.escape(value)}"
             for name, value in facts.items() if value]  # fmt: skip
    for number, root in enumerate(status["roots"]):
        name = console.style(f"{'roots' if number == 0 else '':10}", bold=True)
        missing = console.style("  missing", fg="red") if root["missing"] else ""
        if root["detached"]:
            missing = console.style(f"  detached (kb attach {root['name']} FOLDER)", fg="yellow")
        place = output.escape(f"{root['name']}: {root['path']}")
        lines.append(f"{name} {place} ({root['documents']}){missing}")
    return lines


def _vectors(vectors: dict[str, Any]) -> str:
    """Return the model used in searches, and how many passages have its vectors."""
    state = str(vectors["state"]).replace("_", " ")
    if not vectors["models"]:
        return state
    model = vectors["models"][0]
    failed = f", {model['failed']} failed ({model['last_error']})" if model["failed"] else ""
    pending = f", {model['pending']} pending" if model["pending"] else ""
    name = f"{model['name']} {model['version']}"
    parts = f" (sparse {model['sparse']}, tokens {model['tokens']})"
    unfit = f"; {model['unfit']}" if model["unfit"] else ""
    ready = f"{model['ready']} ready{parts}{pending}{failed}"
    return f"{state}: {name}, {ready}{unfit}{_next_model(vectors)}"


def _next_model(vectors: dict[str, Any]) -> str:
    """Return the model that a reindex is switching to, and its progress."""
    for model in vectors["models"]:
        if model["role"] == "next":
            name = f"{model['name']} {model['version']}"
            return f"; next {name}, {model['ready']} ready, {model['pending']} pending"
    return ""


def _counts(counts: dict[str, Any]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
