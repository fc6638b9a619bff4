"""`kb doctor`, `backup`, `copy`, `export` and `import`."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import click

from kb.cli import output, progress
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.options import Command, common_options, option

if TYPE_CHECKING:
    from kb.library.knowledge_base import OnProgress
    from kb.types import Diagnosis

UNHEALTHY = 3
_STDOUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
_COLORS = {"ok": "green", "warning": "yellow", "error": "red"}


@click.command("doctor", cls=Command)
@option("--fix", is_flag=True, help="Rebuild derived data, and replace unreadable values.")
@common_options()
@pass_invocation
def doctor_command(invocation: Invocation, *, fix: bool) -> int:
    """Check the store's integrity.

    Checks the file, its rows, indexes and counters, and whether folders, files and citations still
    exist. --fix never changes readable documents and text, and reports anything that is lost. The
    exit status is 3 if an error is found; warnings do not count.

    \b
    Examples:
      kb doctor
      kb doctor --fix
    """
    with invocation.open() as kb:
        diagnosis = kb.doctor(fix=fix)
    if invocation.json:
        from kb import wire

        output.write_json(wire.diagnosis(diagnosis))
    else:
        _write_diagnosis(diagnosis)
    return 0 if diagnosis.healthy else UNHEALTHY


def _write_diagnosis(diagnosis: Diagnosis) -> None:
    console = output.Console.of(sys.stdout)
    width = max(len(finding.part) for finding in diagnosis.findings)
    for finding in diagnosis.findings:
        state = "fixed" if finding.fixed else finding.state
        mark = console.style(f"{state:7}", fg=_COLORS.get(state, "green"))
        output.write(f"{mark}  {finding.part:{width}}  {output.escape(finding.what)}")
        if finding.to_do:
            output.write(
                f"{'':9}{'':{width}}  {console.style(output.escape(finding.to_do), dim=True)}"
            )
    output.note("healthy" if diagnosis.healthy else "not healthy")


@click.command("backup", cls=Command)
@click.argument("file", type=click.Path())
@option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@common_options()
@pass_invocation
def backup_command(invocation: Invocation, *, file: str, force: bool) -> None:
    """Copy the store to FILE.

    The copy is a consistent snapshot, even while other processes write. It is verified before it
    replaces FILE, and can be opened as a store: kb --store FILE search ...

    \b
    Examples:
      kb backup ~/backup/kb-2026-05-28.sqlite
      kb backup --force /media/stick/kb.sqlite
    """
    invocation.interrupt_message = "interrupted: no backup was written"
    with invocation.open() as kb, _progress(invocation, "copy") as show:
        path = kb.backup(file, overwrite=force, on_progress=show)
        shape = {
            "schema_version": "backup.v1",
            "store": kb.location,
            "path": str(path),
            "size_bytes": path.stat().st_size,
        }
    if invocation.json:
        output.write_json(shape)
    else:
        output.write(output.escape(str(path)))


@click.command("copy", cls=Command)
@click.argument("source")
@click.argument("dest")
@common_options(store=False)
@pass_invocation
def copy_command(invocation: Invocation, *, source: str, dest: str) -> None:
    """Copy the store SOURCE to DEST, which must be new or empty.

    Both are files or URLs, and may be different kinds of stores. Documents, passages and vectors
    keep their ids. If the copy is interrupted, DEST is incomplete; run the same command again to
    continue it. At the end, DEST is compared with SOURCE: counts, hashes, and fifty random
    searches. Folders of the copy are detached; `kb attach NAME FOLDER` connects them to their
    files.

    \b
    Examples:
      kb copy .kb/kb.sqlite postgresql://kb@db/team
      kb copy 'postgresql://kb@db/team?schema=docs' docs.sqlite
    """
    from kb.library.store_copy import copy

    invocation.interrupt_message = "interrupted: to continue, run the same command"
    with _progress(invocation, "copy") as show:
        report = copy(source, dest, show)
    if invocation.json:
        from kb import wire

        output.write_json(wire.copy_report(report))
        return
    output.write(output.escape(report.copy))
    documents = output.count(report.documents, "document")
    chunks = output.count(report.chunks, "chunk")
    output.note(f"{documents}, {chunks}; {report.searches} searches returned the same hits")
    for name in report.detached:
        output.note(f"{output.escape(name)} is detached; to read its files: kb attach NAME FOLDER")


@click.command("export", cls=Command)
@click.argument("file", type=click.Path(), default="-")
@option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@option("--vectors", is_flag=True, help="Include vectors, so that an import need not embed again.")
@common_options()
@pass_invocation
def export_command(invocation: Invocation, *, file: str, force: bool, vectors: bool) -> None:
    """Write everything in the store as JSON Lines.

    Without FILE, the export is written to stdout. A file whose name ends in .gz is compressed. The
    first line is a header; folders, documents and passages follow, one per line. `kb import` reads
    the file.

    \b
    Examples:
      kb export notes.jsonl.gz
      kb export | jq -r 'select(.record == "document").title'
    """
    invocation.interrupt_message = "interrupted: nothing was exported"
    with invocation.open() as kb:
        if file in _STDOUT:
            if sys.stdout is not None:
                kb.export(sys.stdout.buffer, vectors=vectors)
                sys.stdout.buffer.flush()
            return
        with _progress(invocation, "export") as show:
            header = kb.export(file, overwrite=force, vectors=vectors, on_progress=show)
    if invocation.json:
        output.write_json(header)
        return
    output.write(output.escape(file))
    counts = header["counts"]
    documents = output.count(counts["documents"], "document")
    output.note(f"{documents}, {output.count(counts['chunks'], 'chunk')}")


@click.command("import", cls=Command)
@click.argument("file", type=click.Path())
@option(
    "--merge",
    is_flag=True,
    help="Merge into a store that is not empty: add new documents, replace older imports.",
)
@common_options()
@pass_invocation
def import_command(invocation: Invocation, *, file: str, merge: bool) -> None:
    """Import a file from `kb export`, completely or not at all.

    FILE may be compressed; - reads stdin. A new or empty store becomes a copy of the exported one,
    including ids. With --merge, new documents are added, and an earlier import of a document is
    replaced by a later one; notes and documents of your files stay as they are. Imported folders
    are detached; `kb attach NAME FOLDER` connects them to their files.

    \b
    Examples:
      kb --store new.sqlite import notes.jsonl.gz
      ssh office kb export | kb import --merge -
    """
    invocation.interrupt_message = "interrupted: nothing was imported"
    with invocation.open() as kb, _progress(invocation, "import") as show:
        report = kb.import_(_stdin() if file == "-" else file, merge=merge, on_progress=show)
        detached = [root.name for root in kb.roots() if root.detached]
    if invocation.json:
        from kb import wire

        output.write_json(wire.import_report(report))
        return
    counts = {"added": report.added, "replaced": report.replaced, "kept": report.kept}
    output.write(", ".join(f"{count} {name}" for name, count in counts.items()))
    for name in detached:
        output.note(f"{output.escape(name)} is detached; to read its files: kb attach NAME FOLDER")


def _stdin() -> IO[bytes]:
    return io.BytesIO() if sys.stdin is None else sys.stdin.buffer  # None: as after `<&-`


@contextmanager
def _progress(invocation: Invocation, stage: str) -> Iterator[OnProgress]:
    with progress.reporter(invocation) as show:
        yield lambda done, total: show(stage, done, total, "")
