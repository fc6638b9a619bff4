"""`kb ingest` and `kb attach`."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import click

from kb.cli import output, progress
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.options import Command, common_options, option

if TYPE_CHECKING:
    from kb.ingest.progress import Progress
    from kb.library.knowledge_base import KnowledgeBase
    from kb.types import FileNote, IngestReport

# A file that was being read is not in the store, and will be read from its beginning.
_INTERRUPTED = (
    "interrupted: finished files are in the store; to read the rest, run the same command"
)
_MAX_PART = 0.99


@click.command("ingest", cls=Command)
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@option("--dry-run", is_flag=True, help="Only show what would be done.")
@option("--hidden", is_flag=True, help="Also read files and folders whose names start with a dot.")
@option("--force", is_flag=True, help="Also read files that look unchanged.")
@option("--follow-links", is_flag=True, help="Follow symbolic links.")
@option("--no-embed", is_flag=True, help="Do not create vectors now; `kb embed` does it later.")
@common_options()
@pass_invocation
def ingest_command(
    invocation: Invocation,
    *,
    paths: tuple[str, ...],
    dry_run: bool,
    force: bool,
    hidden: bool,
    follow_links: bool,
    no_embed: bool,
) -> int:
    """Read files and folders into the store.

    Folders that were ingested before are updated: changed files are read again, and files deleted
    from disk are removed from the store. Without PATH, all ingested folders are updated.
    .gitignore and .kbignore apply; files that look like keys or credentials are skipped, unless
    ingest.include_secrets lists them.

    New text can be found by its words at once, and by its meaning once it is embedded. A running
    `kb serve` or `kb watch` of this store embeds it; otherwise this command does so after reading
    the files. The exit status is 1 if a file could not be read.

    \b
    Examples:
      kb ingest ~/notes ~/papers
      kb ingest
      kb ingest --dry-run ~/notes
    """
    flags = {"ingest.hidden": hidden, "ingest.follow_links": follow_links}
    if not dry_run:
        invocation.interrupt_message = _INTERRUPTED
    overrides = {key: True for key, is_set in flags.items() if is_set}
    with invocation.open(overrides) as kb:
        with invocation.announce_new_store(kb), progress.reporter(invocation) as show:
            report = kb.ingest(
                *paths, dry_run=dry_run, force=force, on_progress=lambda now: _show(now, show)
            )
        return _finish(invocation, kb, report, embed=not dry_run and not no_embed)


@click.command("attach", cls=Command)
@click.argument("name")
@click.argument("folder", required=False, type=click.Path())
@option("--no-embed", is_flag=True, help="Do not create vectors now; `kb embed` does it later.")
@common_options()
@pass_invocation
def attach_command(invocation: Invocation, *, name: str, folder: str | None, no_embed: bool) -> int:
    """Connect an imported or moved folder to its files.

    `kb import` restores documents without their files: the folder is detached, and kb does not
    read its path. NAME is the folder's name in `kb status`; FOLDER is where its files are on this
    machine (by default, the path in the import). The files are read as with `kb ingest`; documents
    without a file keep their text.

    \b
    Examples:
      kb attach notes ~/notes
      kb attach papers /media/disk/papers
    """
    invocation.interrupt_message = _INTERRUPTED
    with invocation.open() as kb:
        with progress.reporter(invocation) as show:
            report = kb.attach(name, folder, on_progress=lambda now: _show(now, show))
        return _finish(invocation, kb, report, embed=not no_embed)


def _finish(invocation: Invocation, kb: KnowledgeBase, report: IngestReport, *, embed: bool) -> int:
    """Print the report, embed new passages, and return the exit status."""
    if invocation.json:
        from kb import wire

        output.write_json(wire.ingest_report(report))
    else:
        _write_report(report, verbose=bool(invocation.verbose))
    for note in report.notes:
        output.note(output.escape(note))
    if embed:
        from kb.cli.embed import embed_new

        embed_new(kb, invocation)
    return 1 if report.failed or report.missing_roots else 0


def _show(now: Progress, show: progress.ProgressReporter) -> None:
    """Count a file in progress by the fraction that has been read, so that the bar keeps moving."""
    share = min(now.part / now.parts, _MAX_PART) if now.parts else 0.0
    details = [f"{100 * now.part // now.parts} %"] if now.parts else []
    if now.chunks:
        details.append(f"{now.chunks:,} passages")
    show(now.stage, now.done + share, now.total, now.path, ", ".join(details))


def _write_report(report: IngestReport, *, verbose: bool) -> None:
    """Print the changes to stdout and the problems to stderr."""
    if verbose or report.dry_run:
        _write_changes(report)
    _write_skipped(report.skipped, verbose=verbose)
    output.write(_summary(report))
    console = output.Console.of(sys.stderr)
    for warning in report.warnings:
        output.warn(_file_note(warning))
    for failure in report.failed:
        output.note(f"{console.style('failed:', fg='red', bold=True)} {_file_note(failure)}")
    for root in report.missing_roots:
        missing = console.style("missing:", fg="red", bold=True)
        output.note(f"{missing} {output.escape(root)} does not exist; its documents were kept")


def _write_changes(report: IngestReport) -> None:
    for sign, paths in (("+", report.added), ("~", report.changed), ("-", report.removed)):
        for path in paths:
            output.write(f"{sign} {output.escape(path)}")
    for moved in report.renamed:
        output.write(f"~ {output.escape(moved.before)} -> {output.escape(moved.after)}")


def _write_skipped(skipped: tuple[FileNote, ...], *, verbose: bool) -> None:
    if verbose:
        for note in skipped:
            output.write(f"skipped {_file_note(note)}")
        return
    for reason, count in Counter(note.reason for note in skipped).most_common():
        output.write(f"skipped {count}: {output.escape(reason)}")


def _summary(report: IngestReport) -> str:
    counts = {
        "added": len(report.added),
        "changed": len(report.changed),
        "unchanged": report.unchanged,
        "removed": len(report.removed),
        "skipped": len(report.skipped),
        "failed": len(report.failed),
    }
    if report.renamed:
        counts["renamed"] = len(report.renamed)
    summary = ", ".join(f"{count} {name}" for name, count in counts.items())
    if report.dry_run:
        return f"dry run: {summary}"
    return f"{summary} in {report.seconds:.1f} s"


def _file_note(note: FileNote) -> str:
    return f"{output.escape(note.path)}: {output.escape(note.reason)}"
