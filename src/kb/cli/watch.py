"""`kb watch`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from kb.cli import output
from kb.cli.invocation import Invocation, pass_invocation
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
    help="Read changes once nothing has changed for MS milliseconds.  [default: 300]",
)
@option("--jsonl", is_flag=True, heading="Output", help="Print every event as JSON, one per line.")
@common_options()
@pass_invocation
def watch_command(
    invocation: Invocation, *, paths: tuple[str, ...], quiet_ms: int | None, jsonl: bool
) -> None:
    """Update the store whenever files change.

    The command first reads everything that has changed since the last run, then each change shortly
    after it happens, and embeds new text. Without PATH, all ingested folders are watched. A renamed
    file stays the same document. If a folder is missing, for example because its disk is not
    mounted, its documents are kept, and the folder is read again when it returns.

    You can stop the command at any time: the next run reads what was missed.

    \b
    Examples:
      kb watch ~/notes ~/papers
      kb watch
      kb watch --jsonl ~/notes
    """
    try:
        import watchfiles  # noqa: F401  # fail now, not after everything is read
    except ImportError as error:
        raise MissingExtra(
            f"kb watch needs {error.name}", "install it with: pip install 'kb-search[watch]'"
        ) from error
    from kb.cli.socket_server import serve_socket
    from kb.watch.watcher import QUIET_MS, Watcher

    invocation.interrupt_message = "stopped"
    stop = threading.Event()
    write_event = _write_event_json if jsonl or invocation.json else _write_event
    with Shutdown() as shutdown, invocation.open() as kb, ExitStack() as stack:
        shutdown.on_signal(stop.set)

        def on_event(event: Event) -> None:
            if event.kind == "ready":  # by now the store exists
                stack.enter_context(serve_socket(kb))
            write_event(event)

        if kb.exists():
            kb.create()  # raises if the store can only be read, before the first file changes
        Watcher(kb, paths, on_event, stop=stop, quiet_ms=quiet_ms or QUIET_MS).run()
        shutdown.finish()


# --- events --------------------------------------------------------------------------------------


def _write_event_json(event: Event) -> None:
    output.write_json_line(_event_json(event))


def _event_json(event: Event) -> JsonDict:
    """Return the event as `watch_event.v1`."""
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


def _write_event(event: Event) -> None:
    if line := _LINES[event.kind](event):
        output.note(line)


def _ready(event: Event) -> str:
    missing = [] if event.report is None else map(output.escape, event.report.missing_roots)
    facts = [_changes(event.report) or "up to date", *(f"missing: {root}" for root in missing)]
    return f"watching {_paths(event)}: {', '.join(facts)}"


def _batch(event: Event) -> str:
    """Describe a batch of changes on one line; empty if they had no effect."""
    return _changes(event.report)


def _changes(report: IngestReport | None) -> str:
    if report is None:
        return ""
    counts = {
        "added": report.added,
        "changed": report.changed,
        "renamed": report.renamed,
        "removed": report.removed,
        "failed": report.failed,
    }
    facts = [f"{len(paths)} {name}" for name, paths in counts.items() if paths]
    facts += [f"{output.escape(note.path)}: {output.escape(note.reason)}" for note in report.failed]
    return ", ".join(facts)


def _failure_text(event: Event) -> str:
    assert event.error is not None
    return f"failed, retrying in {event.retry_s:.0f} s: {output.escape(event.error.message)}"


def _paths(event: Event) -> str:
    return ", ".join(output.escape(_text(path)) for path in event.paths)


_LINES: dict[str, Callable[[Event], str]] = {
    "ready": _ready,
    "batch": _batch,
    "missing": lambda event: f"missing: {_paths(event)}; its documents are kept",
    "back": lambda event: f"back: {_paths(event)}",
    "embedded": lambda event: f"embedded {output.count(event.embedded, 'passage')}",
    "failed": _failure_text,
    "stopped": lambda _: "stopped",
}


def _text(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")
