"""`kb embed`, and the embedding that follows `kb ingest` and `kb add`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from kb.cli import output, progress, socket_client
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.options import Command, common_options, option
from kb.errors import ModelError

if TYPE_CHECKING:
    from kb.embedding.embedder import EmbedProgress
    from kb.embedding.worker import WorkerState
    from kb.library.knowledge_base import KnowledgeBase
    from kb.types import EmbedReport


@click.command("embed", cls=Command)
@option("--limit", type=click.IntRange(min=1), metavar="N", help="Embed at most N passages.")
@option("--retry", is_flag=True, help="Also retry passages that failed too often.")
@option("--anew", is_flag=True, help="Delete all vectors first, whichever model they come from.")
@option("--worker", is_flag=True, help="Keep running, and embed new passages as they arrive.")
@common_options()
@pass_invocation
def embed_command(
    invocation: Invocation, *, limit: int | None, retry: bool, anew: bool, worker: bool
) -> int:
    """Embed the passages that have no vectors yet.

    `kb ingest` and `kb add` do this automatically, unless --no-embed is given or they are
    interrupted. You can interrupt `kb embed` at any time: finished work is kept, and the next run
    continues. Several `kb embed` processes can share the work; `kb jobs` lists them. The exit
    status is 1 if a passage could not be embedded.

    Missing term weights and token vectors are added as well.

    After a change of model, --anew deletes the old vectors and creates new ones. Until all are
    created, passages without vectors are found only by their words. After an interruption, run
    `kb embed` without --anew to continue.

    With --worker, the command waits for new passages and embeds them until you stop it. Use this
    for a store that several machines share. If a worker is killed, the others take over its
    passages.

    \b
    Examples:
      kb embed
      kb embed --limit 1000 --json
      kb embed --retry
      kb embed --worker
    """
    if worker:
        if limit is not None or anew:
            raise click.UsageError("--worker cannot be combined with --limit or --anew")
        return _run_worker(invocation, retry=retry)
    invocation.interrupt_message = "interrupted: finished work is kept; to continue, run: kb embed"
    with invocation.open() as kb, progress.reporter(invocation) as show:
        report = kb.embed(
            limit=limit,
            retry=retry,
            anew=anew,
            on_progress=lambda now: show("embed", now.done, now.total, format_pace(now)),
        )
    if invocation.json:
        from kb import wire

        output.write_json(wire.embed_report(report))
    else:
        write_embed_report(report)
    return 1 if report.failed else 0


def _run_worker(invocation: Invocation, *, retry: bool) -> int:
    """Embed new passages until a signal arrives."""
    import threading

    from kb.cli import log_handlers
    from kb.shutdown import Shutdown

    invocation.interrupt_message = "stopped"
    stop = threading.Event()

    def show(state: WorkerState) -> None:
        if state.state == "idle" and state.embedded > shown[-1]:
            output.write(f"embedded {output.count(state.embedded - shown[-1], 'passage')}")
            shown.append(state.embedded)

    shown = [0]
    with Shutdown() as shutdown, invocation.open() as kb:
        log_handlers.start(kb.config, verbose=invocation.verbose, serving=True)
        shutdown.on_signal(stop.set)
        with kb.worker(show) as worker:
            if retry:
                worker.wake(retry=True)
            output.note("waiting for passages; press Ctrl-C to stop")
            stop.wait()
        shutdown.finish()
    return 0


def embed_new(kb: KnowledgeBase, invocation: Invocation, document: str | None = None) -> None:
    """Embed the passages that `kb ingest` or `kb add` has stored, unless a running server embeds
    them. The documents are already stored, so an unusable model causes only a warning."""
    invocation.interrupt_message = (
        "interrupted: everything is stored and can be found by its words; "
        "to create the missing vectors, run: kb embed"
    )
    try:
        if not (pending := kb.pending()):
            return
        is_served = socket_client.is_served(os.path.realpath(kb.path))
        if document is None:
            passages = output.count(pending, "passage")
            rest = "the running kb serve or kb watch is embedding" if is_served else "embedding"
            output.note(f"searchable by words now; {rest} {passages}")
        if is_served:
            return
        with progress.reporter(invocation) as show:
            report = kb.embed(
                document=document,
                fill=False,
                on_progress=lambda now: show("embed", now.done, now.total, format_pace(now)),
            )
    except ModelError as error:
        output.warn(
            "new passages were not embedded and are found only by their words: "
            f"{error.message} ({error.hint})"
        )
        return
    if not invocation.json and document is None:
        write_embed_report(report)


def format_pace(now: EmbedProgress) -> str:
    """Return the speed and the estimated time left."""
    return f"{now.per_second:.1f} per second, {format_duration(now.seconds_left)} left"


def format_duration(seconds: float) -> str:
    """Return a rounded duration with its unit."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def write_embed_report(report: EmbedReport, *, is_reindex: bool = False) -> None:
    """Print the report to stdout and its warnings to stderr. The reason why a reindex cannot switch
    (`report.held`) is left to `kb reindex`."""
    name = output.escape(f"{report.model} {report.version}")
    if not report.embedded and not report.filled and not report.failed:
        output.write(_idle_message(report, name))
    else:
        filled = f" and completed {report.filled}" if report.filled else ""
        passages = output.count(report.embedded, "passage")
        output.write(f"embedded {passages}{filled} with {name} in {report.seconds:.1f} s")
        if report.truncated:
            passages = output.count(report.truncated, "passage")
            verb = "exceeds" if report.truncated == 1 else "exceed"
            output.note(
                f"{passages} {verb} the model's input limit; only the beginning was embedded"
            )
        if report.left > report.elsewhere and not is_reindex:
            output.note(f"{report.left - report.elsewhere} left; to embed them, run: kb embed")
    if report.unfit:
        output.note(f"{output.escape(report.unfit)}; searches for such text use words only")
        output.note("to use this model anyway, set models.exam = false and run: kb embed")
    if report.held is not None:
        return
    if report.elsewhere:
        output.note(_elsewhere(report.elsewhere))
    _warn_failures(report)


def _elsewhere(count: int) -> str:
    which = "1 more passage is" if count == 1 else f"{count} more passages are"
    return f"{which} being embedded by another kb process; see: kb jobs"


def _idle_message(report: EmbedReport, name: str) -> str:
    if report.left and report.left == report.elsewhere:
        return "nothing to do: another kb process is embedding the rest"
    if report.left:
        return f"nothing embedded; {report.left} left"
    if report.given_up or report.lacking:
        return f"nothing to do: all other passages have vectors from {name}"
    return f"nothing to do: all passages have vectors from {name}"


def _warn_failures(report: EmbedReport) -> None:
    reason = output.escape(report.last_error or "")
    if report.lacking and report.last_error:
        lack = "1 passage lacks" if report.lacking == 1 else f"{report.lacking} passages lack"
        output.warn(f"{lack} term weights or token vectors: {reason} (see: kb jobs)")
    if report.failed:
        output.warn(f"{output.count(report.failed, 'passage')} could not be embedded: {reason}")
    if report.given_up:
        passages = output.count(report.given_up, "passage")
        cause = "" if report.failed else f": {reason}"
        output.warn(f"gave up on {passages} after several failures{cause} (run: kb embed --retry)")
