"""`kb get` and `kb status`: what the store holds, a passage or all of it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import click

from kb.cli import output
from kb.cli.invocation import Session, pass_session
from kb.cli.options import Command, common_options, document_argument

_STATES = {
    "exact": "",
    "moved": "the file has changed, and the passage now stands here; cite it so from now on",
    "stale": "the file has changed or is gone since it was indexed; kb ingest reads it again",
}
_COLOURS = {"exact": "green", "moved": "yellow", "stale": "red"}


@click.command("get", cls=Command)
@document_argument("uri")
@common_options()
@pass_session
def get_command(session: Session, *, uri: str) -> None:
    """Print the passage that a citation names.

    URI is what `kb search` shows: notes/retry.md#L12-L34, paper.pdf#page=4, note:7#L1. A path
    alone, in the store or on disk, prints the whole document.

    Whether the text is still what was indexed is said on stderr: exact; moved elsewhere in the
    file; or stale, and then the text is what was indexed (a whole document: what its file says).
    A file that is not read, as one that is too large by now, has its reason there too.

    \b
    Examples:
      kb get notes/retry.md#L12-L34
      kb get note:7 --json
    """
    with session.open() as kb:
        passage = kb.get(uri)
    if session.json:
        from kb import wire

        output.say_json(wire.passage(passage))
        return
    sheet = output.Page.of(sys.stderr)
    state = sheet.style(f"{passage.state}:", fg=_COLOURS[passage.state])
    indexed = f"this is what was indexed; {passage.reason}" if passage.reason else ""
    advice = indexed or _STATES[passage.state]
    said = f" ({output.visible(advice)})" if advice else ""
    output.note(f"{state} {output.visible(passage.citation.uri)}{said}")
    shown = passage.text.removesuffix("\n")
    output.say(output.visible_text(shown) if output.is_terminal(sys.stdout) else shown)


@click.command("status", cls=Command)
@common_options()
@pass_session
def status_command(session: Session) -> None:
    """Show what the store holds, and where it is.

    \b
    Example:
      kb status --json
    """
    with session.open() as kb:
        status = kb.status()
    if session.json:
        output.say_json(status)
    else:
        output.say("\n".join(_status_lines(status)))
        _warn(status["degraded"])


def _warn(parts: Iterable[dict[str, Any]]) -> None:
    from kb.degradation import degradation_messages
    from kb.types import Degraded

    for text in degradation_messages((Degraded(**part) for part in parts), can_embed=lambda: True):
        output.warn(text)


def _status_lines(status: dict[str, Any]) -> list[str]:
    from kb.library.doctor.store_checks import size_text

    sheet = output.Page.of(sys.stdout)
    facts = {
        "store": f"{status['store']} ({size_text(status['size_bytes'])})",
        "documents": str(status["documents"]),
        "chunks": str(status["chunks"]),
        "expired": f"{status['expired']} (kb gc removes them)" if status["expired"] else "",
        "types": _counts(status["by_type"]),
        "kinds": _counts(status["by_kind"]),
        "scopes": _counts(status["by_scope"]),
        "tags": str(len(status["tags"]) or ""),
        "index": _counts(status["index_version"]),
        "vectors": _vectors(status["vectors"]),
    }
    lines = [f"{sheet.style(f'{name:10}', bold=True)} {output.visible(value)}"
             for name, value in facts.items() if value]  # fmt: skip
    for number, root in enumerate(status["roots"]):
        name = sheet.style(f"{'roots' if number == 0 else '':10}", bold=True)
        missing = sheet.style("  missing", fg="red") if root["missing"] else ""
        if root["detached"]:
            missing = sheet.style(f"  detached (kb attach {root['name']} FOLDER)", fg="yellow")
        place = output.visible(f"{root['name']}: {root['path']}")
        lines.append(f"{name} {place} ({root['documents']}){missing}")
    return lines


def _vectors(vectors: dict[str, Any]) -> str:
    """The model whose vectors answer, and how many passages have one."""
    state = str(vectors["state"]).replace("_", " ")
    if not vectors["models"]:
        return state
    model = vectors["models"][0]
    failed = f", {model['failed']} failed ({model['last_error']})" if model["failed"] else ""
    pending = f", {model['pending']} pending" if model["pending"] else ""
    named = f"{model['name']} {model['version']}"
    parts = f" (sparse {model['sparse']}, tokens {model['tokens']})"
    unfit = f"; {model['unfit']}" if model["unfit"] else ""
    ready = f"{model['ready']} ready{parts}{pending}{failed}"
    return f"{state}: {named}, {ready}{unfit}{_coming(vectors)}"


def _coming(vectors: dict[str, Any]) -> str:
    """The model that is to answer next, and how far its vectors are."""
    for model in vectors["models"]:
        if model["role"] == "next":
            named = f"{model['name']} {model['version']}"
            return f"; next {named}, {model['ready']} ready, {model['pending']} pending"
    return ""


def _counts(counts: dict[str, Any]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
