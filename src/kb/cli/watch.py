"""`kb watch`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from kb.cli import output
from kb.cli.invocation import Session, pass_session
from kb.cli.options import Command, common_options, option
from kb.errors import MissingExtra
from kb.shutdown import Shutdown

if TYPE_CHECKING:
    from kb.types import IngestReport, JsonDict
    from kb.watch.watcher import Event


@click.command("watch", cls=Command)
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@option(
    "--quiet-ms",
    type=click.IntRange(min=1),
    metavar="MS",
    help="Read a change when nothing has changed for so long.  [default: 300]",
)
@option("--jsonl", is_flag=True, heading="Output", help="Tell every event in JSON, one a line.")
@common_options()
@pass_session
def watch_command(
    session: Session, *, paths: tuple[str, ...], quiet_ms: int | None, jsonl: bool
) -> None:
    """Keep the store up to date with folders while they change.

    First everything that has changed since the last time is read, then what changes, shortly after
    it does; and what is new gets its vectors. Without PATH, that is done for every folder that was
    ingested before. A renamed file stays the same document. A folder that is not there, an
    unmounted disk for instance, loses nothing, and is read again when it comes back.

    It can be ended at any moment, by Ctrl-C or a kill: the next start reads what was missed.

    \b
    Examples:
      kb watch ~/notes ~/papers
      kb watch
      kb watch --jsonl ~/notes
    """
    try:
        import watchfiles  # noqa: F401  # here rather than after everything was read
    except ImportError as error:
        raise MissingExtra(
            f"kb watch needs {error.name}", "install it with: pip install 'kb-search[watch]'"
        ) from error
    from kb.cli.socket_server import answering
    from kb.watch.watcher import QUIET_MS, Watcher

    session.interrupted = "stopped"
    stop = threading.Event()
    tell = _tell_json if jsonl or session.json else _tell
    with Shutdown() as shutdown, session.open() as kb, ExitStack() as stack:
        shutdown.on_signal(stop.set)

        def hear(event: Event) -> None:
            if event.kind == "ready":  # now there is a store, and something to search
                stack.enter_context(answering(kb))
            tell(event)

        Watcher(kb, paths, hear, stop=stop, quiet_ms=quiet_ms or QUIET_MS).run()
        shutdown.finish()


# --- telling --------------------------------------------------------------------------------------


def _tell_json(event: Event) -> None:
    output.say_json_line(_shape(event))


def _shape(event: Event) -> JsonDict:
    """`watch_event.v1`."""
    from kb import wire

    return {
        "schema_version": "watch_event.v1",
        "event": event.kind,
        "paths": [_text(path) for path in event.paths],
        "report": None if event.report is None else wire.ingest_report(event.report),
        "embedded": event.embedded,
        "error": None if event.error is None else event.error.to_dict(),
        "retry_s": event.retry_s,
    }


def _tell(event: Event) -> None:
    if line := _LINES[event.kind](event):
        output.note(line)


def _ready(event: Event) -> str:
    missing = [] if event.report is None else map(output.visible, event.report.missing_roots)
    told = [_did(event.report) or "up to date", *(f"missing: {root}" for root in missing)]
    return f"watching {_where(event)}: {', '.join(told)}"


def _batch(event: Event) -> str:
    """One line; none where nothing came of the changes."""
    return _did(event.report)


def _did(report: IngestReport | None) -> str:
    if report is None:
        return ""
    counts = {
        "added": report.added,
        "changed": report.changed,
        "renamed": report.renamed,
        "removed": report.removed,
        "failed": report.failed,
    }
    told = [f"{len(paths)} {name}" for name, paths in counts.items() if paths]
    told += [
        f"{output.visible(note.path)}: {output.visible(note.reason)}" for note in report.failed
    ]
    return ", ".join(told)


def _failed(event: Event) -> str:
    assert event.error is not None
    return f"failed, next try in {event.retry_s:.0f} s: {output.visible(event.error.message)}"


def _where(event: Event) -> str:
    return ", ".join(output.visible(_text(path)) for path in event.paths)


_LINES: dict[str, Callable[[Event], str]] = {
    "ready": _ready,
    "batch": _batch,
    "missing": lambda event: f"missing: {_where(event)}; nothing of it is removed",
    "back": lambda event: f"back: {_where(event)}",
    "embedded": lambda event: f"{event.embedded} embedded",
    "failed": _failed,
    "stopped": lambda _: "stopped",
}


def _text(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
