"""`kb jobs` and `kb reindex`: vectors that are being made, and another model's."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from kb.cli import output, progress
from kb.cli.embed import in_words, pace, say_embedded
from kb.cli.invocation import Session, pass_session
from kb.cli.options import Command, common_options, option

if TYPE_CHECKING:
    from kb.types import Failure, Job, Jobs, Work


@click.group("jobs", invoke_without_command=True)
@common_options()
@click.pass_context
def jobs_command(context: click.Context) -> None:
    """Show what waits for vectors, who is at it, what failed.

    A job is a running `kb embed`, `kb ingest` or server. Each works on passages that no other does;
    what one was at work on when it was killed is taken up by others. A passage that fails is tried
    again after a minute, then after ten by those that run in the background, and at once by
    `kb embed`; after three failures it is given up.

    \b
    Examples:
      kb jobs
      kb jobs --json
      kb jobs retry
    """
    if context.invoked_subcommand is not None:
        return
    session = context.ensure_object(Session)
    with session.open() as kb:
        found = kb.jobs()
    if session.json:
        from kb import wire

        output.say_json(wire.jobs(found))
    else:
        _say(found)


@jobs_command.command("retry", cls=Command)
@common_options()
@pass_session
def retry_command(session: Session) -> None:
    """Let passages that were given up be tried again.

    `kb embed`, or a server that is running, takes them up.

    \b
    Example:
      kb jobs retry && kb embed
    """
    with session.open() as kb:
        retried = kb.retry()
    if session.json:
        from kb import wire

        output.say_json(wire.retry_report(retried))
    else:
        output.say("1 to be tried again" if retried == 1 else f"{retried} to be tried again")


def _say(found: Jobs) -> None:
    sheet = output.Page.of(sys.stdout)
    if not found.work:
        output.say("nothing was embedded yet")
    for work in found.work:
        output.say(_work_line(work))
    for job in found.jobs:
        output.say(f"  {_job_line(job)}")
    if found.failures:
        output.say(sheet.style("failures", bold=True))
    for failure in found.failures:
        output.say(f"  {_failure_line(failure)}")


def _work_line(work: Work) -> str:
    model = work.model
    facts = [f"{model.ready} ready", f"{model.pending} pending"]
    facts += [f"{model.failed} failed"] if model.failed else []
    facts += [f"{work.lacking} lack a part"] if work.lacking else []
    if work.workers:
        facts.append("1 worker" if work.workers == 1 else f"{work.workers} workers")
    if work.seconds_left is not None:
        facts.append(f"{work.per_second:.1f} a second, about {in_words(work.seconds_left)} left")
    role = {"search": "", "next": " (next)", "gone": " (being dropped)"}[model.role or "search"]
    return f"{output.visible(f'{model.name} {model.version}')}{role}: {', '.join(facts)}"


def _job_line(job: Job) -> str:
    state = "lost" if job.lost else "running"
    at = f"{output.visible(job.place)}, process {job.pid}"
    return f"{state}: {at}, {job.done} done in {in_words(job.seconds)}, at work on {job.leased}"


def _failure_line(failure: Failure) -> str:
    tried = "1 attempt" if failure.attempts == 1 else f"{failure.attempts} attempts"
    state = "given up after" if failure.given_up else "tried again after"
    lacks = " (found by meaning, lacks a part)" if failure.searchable else ""
    place = output.visible(f"{failure.doc_path}, chunk {failure.chunk_id}")
    return f"{place}: {state} {tried}{lacks}: {output.visible(failure.error)}"


@click.command("reindex", cls=Command)
@option("--model", required=True, metavar="NAME", help="An encoder: a name of kb models list.")
@option("--force", is_flag=True, help="Do without vectors of passages that the model fails with.")
@option("--keep-old", is_flag=True, help="Keep the old vectors, to change back to them at once.")
@common_options()
@pass_session
def reindex_command(session: Session, *, model: str, force: bool, keep_old: bool) -> int:
    """Change to the vectors of another model, without a gap.

    They are built beside those that answer, also for what is added meanwhile. When every passage
    has one, they answer, all at once; then the old ones are dropped. NAME may be a folder that
    holds a model too. The store remembers its model, whatever models.encoder says.

    No passage loses its vectors by it: while the new model fails with one that the old one has, the
    old ones answer on, unless --force is given.

    It can be interrupted at any moment: the old vectors answer on, and the same command goes on
    where it was, or a server that is running. Named again, the model of the old ones ends it: what
    was built of the new ones is dropped. The exit status is 1 if the old ones still answer; what is
    said then tells why.

    \b
    Examples:
      kb reindex --model kb-mini
      kb reindex --model ~/models/bge-m3 --keep-old
    """
    session.interrupted = "interrupted: the old vectors answer on; kb reindex goes on from here"
    with session.open() as kb, progress.shown(session) as show:
        report, switched = kb.reindex(
            model,
            keep_old=keep_old,
            force=force,
            on_progress=lambda now: show("reindex", now.done, now.total, pace(now)),
        )
    if session.json:
        from kb import wire

        output.say_json(wire.reindex_report(report, switched))
    else:
        say_embedded(report, is_reindex=True)
        name = output.visible(f"{report.model} {report.version}")
        output.say(f"the vectors of {name} answer now" if switched else "the old vectors answer on")
        if report.held is not None:
            output.warn(output.visible(report.held))
    return 0 if switched else 1
