"""`kb eval`: how well searches find what they should."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kb.cli import page, progress
from kb.cli.options import Command, common_options, option, split_commas
from kb.cli.session import Session, pass_session
from kb.errors import InvalidRequest, ModelError

if TYPE_CHECKING:
    from kb.app import KnowledgeBase
    from kb.ports import Encoder


@click.group("eval", invoke_without_command=True)
@click.pass_context
def eval_command(context: click.Context) -> None:
    """Measure searches on judged data.

    \b
    Example:
      kb eval run --data examples/judgments
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@eval_command.command("run", cls=Command)
@option(
    "--data",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="A folder in BEIR's layout: queries.jsonl, qrels/ and, or not, corpus.jsonl.",
)
@option("--split", default="test", show_default=True, metavar="NAME", help="Which judgments.")
@option(
    "--methods",
    default="default",
    show_default=True,
    metavar="A,B",
    help="Profiles to compare, and match-any, match-all, match-auto, fts5_only, dense_only, "
    "two_way_hybrid.",
)
@option(
    "--measures",
    default="nDCG@10,Recall@100,MRR",
    show_default=True,
    metavar="A,B",
    help="nDCG@k, Recall@k, Precision@k, MRR.",
)
@option(
    "--gain",
    type=click.Choice(("linear", "exp")),
    default="linear",
    show_default=True,
    help="What a grade is worth to nDCG: itself, or 2^grade - 1.",
)
@option("--baseline", metavar="NAME", help="What to compare with.  [default: the first method]")
@option("--limit-queries", type=click.IntRange(min=1), metavar="N", help="Only the first N.")
@option(
    "--save",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write the report to FILE, in JSON.",
)
@common_options()
@pass_session
def run_command(
    session: Session,
    /,
    *,
    data: Path,
    methods: str,
    measures: str,
    save: Path | None,
    **options: Any,
) -> None:
    """Compare methods on judged queries.

    Prints each measure with its confidence interval and the gain over the baseline, and latency.
    A corpus in the folder goes into a scratch store. Without one, the judgments are about the
    documents of your own store, by path.

    \b
    Examples:
      kb eval run --data examples/judgments --methods default,lexical
      kb eval run --data scifact --measures nDCG@10 --save scifact.json
    """
    from kb.evaluation.report import to_dict, to_table
    from kb.evaluation.trial import check_methods, needs_vectors, run_trial

    named = split_commas([methods])
    with session.open() as kb:
        config, store = kb.config, kb.path
        check_methods(named, config)
        encoder = _encoder(kb) if needs_vectors(named, config) else None
    with progress.shown(session) as show:
        report = run_trial(
            data,
            methods=named,
            encoder=encoder,
            measures=split_commas([measures]),
            config=config,
            store=store,
            on_progress=lambda method, done, total: show(method, done, total, ""),
            **options,
        )
    if save is not None:
        _save(to_dict(report), save)
    if session.json:
        page.say_json(to_dict(report))
    else:
        page.say(to_table(report))


def _encoder(kb: KnowledgeBase) -> Encoder | None:
    try:
        return kb.encoder()
    except ModelError as error:
        page.warn(f"measured by words only: {error.message}")
        return None


def _save(shape: dict[str, Any], path: Path) -> None:
    import json

    try:
        path.write_text(json.dumps(shape, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        message = f"cannot write {path}: {error.strerror}"
        raise InvalidRequest(message, "name another file") from error
