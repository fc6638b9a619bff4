"""`kb doctor`, `backup`, `export` and `import`: looking after a store."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import click

from kb.cli import output, progress
from kb.cli.invocation import Session, pass_session
from kb.cli.options import Command, common_options, option

if TYPE_CHECKING:
    from kb.library.knowledge_base import OnProgress
    from kb.types import Diagnosis

UNHEALTHY = 3
_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}


@click.command("doctor", cls=Command)
@option("--fix", is_flag=True, help="Make anew what is derived, and values that cannot be read.")
@common_options()
@pass_session
def doctor_command(session: Session, *, fix: bool) -> int:
    """Check the store's integrity.

    Examines the file, its rows, indexes and counters, and whether folders, files and citations are
    still there. --fix never touches documents and text that can be read; what is lost is named.
    The exit status is 3 if something is wrong; warnings are allowed.

    \b
    Examples:
      kb doctor
      kb doctor --fix
    """
    with session.open() as kb:
        diagnosis = kb.doctor(fix=fix)
    if session.json:
        from kb import wire

        output.say_json(wire.diagnosis(diagnosis))
    else:
        _say(diagnosis)
    return 0 if diagnosis.healthy else UNHEALTHY


def _say(diagnosis: Diagnosis) -> None:
    sheet = output.Page.of(sys.stdout)
    width = max(len(finding.part) for finding in diagnosis.findings)
    for finding in diagnosis.findings:
        state = "fixed" if finding.fixed else finding.state
        mark = sheet.style(f"{state:7}", fg=_COLOURS.get(state, "green"))
        output.say(f"{mark}  {finding.part:{width}}  {output.visible(finding.what)}")
        if finding.to_do:
            output.say(
                f"{'':9}{'':{width}}  {sheet.style(output.visible(finding.to_do), dim=True)}"
            )
    output.note("healthy" if diagnosis.healthy else "not healthy")


@click.command("backup", cls=Command)
@click.argument("file", type=click.Path())
@option("--force", is_flag=True, help="Write over FILE if it is there.")
@common_options()
@pass_session
def backup_command(session: Session, *, file: str, force: bool) -> None:
    """Copy the store to FILE.

    Others may go on writing: the copy is of one state. It is verified before it takes its place,
    is one file, and opens as a store: kb --store FILE search ...

    \b
    Examples:
      kb backup ~/backup/kb-2026-05-28.sqlite
      kb backup --force /media/stick/kb.sqlite
    """
    session.interrupted = "interrupted: no backup was made"
    with session.open() as kb, _progress(session, "copy") as show:
        path = kb.backup(file, overwrite=force, on_progress=show)
        shape = {
            "schema_version": "backup.v1",
            "store": str(kb.path),
            "path": str(path),
            "size_bytes": path.stat().st_size,
        }
    if session.json:
        output.say_json(shape)
    else:
        output.say(output.visible(str(path)))


@click.command("export", cls=Command)
@click.argument("file", type=click.Path(), default="-")
@option("--force", is_flag=True, help="Write over FILE if it is there.")
@option("--vectors", is_flag=True, help="With the vectors, so that nothing is embedded again.")
@common_options()
@pass_session
def export_command(session: Session, *, file: str, force: bool, vectors: bool) -> None:
    """Write everything in the store as JSON Lines.

    FILE is stdout, if none is named; one that ends in .gz is compressed. The first line is a
    header; then come folders, documents and passages, one a line. `kb import` reads it back.

    \b
    Examples:
      kb export notes.jsonl.gz
      kb export | jq -r 'select(.record == "document").title'
    """
    session.interrupted = "interrupted: nothing was exported"
    with session.open() as kb:
        if file == "-":
            if sys.stdout is not None:
                kb.export(sys.stdout.buffer, vectors=vectors)
                sys.stdout.buffer.flush()
            return
        with _progress(session, "export") as show:
            header = kb.export(file, overwrite=force, vectors=vectors, on_progress=show)
    if session.json:
        output.say_json(header)
        return
    output.say(output.visible(file))
    output.note(f"{header['counts']['documents']} documents, {header['counts']['chunks']} chunks")


@click.command("import", cls=Command)
@click.argument("file", type=click.Path())
@option("--merge", is_flag=True, help="Into a store that is not empty: take what is new or newer.")
@common_options()
@pass_session
def import_command(session: Session, *, file: str, merge: bool) -> None:
    """Read what `kb export` has written, all of it or nothing.

    FILE may be compressed; - is stdin. A new or empty store becomes what the exported one was, ids
    included. With --merge, a document at the same path is replaced if the import's is newer.
    Imported folders are detached: kb attach NAME FOLDER connects one to its files.

    \b
    Examples:
      kb --store new.sqlite import notes.jsonl.gz
      ssh office kb export | kb import --merge -
    """
    session.interrupted = "interrupted: nothing was imported"
    with session.open() as kb, _progress(session, "import") as show:
        report = kb.import_(_stdin() if file == "-" else file, merge=merge, on_progress=show)
        detached = [root.name for root in kb.roots() if root.detached]
    if session.json:
        from kb import wire

        output.say_json(wire.import_report(report))
        return
    counts = {"added": report.added, "replaced": report.replaced, "kept": report.kept}
    output.say(", ".join(f"{count} {name}" for name, count in counts.items()))
    for name in detached:
        output.note(f"{output.visible(name)} is detached; to read its files: kb attach NAME FOLDER")


def _stdin() -> IO[bytes]:
    return io.BytesIO() if sys.stdin is None else sys.stdin.buffer  # None: as after `<&-`


@contextmanager
def _progress(session: Session, stage: str) -> Iterator[OnProgress]:
    with progress.shown(session) as show:
        yield lambda done, total: show(stage, done, total, "")
