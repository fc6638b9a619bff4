"""`kb embed`: chunks that have no vectors yet get them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kb.cli import output, progress
from kb.cli.invocation import Session, pass_session
from kb.cli.options import Command, common_options, option
from kb.errors import ModelError

if TYPE_CHECKING:
    from kb.embedding.embedder import EmbedProgress
    from kb.library.knowledge_base import KnowledgeBase
    from kb.types import EmbedReport


@click.command("embed", cls=Command)
@option("--limit", type=click.IntRange(min=1), metavar="N", help="At most so many chunks.")
@option("--retry", is_flag=True, help="Also those that failed so often that they were given up.")
@option("--anew", is_flag=True, help="Drop all vectors first, of whatever model they are.")
@common_options()
@pass_session
def embed_command(session: Session, *, limit: int | None, retry: bool, anew: bool) -> int:
    """Give vectors to the passages that have none yet.

    `kb ingest` and `kb add` do that by themselves unless they are told not to, or interrupted.
    It can be interrupted at any moment: what was done is kept, and the next run does the rest.
    Several may run at once and share the work; `kb jobs` shows them. The exit status is 1 if a
    passage could not be embedded.

    Passages that have a vector and lack term weights or token vectors get these too.

    After a change of the model, --anew drops the vectors of the old one and makes them again. Until
    it is done, what is not embedded yet is found by its words; if it is interrupted, kb embed
    without --anew goes on.

    \b
    Examples:
      kb embed
      kb embed --limit 1000 --json
      kb embed --retry
    """
    session.interrupted = "interrupted: what was embedded is in the store; kb embed does the rest"
    with session.open() as kb, progress.shown(session) as show:
        report = kb.embed(
            limit=limit,
            retry=retry,
            anew=anew,
            on_progress=lambda now: show("embed", now.done, now.total, pace(now)),
        )
    if session.json:
        from kb import wire

        output.say_json(wire.embed_report(report))
    else:
        say_embedded(report)
    return 1 if report.failed else 0


def embed_new(kb: KnowledgeBase, session: Session, document: str | None = None) -> None:
    """What `kb ingest` and `kb add` go on with. Their own work is done and said: a model that
    cannot be used is a warning, and an interruption loses nothing."""
    session.interrupted = (
        "interrupted: everything is in the store, and found by its words; "
        "kb embed makes the vectors that are missing"
    )
    try:
        if not kb.pending():
            return
        with progress.shown(session) as show:
            report = kb.embed(
                document=document,
                fill=False,
                on_progress=lambda now: show("embed", now.done, now.total, pace(now)),
            )
    except ModelError as error:
        output.warn(f"not embedded, so found by words only: {error.message} ({error.hint})")
        return
    if not session.json and document is None:
        say_embedded(report)


def pace(now: EmbedProgress) -> str:
    """How fast it goes, and how long it will take."""
    return f"{now.per_second:.1f} a second, {in_words(now.seconds_left)} left"


def in_words(seconds: float) -> str:
    """A span of time, roughly."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def say_embedded(report: EmbedReport, *, is_reindex: bool = False) -> None:
    """What was done is data; what is worth knowing about it is said on stderr. What holds up a
    reindex is said by that."""
    name = output.visible(f"{report.model} {report.version}")
    if not report.embedded and not report.filled and not report.failed:
        output.say(_nothing(report, name))
    else:
        filled = f", {report.filled} completed" if report.filled else ""
        output.say(f"{report.embedded} embedded{filled} by {name} in {report.seconds:.1f} s")
        if report.truncated:
            are = "1 is" if report.truncated == 1 else f"{report.truncated} are"
            output.note(
                f"{are} longer than the model can see: what is cut off is not in its vector"
            )
        if report.left > report.elsewhere and not is_reindex:
            output.note(f"{report.left - report.elsewhere} left: kb embed")
    if report.unfit:
        output.note(f"{output.visible(report.unfit)}: words answer there, and not its vectors")
        output.note(
            "a model made for other texts is believed after models.exam = false and kb embed"
        )
    if report.held is not None:
        return
    if report.elsewhere:
        output.note(_elsewhere(report.elsewhere))
    _say_failed(report)


def _elsewhere(count: int) -> str:
    which = "1 more passage gets its vectors" if count == 1 else f"{count} more get their vectors"
    return f"{which} from another kb that is running; kb jobs shows it"


def _nothing(report: EmbedReport, name: str) -> str:
    if report.left and report.left == report.elsewhere:
        return "nothing to do here: what is left is being embedded"
    if report.left:
        return f"nothing embedded; {report.left} left"
    if report.given_up or report.lacking:
        return f"nothing to do: every other passage has its vectors by {name}"
    return f"nothing to do: every passage has its vectors by {name}"


def _say_failed(report: EmbedReport) -> None:
    why = output.visible(report.last_error or "")
    if report.lacking and report.last_error:
        lack = "1 passage lacks" if report.lacking == 1 else f"{report.lacking} passages lack"
        output.warn(f"{lack} term weights or token vectors: {why} (kb jobs)")
    if report.failed:
        output.warn(f"{report.failed} could not be embedded: {why}")
    if report.given_up:
        count = "1 passage is" if report.given_up == 1 else f"{report.given_up} passages are"
        said = "" if report.failed else f": {why}"
        output.warn(f"{count} given up after several failures{said} (kb embed --retry tries again)")
