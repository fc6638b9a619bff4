"""`kb eval`: how well searches find what they should, and which settings find more."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kb.cli import output, progress
from kb.cli.invocation import Session, pass_session
from kb.cli.options import Command, common_options, option, split_commas
from kb.errors import InvalidRequest, KbError, ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kb.evaluation.corpus_store import Ground
    from kb.evaluation.runs import EvalReport
    from kb.evaluation.tuning import Tuning
    from kb.library.knowledge_base import KnowledgeBase
    from kb.ports import Encoder

_A_FILE = click.Path(path_type=Path)


def _data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What is judged and what is searched."""
    for add in reversed((
        option(
            "--data", metavar="DIR", type=_A_FILE,
            help="A folder in BEIR's layout: queries.jsonl, qrels/ and, or not, corpus.jsonl.",
        ),
        option(
            "--judgments", metavar="FILE.csv", type=_A_FILE,
            help="Instead of --data: query, document, grade, about the documents of your store.",
        ),
        option(
            "--documents", metavar="DIR", type=_A_FILE,
            help="Search the files in this folder, in a scratch store, instead of your own store.",
        ),
    )):  # fmt: skip
        command = add(command)
    return command


_GAIN = option(
    "--gain",
    type=click.Choice(("linear", "exp")),
    default="linear",
    show_default=True,
    help="What a grade is worth to nDCG: itself, or 2^grade - 1.",
)
_LIMIT = option(
    "--limit-queries", type=click.IntRange(min=1), metavar="N", help="Only the first N."
)
_NO_CACHE = option(
    "--no-cache", is_flag=True, help="Encode every passage again, and keep none for the next run."
)


@click.group("eval", invoke_without_command=True)
@click.pass_context
def eval_command(context: click.Context) -> None:
    """Measure searches on judged data, and fit them to it.

    \b
    Example:
      kb eval run --data examples/judgments --documents examples/library
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@eval_command.command("run", cls=Command)
@_data_options
@option("--split", metavar="NAME", help="Which judgments of the folder.  [default: test]")
@option(
    "--methods",
    default="default",
    show_default=True,
    metavar="A,B",
    help="Profiles to compare, and match-any, match-all, match-auto, fts5_only, dense_only, "
    "sparse_only, two_way_hybrid, three_way_hybrid, three_way_reranked.",
)
@option(
    "--measures",
    default="nDCG@10,Recall@100,MRR",
    show_default=True,
    metavar="A,B",
    help="nDCG@k, Recall@k, Precision@k (P@k), MRR, MRR@k, Success@k.",
)
@_GAIN
@option("--baseline", metavar="NAME", help="What to compare with.  [default: the first method]")
@_LIMIT
@_NO_CACHE
@option("--per-query", is_flag=True, heading="Output", help="Also the figures of every query.")
@option("--markdown", is_flag=True, heading="Output", help="Tables in Markdown.")
@option(
    "--html", type=_A_FILE, metavar="FILE", heading="Output",
    help="Also write a page with plots to FILE; it needs no network.",
)  # fmt: skip
@option(
    "--save", type=_A_FILE, metavar="FILE", heading="Output",
    help="Also write the report to FILE, in JSON.",
)  # fmt: skip
@common_options()
@pass_session
def run_command(
    session: Session,
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
    **options: Any,
) -> None:
    """Compare methods on judged queries.

    Prints each measure with its confidence interval and the gain over the baseline, and latency.
    A corpus in the folder goes into a scratch store. Without one, the judgments are about the
    documents of your own store, by path, by citation, or by the end of a path that only one has.
    Encoded passages are kept for the next run.

    \b
    Examples:
      kb eval run --data examples/judgments --methods default,lexical
      kb eval run --judgments mine.csv --per-query --html report.html
      kb eval run --data scifact --measures nDCG@10 --save scifact.json
    """
    from kb.config import cache_folder
    from kb.evaluation.experiment import check_methods, parts_needed, run_trial

    _check_writable(html, save)
    named = split_commas([methods])
    if baseline is not None and baseline not in named:
        named = (baseline, *named)
    with session.open() as kb:
        config, store = kb.config, kb.path
        check_methods(named, config)
        encoder = _encoder(kb) if parts_needed(named, config) else None
    with _tidy(), progress.shown(session) as show:
        report = run_trial(
            methods=named,
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
    _say(session, report, per_query=per_query, markdown=markdown)
    _write_files(report, html=html, save=save, per_query=per_query)


@eval_command.command("tune", cls=Command)
@_data_options
@option(
    "--split", metavar="NAME", help="The judgments to fit to.  [default: dev or train, if there]"
)
@option(
    "--report-split", metavar="NAME",
    help="The judgments to measure on.  [default: test; without another split, folds]",
)  # fmt: skip
@option(
    "--profile",
    default="default",
    show_default=True,
    metavar="NAME",
    help="The profile to improve.",
)
@option("--measure", default="nDCG@10", show_default=True, metavar="NAME", help="What is to rise.")
@_GAIN
@_LIMIT
@_NO_CACHE
@option("--write", metavar="NAME", help="If it is better, write it to config.toml as this profile.")
@option("--force", is_flag=True, help="Replace a profile of that name.")
@common_options()
@pass_session
def tune_command(
    session: Session,
    /,
    *,
    profile: str,
    no_cache: bool,
    write: str | None,
    force: bool,
    **options: Any,
) -> None:
    """Fit how a profile fuses its retrievers to judged queries.

    Weights, normalisation and k are tried on one split, and what fits best is measured on another,
    against the profile as it is. With one split only, its queries are cut into five folds: each is
    measured with what was fitted to the other four. `test` is never fitted to where there is
    another split. A profile is written only if it is better beyond doubt: if the confidence
    interval of the change is above zero. How it reranks is left as it is: fitted is the order
    before, measured the one after.

    \b
    Examples:
      kb eval tune --data scifact --split train
      kb eval tune --judgments mine.csv --write mine
    """
    from kb.config import cache_folder
    from kb.evaluation.corpus_store import Ground
    from kb.evaluation.experiment import parts_needed
    from kb.evaluation.profile_file import check_name
    from kb.evaluation.tuning import tune
    from kb.evaluation.tuning_report import tuning_to_dict, tuning_to_text

    with session.open() as kb:
        if write is not None:
            check_name(write, profile, kb.config, force=force)
        encoder = _encoder(kb) if parts_needed([profile], kb.config) else None
        ground = Ground(
            kb.config,
            own=kb.path,
            encoder=encoder,
            judge=kb.judge,
            cache=None if no_cache else cache_folder(),
        )
    with _tidy(), progress.shown(session) as show:
        tuning = tune(
            profile=profile,
            ground=ground,
            on_progress=lambda stage, done, total: show(stage, done, total, ""),
            **options,
        )
    written, problem = None, None
    if write is not None and tuning.better:
        try:
            written = _write_profile(write, tuning, ground)
        except KbError as error:  # told behind the figures, which took minutes
            problem = error
    if session.json:
        output.say_json(tuning_to_dict(tuning, written))
    else:
        output.say("\n".join(map(output.visible, tuning_to_text(tuning).split("\n"))))
        if written is not None:
            output.say(f"written: profile {write} in {output.visible(written)}")
    if problem is not None:
        raise problem


@contextmanager
def _tidy() -> Iterator[None]:
    """A trial that is told to end takes its scratch store with it, as one that is interrupted
    does."""
    before = None
    with suppress(ValueError):  # not in the main thread, where signals go
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _write_profile(name: str, tuning: Tuning, ground: Ground) -> str:
    """Into the settings of the store, if there is one, else into the user's."""
    from kb.config import files, trust_record, user_file
    from kb.evaluation.profile_file import fitted_profile, write_profile

    own = ground.own
    path = files(own)[-1] if own is not None and own.exists() else user_file()
    table = fitted_profile(tuning.profile, ground.config, tuning.settings)
    table["summary"] = f"{tuning.profile}, fitted to {tuning.data}"
    with trust_record().kept(path):
        write_profile(path, name, table)
    return str(path)


def _say(session: Session, report: EvalReport, *, per_query: bool, markdown: bool) -> None:
    from kb.evaluation.report import to_dict, to_markdown, to_table

    if session.json:
        output.say_json(to_dict(report, per_query=per_query))
    else:
        told = (to_markdown if markdown else to_table)(report, per_query=per_query)
        output.say("\n".join(map(output.visible, told.split("\n"))))


def _write_files(
    report: EvalReport, *, html: Path | None, save: Path | None, per_query: bool
) -> None:
    """After the figures were printed: a disk that is full does not take them away."""
    import json

    from kb.evaluation.html import to_html
    from kb.evaluation.report import to_dict

    if save is not None:
        _write(save, json.dumps(to_dict(report, per_query=per_query), indent=2) + "\n")
    if html is not None:
        _write(html, to_html(report))
        output.note(f"written: {output.visible(str(html))}")


def _encoder(kb: KnowledgeBase) -> Encoder | None:
    try:
        return kb.encoder()
    except ModelError as error:
        output.warn(f"measured by words only: {error.message}")
        return None


def _check_writable(*paths: Path | None) -> None:
    """Before minutes are spent on what could not be written."""
    named = [path for path in paths if path is not None]
    for path in named:
        if problem := _problem(path):
            raise InvalidRequest(f"cannot write {path}: {problem}", "name another file")
    if len({path.resolve() for path in named}) < len(named):
        raise InvalidRequest(f"{named[0]} is to be two files", "name another file")


def _problem(path: Path) -> str:
    if path.is_dir():
        return "it is a folder"
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        return "no permission to write there"
    return ""


def _write(path: Path, text: str) -> None:
    """A file is there whole or not at all; what is no file, such as a pipe, is written into."""
    from kb.atomic import placed

    with_what = {"encoding": "utf-8", "errors": "backslashreplace"}
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, **with_what)
        else:
            with placed(path.resolve(), overwrite=True) as part:
                part.write_text(text, **with_what)
    except OSError as error:
        message = f"cannot write {path}: {error.strerror}"
        raise InvalidRequest(message, "name another file") from error
