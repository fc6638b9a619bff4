"""`kb eval`: measures search quality, and tunes profiles."""

from __future__ import annotations

import signal
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kb.cli import output, progress
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.options import Command, common_options, option, split_commas
from kb.errors import KbError, ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kb.evaluation.corpus_store import EvaluationSetup
    from kb.evaluation.runs import EvalReport
    from kb.evaluation.tuning import Tuning
    from kb.library.knowledge_base import KnowledgeBase
    from kb.ports import Encoder

_PATH = click.Path(path_type=Path)


def _data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that select judgments and documents."""
    for add in reversed((
        option(
            "--data", metavar="DIR", type=_PATH,
            help="A folder in BEIR's layout: queries.jsonl, qrels/ and optionally corpus.jsonl.",
        ),
        option(
            "--judgments", metavar="FILE.csv", type=_PATH,
            help="Instead of --data: a CSV of query, document and grade, to evaluate your store.",
        ),
        option(
            "--documents", metavar="DIR", type=_PATH,
            help="Search the files in this folder, in a temporary store instead of your own.",
        ),
    )):  # fmt: skip
        command = add(command)
    return command


_GAIN = option(
    "--gain",
    type=click.Choice(("linear", "exp")),
    default="linear",
    show_default=True,
    help="The gain of a grade in nDCG: the grade itself, or 2^grade - 1.",
)
_LIMIT = option(
    "--limit-queries", type=click.IntRange(min=1), metavar="N", help="Use only the first N queries."
)
_NO_CACHE = option(
    "--no-cache", is_flag=True, help="Encode every passage again, and do not cache the result."
)


@click.group("eval", invoke_without_command=True)
@click.pass_context
def eval_command(context: click.Context) -> None:
    """Measure search quality on judged queries, and tune profiles.

    \b
    Example:
      kb eval run --data examples/judgments --documents examples/library
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@eval_command.command("run", cls=Command)
@_data_options
@option("--split", metavar="NAME", help="The split of the judgments to use.  [default: test]")
@option(
    "--methods",
    default="default",
    show_default=True,
    metavar="A,B",
    help="Methods to compare: profiles, and match-any, match-all, match-auto, fts5_only, "
    "dense_only, sparse_only, two_way_hybrid, three_way_hybrid, three_way_reranked.",
)
@option(
    "--measures",
    default="nDCG@10,Recall@100,MRR",
    show_default=True,
    metavar="A,B",
    help="nDCG@k, Recall@k, Precision@k (P@k), MRR, MRR@k, Success@k.",
)
@_GAIN
@option("--baseline", metavar="NAME", help="The method to compare with.  [default: the first]")
@_LIMIT
@_NO_CACHE
@option(
    "--per-query", is_flag=True, heading="Output", help="Also print the results of every query."
)
@option("--markdown", is_flag=True, heading="Output", help="Print Markdown tables.")
@option(
    "--html", type=_PATH, metavar="FILE", heading="Output",
    help="Also write a self-contained page with plots to FILE.",
)  # fmt: skip
@option(
    "--save", type=_PATH, metavar="FILE", heading="Output",
    help="Also write the report to FILE as JSON.",
)  # fmt: skip
@option(
    "--force",
    is_flag=True,
    heading="Output",
    help="Replace the files of --html and --save, even if kb did not write them.",
)
@common_options()
@pass_invocation
def run_command(
    invocation: Invocation,
    /,
    *,
    methods: str,
    measures: str,
    baseline: str | None,
    no_cache: bool,
    per_query: bool,
    markdown: bool,
    html: Path | None,
    save: Path | None,
    force: bool,
    **options: Any,
) -> None:
    """Compare methods on judged queries.

    Prints each measure with its confidence interval, the gain over the baseline, and latency.
    If the folder contains a corpus, it is searched in a temporary store. Otherwise the judgments
    refer to documents in your own store, by path, by citation, or by an unambiguous path suffix.
    Encoded passages are cached for the next run. --html and --save replace earlier reports; any
    other existing file needs --force, and an input is never replaced.

    \b
    Examples:
      kb eval run --data examples/judgments --methods default,lexical
      kb eval run --judgments mine.csv --per-query --html report.html
      kb eval run --data scifact --measures nDCG@10 --save scifact.json
    """
    from kb.cli.report_files import check_outputs
    from kb.evaluation.experiment import check_methods, parts_needed, run_experiment
    from kb.locations import cache_folder

    names = split_commas([methods])
    if baseline is not None and baseline not in names:
        names = (baseline, *names)
    with invocation.open() as kb:
        config, store = kb.config, kb.path
        inputs = (options["data"], options["judgments"], options["documents"])
        check_outputs((html, save), inputs=inputs, store=store, force=force)
        check_methods(names, config)
        encoder = _encoder(kb) if parts_needed(names, config) else None
    with _interrupt_on_sigterm(), progress.reporter(invocation) as show:
        report = run_experiment(
            methods=names,
            baseline=baseline,
            encoder=encoder,
            measures=split_commas([measures]),
            config=config,
            store=store,
            judge=kb.judge,
            cache=None if no_cache else cache_folder(),
            on_progress=lambda stage, done, total: show(stage, done, total, ""),
            **options,
        )
    _write_report(invocation, report, per_query=per_query, markdown=markdown)
    _write_files(report, html=html, save=save, per_query=per_query)


@eval_command.command("tune", cls=Command)
@_data_options
@option(
    "--split", metavar="NAME", help="The split to tune on.  [default: dev or train, if it exists]"
)
@option(
    "--report-split", metavar="NAME",
    help="The split to measure on.  [default: test, or folds if there is only one split]",
)  # fmt: skip
@option(
    "--profile",
    default="default",
    show_default=True,
    metavar="NAME",
    help="The profile to tune.",
)
@option(
    "--measure",
    default="nDCG@10",
    show_default=True,
    metavar="NAME",
    help="The measure to maximize.",
)
@_GAIN
@_LIMIT
@_NO_CACHE
@option(
    "--write",
    metavar="NAME",
    help="Write the result to config.toml as this profile, if it is better.",
)
@option("--force", is_flag=True, help="Replace an existing profile of that name.")
@common_options()
@pass_invocation
def tune_command(
    invocation: Invocation,
    /,
    *,
    profile: str,
    no_cache: bool,
    write: str | None,
    force: bool,
    **options: Any,
) -> None:
    """Tune how a profile fuses retrievers on judged queries.

    Tries weights, normalization and k on one split, and measures the best combination on another,
    against the current profile. With one split only, it uses five-fold cross-validation. It never
    tunes on `test` if another split exists. The profile is written only if the confidence interval
    of the change is above zero. Reranking settings do not change: tuning uses the order before
    reranking, and the measurement uses the final order.

    \b
    Examples:
      kb eval tune --data scifact --split train
      kb eval tune --judgments mine.csv --write mine
    """
    from kb.evaluation.corpus_store import EvaluationSetup
    from kb.evaluation.experiment import parts_needed
    from kb.evaluation.profile_file import check_name
    from kb.evaluation.tuning import tune
    from kb.evaluation.tuning_report import tuning_to_dict, tuning_to_text
    from kb.locations import cache_folder

    with invocation.open() as kb:
        if write is not None:
            check_name(write, profile, kb.config, force=force)
        encoder = _encoder(kb) if parts_needed([profile], kb.config) else None
        setup = EvaluationSetup(
            kb.config,
            own=kb.path,
            encoder=encoder,
            judge=kb.judge,
            cache=None if no_cache else cache_folder(),
        )
    with _interrupt_on_sigterm(), progress.reporter(invocation) as show:
        tuning = tune(
            profile=profile,
            setup=setup,
            on_progress=lambda stage, done, total: show(stage, done, total, ""),
            **options,
        )
    written, problem = None, None
    if write is not None and tuning.better:
        try:
            written = _write_profile(write, tuning, setup)
        except KbError as error:  # raised after the results are printed: they took minutes
            problem = error
    if invocation.json:
        output.write_json(tuning_to_dict(tuning, written))
    else:
        output.write("\n".join(map(output.escape, tuning_to_text(tuning).split("\n"))))
        if written is not None:
            output.write(f"wrote profile {write} to {output.escape(written)}")
    if problem is not None:
        raise problem


@contextmanager
def _interrupt_on_sigterm() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, so that the temporary store is removed."""
    previous = None
    with suppress(ValueError):  # signal handlers need the main thread
        previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        if previous is not None:
            signal.signal(signal.SIGTERM, previous)


def _write_profile(name: str, tuning: Tuning, setup: EvaluationSetup) -> str:
    """Write the profile to the store's settings if the store exists, otherwise to the user's."""
    from kb.config import files, trust_store, user_file
    from kb.evaluation.profile_file import fitted_profile, write_profile

    own = setup.own
    path = files(own)[-1] if isinstance(own, Path) and own.exists() else user_file()
    table = fitted_profile(tuning.profile, setup.config, tuning.settings)
    table["summary"] = f"{tuning.profile}, tuned on {tuning.data}"
    with trust_store().preserve(path):
        write_profile(path, name, table)
    return str(path)


def _write_report(
    invocation: Invocation, report: EvalReport, *, per_query: bool, markdown: bool
) -> None:
    from kb.evaluation.report import to_dict, to_markdown, to_table

    if invocation.json:
        output.write_json(to_dict(report, per_query=per_query))
    else:
        text = (to_markdown if markdown else to_table)(report, per_query=per_query)
        output.write("\n".join(map(output.escape, text.split("\n"))))


def _write_files(
    report: EvalReport, *, html: Path | None, save: Path | None, per_query: bool
) -> None:
    """Write the files. Called after the report is printed, so that a full disk does not lose it."""
    import json

    from kb.cli.report_files import write
    from kb.evaluation.html import to_html
    from kb.evaluation.report import to_dict

    if save is not None:
        write(save, json.dumps(to_dict(report, per_query=per_query), indent=2) + "\n")
    if html is not None:
        write(html, to_html(report))
        output.note(f"wrote {output.escape(str(html))}")


def _encoder(kb: KnowledgeBase) -> Encoder | None:
    try:
        return kb.encoder()
    except ModelError as error:
        output.warn(f"evaluating lexical search only: {error.message}")
        return None
