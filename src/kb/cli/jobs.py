"""`kb jobs` and `kb reindex`: embedding in progress, and the switch to another model."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from kb.cli import output, progress
from kb.cli.embed import format_duration, format_pace, write_embed_report
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.options import Command, common_options, option

if TYPE_CHECKING:
    from kb.types import Failure, Job, Jobs, Work


@click.group("jobs", invoke_without_command=True)
@common_options()
@click.pass_context
def jobs_command(context: click.Context) -> None:
    """Show pending and failed embeddings, and running jobs.

    A job is a running `kb embed`, `kb ingest` or server. No two jobs work on the same passage; if
    a job is killed, others take over its passages. After a failure, background jobs retry a
    passage after one minute, then after ten; `kb embed` retries at once. After three failures kb
    gives up on the passage.

    \b
    Examples:
      kb jobs
      kb jobs --json
      kb jobs retry
    """
    if context.invoked_subcommand is not None:
        return
    invocation = context.ensure_object(Invocation)
    with invocation.open() as kb:
        jobs = kb.jobs()
    if invocation.json:
        from kb import wire

        output.write_json(wire.jobs(jobs))
    else:
        _write(jobs)


@jobs_command.command("retry", cls=Command)
@common_options()
@pass_invocation
def retry_command(invocation: Invocation) -> None:
    """Retry passages that failed too often.

    The next `kb embed`, or a running server, embeds them.

    \b
    Example:
      kb jobs retry && kb embed
    """
    with invocation.open() as kb:
        retried = kb.retry()
    if invocation.json:
        from kb import wire

        output.write_json(wire.retry_report(retried))
    else:
        output.write(f"{output.count(retried, 'passage')} will be retried")


def _write(jobs: Jobs) -> None:
    console = output.Console.of(sys.stdout)
    if not jobs.work:
        output.write("nothing has been embedded yet")
    for work in jobs.work:
        output.write(_work_line(work))
    for job in jobs.jobs:
        output.write(f"  {_job_line(job)}")
    if jobs.failures:
        output.write(console.style("failures", bold=True))
    for failure in jobs.failures:
        output.write(f"  {_failure_line(failure)}")


def _work_line(work: Work) -> str:
    model = work.model
    facts = [f"{model.ready} ready", f"{model.pending} pending"]
    facts += [f"{model.failed} failed"] if model.failed else []
    facts += [f"{work.lacking} incomplete"] if work.lacking else []
    if work.workers:
        facts.append(output.count(work.workers, "worker"))
    if work.seconds_left is not None:
        facts.append(
            f"{work.per_second:.1f} per second, about {format_duration(work.seconds_left)} left"
        )
    role = {"search": "", "next": " (next)", "gone": " (being dropped)"}[model.role or "search"]
    return f"{output.escape(f'{model.name} {model.version}')}{role}: {', '.join(facts)}"


def _job_line(job: Job) -> str:
    state = "lost" if job.lost else "running"
    process = f"{output.escape(job.place)}, process {job.pid}"
    time = format_duration(job.seconds)
    return f"{state}: {process}, {job.done} done in {time}, {job.leased} in progress"


def _failure_line(failure: Failure) -> str:
    attempts = output.count(failure.attempts, "attempt")
    state = "gave up after" if failure.given_up else "will be retried after"
    note = " (incomplete, but searchable)" if failure.searchable else ""
    place = output.escape(f"{failure.doc_path}, chunk {failure.chunk_id}")
    return f"{place}: {state} {attempts}{note}: {output.escape(failure.error)}"


@click.command("reindex", cls=Command)
@option(
    "--model",
    required=True,
    metavar="NAME",
    help="The encoder: a name from `kb models list`, or a folder.",
)
@option("--force", is_flag=True, help="Switch even if some passages cannot be embedded.")
@option(
    "--keep-old", is_flag=True, help="Keep the old vectors, to switch back without embedding again."
)
@common_options()
@pass_invocation
def reindex_command(invocation: Invocation, *, model: str, force: bool, keep_old: bool) -> int:
    """Switch to another embedding model without downtime.

    New vectors are created while searches use the old ones. When every passage has a new vector,
    searches switch over at once, and the old vectors are deleted. From then on the store uses this
    model, whatever models.encoder is set to.

    If the new model fails on a passage that has an old vector, the switch waits; --force switches
    anyway.

    You can interrupt the command at any time: searches keep using the old vectors, and the same
    command or a running server continues. To cancel the switch, run `kb reindex` with the old
    model. The exit status is 1 if searches still use the old vectors; a message explains why.

    \b
    Examples:
      kb reindex --model kb-mini
      kb reindex --model ~/models/bge-m3 --keep-old
    """
    invocation.interrupt_message = (
        "interrupted: searches use the old vectors; to continue, run the same command"
    )
    with invocation.open() as kb, progress.reporter(invocation) as show:
        report, switched = kb.reindex(
            model,
            keep_old=keep_old,
            force=force,
            on_progress=lambda now: show("reindex", now.done, now.total, format_pace(now)),
        )
    if invocation.json:
        from kb import wire

        output.write_json(wire.reindex_report(report, switched))
    else:
        write_embed_report(report, is_reindex=True)
        name = output.escape(f"{report.model} {report.version}")
        used = f"now use the vectors of {name}" if switched else "still use the old vectors"
        output.write(f"searches {used}")
        if report.held is not None:
            output.warn(output.escape(report.held))
    return 0 if switched else 1
