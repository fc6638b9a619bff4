"""`kb ingest` and `kb attach`."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import click

from kb.cli import output, progress
from kb.cli.invocation import Session, pass_session
from kb.cli.options import Command, common_options, option

if TYPE_CHECKING:
    from kb.ingest.progress import Progress
    from kb.library.knowledge_base import KnowledgeBase
    from kb.types import FileNote, IngestReport

# Said of a file that was begun, too: it is not in the store, and will be read from its beginning.
_INTERRUPTED = (
    "interrupted: what was read is in the store; the same command, given again, reads the rest"
)
_NOT_WHOLE = 0.99


@click.command("ingest", cls=Command)
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path())
@option("--dry-run", is_flag=True, help="Only say what would be done.")
@option("--hidden", is_flag=True, help="Also read what has a name that starts with a dot.")
@option("--force", is_flag=True, help="Read files again that look unchanged.")
@option("--follow-links", is_flag=True, help="Follow symbolic links.")
@option("--no-embed", is_flag=True, help="Make no vectors now; kb embed makes them later.")
@common_options()
@pass_session
def ingest_command(
    session: Session,
    *,
    paths: tuple[str, ...],
    dry_run: bool,
    force: bool,
    hidden: bool,
    follow_links: bool,
    no_embed: bool,
) -> int:
    """Read files and folders into the store.

    What was read before is brought up to date: only what has changed is read again, and what is
    gone from disk goes from the store. Without PATH, that is done for every folder that was
    ingested before. .gitignore and .kbignore are honoured; keys, .env and the like are left out,
    unless ingest.include_secrets names them.
    What is new is found by its words at once, and by its meaning when its vectors are made, which
    follows. The exit status is 1 if a file could not be read.

    \b
    Examples:
      kb ingest ~/notes ~/papers
      kb ingest
      kb ingest --dry-run ~/notes
    """
    flags = {"ingest.hidden": hidden, "ingest.follow_links": follow_links}
    if not dry_run:
        session.interrupted = _INTERRUPTED
    overrides = {key: True for key, given in flags.items() if given}
    with session.open(overrides) as kb:
        with session.new_store_named(kb), progress.shown(session) as show:
            report = kb.ingest(
                *paths, dry_run=dry_run, force=force, on_progress=lambda now: _show(now, show)
            )
        return _end(session, kb, report, embed=not dry_run and not no_embed)


@click.command("attach", cls=Command)
@click.argument("name")
@click.argument("folder", required=False, type=click.Path())
@option("--no-embed", is_flag=True, help="Make no vectors now; kb embed makes them later.")
@common_options()
@pass_session
def attach_command(session: Session, *, name: str, folder: str | None, no_embed: bool) -> int:
    """Connect an imported or moved folder to its files.

    `kb import` brings documents without their files: their folder is detached, and nothing at its
    path is read. NAME is what `kb status` calls it, FOLDER is where its files lie on this machine
    (without it, at the path that the import named). They are read as by `kb ingest`; documents
    whose files are not there keep their text.

    \b
    Examples:
      kb attach notes ~/notes
      kb attach papers /media/disk/papers
    """
    session.interrupted = _INTERRUPTED
    with session.open() as kb:
        with progress.shown(session) as show:
            report = kb.attach(name, folder, on_progress=lambda now: _show(now, show))
        return _end(session, kb, report, embed=not no_embed)


def _end(session: Session, kb: KnowledgeBase, report: IngestReport, *, embed: bool) -> int:
    """Say what was done, and make vectors for what is new."""
    if session.json:
        from kb import wire

        output.say_json(wire.ingest_report(report))
    else:
        _say(report, listed=bool(session.verbose))
    for note in report.notes:
        output.note(output.visible(note))
    if embed:
        from kb.cli.embed import embed_new

        embed_new(kb, session)
    return 1 if report.failed or report.missing_roots else 0


def _show(now: Progress, show: progress.Show) -> None:
    """A file that is partly read counts as a part of one, so that the bar moves with it."""
    share = min(now.part / now.parts, _NOT_WHOLE) if now.parts else 0.0
    within = [f"{100 * now.part // now.parts} %"] if now.parts else []
    if now.chunks:
        within.append(f"{now.chunks:,} passages")
    show(now.stage, now.done + share, now.total, now.path, ", ".join(within))


def _say(report: IngestReport, *, listed: bool) -> None:
    """What was done is data; what went wrong is said on stderr."""
    if listed or report.dry_run:
        _say_changes(report)
    _say_skipped(report.skipped, listed=listed)
    output.say(_summary(report))
    sheet = output.Page.of(sys.stderr)
    for warning in report.warnings:
        output.warn(_line(warning))
    for failure in report.failed:
        output.note(f"{sheet.style('failed:', fg='red', bold=True)} {_line(failure)}")
    for root in report.missing_roots:
        missing = sheet.style("missing:", fg="red", bold=True)
        output.note(f"{missing} {output.visible(root)} is not there; nothing of it was removed")


def _say_changes(report: IngestReport) -> None:
    for sign, paths in (("+", report.added), ("~", report.changed), ("-", report.removed)):
        for path in paths:
            output.say(f"{sign} {output.visible(path)}")
    for moved in report.renamed:
        output.say(f"~ {output.visible(moved.before)} -> {output.visible(moved.after)}")


def _say_skipped(skipped: tuple[FileNote, ...], *, listed: bool) -> None:
    if listed:
        for note in skipped:
            output.say(f"skipped {_line(note)}")
        return
    for reason, count in Counter(note.reason for note in skipped).most_common():
        output.say(f"skipped {count}: {output.visible(reason)}")


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
    shown = ", ".join(f"{count} {name}" for name, count in counts.items())
    if report.dry_run:
        return f"would be: {shown}"
    return f"{shown} in {report.seconds:.1f} s"


def _line(note: FileNote) -> str:
    return f"{output.visible(note.path)}: {output.visible(note.reason)}"
