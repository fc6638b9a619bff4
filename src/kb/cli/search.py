"""`kb search` and `kb similar`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from kb.cli.hit_output import HitOutput
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.options import (
    Choice,
    Command,
    common_options,
    document_argument,
    filter_options,
    option,
    utf8_text,
)
from kb.cli.query_command import QueryCommand
from kb.cli.search_run import run_search, show
from kb.search.retrievers import registry
from kb.types import MATCHES, RERANKERS, Filters


def _mode_help() -> str:
    retrievers = [f"{spec.mode} ({spec.label})" for spec in registry.specs()]
    choices = f"{', '.join(retrievers[:-1])} or {retrievers[-1]}"
    return f"Use one retriever: {choices}; or hybrid, all retrievers of the profile."


_OUTPUT: tuple[Callable[[Callable[..., Any]], Callable[..., Any]], ...] = (
    option("--explain", is_flag=True, heading="Output", help="Also show how the hits were found."),
    option(
        "--text", "include_text", is_flag=True, heading="Output",
        help="Print whole passages instead of snippets; in JSON, add them as `text`.",
    ),
    option(
        "--paths", is_flag=True, heading="Output",
        help="Print only the file of each hit, as PATH:LINE if the file has lines.",
    ),
    option(
        "-l", "--files", is_flag=True, heading="Output",
        help="Print only the files that have hits, each once.",
    ),
    option(
        "--null", is_flag=True, heading="Output",
        help="With --paths or -l, end each path with a NUL character, for xargs -0.",
    ),
    option("--jsonl", is_flag=True, heading="Output", help="Print JSON, one hit per line."),
)  # fmt: skip


def hit_output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `HitOutput`, and `--explain` and `--text`."""
    for add in reversed(_OUTPUT):
        command = add(command)
    return command


@click.command("search", cls=QueryCommand)
@click.argument("query", type=utf8_text, nargs=-1, required=True)
@option(
    "-n",
    "--top",
    type=int,
    metavar="N",
    help="Number of hits.  [default: set by the profile, or 10]",
)
@option("--profile", metavar="NAME", help="The search profile; see `kb config profiles`.")
@option(
    "--mode",
    type=Choice(registry.modes),
    metavar="MODE",
    help=_mode_help,
)
@option("--fts-only", is_flag=True, help="Short for --mode lexical.")
@option("--vec-only", is_flag=True, help="Short for --mode vector.")
@option(
    "--match",
    type=Choice(MATCHES),
    metavar="MATCH",
    help="Words that lexical hits must contain: any, all, or auto (all first, then any). Hits "
    "found by meaning may contain other words; --mode lexical excludes them.",
)
@option("--threshold", type=float, metavar="SCORE", help="Drop hits with a lower score.")
@option(
    "--min-relevance",
    type=float,
    metavar="P",
    help="Drop hits with a lower relevance, a probability from 0 to 1.",
)
@option(
    "--rerank",
    is_flag=True,
    help="Rerank the first hits with the profile's reranker, or else the best available.",
)
@option(
    "--reranker",
    type=Choice(RERANKERS),
    metavar="NAME",
    help="Rerank with colbert or cross-encoder; none is the same as --no-rerank.",
)
@option("--no-rerank", is_flag=True, help="Disable reranking, even if the profile enables it.")
@option(
    "--budget-ms",
    type=int,
    metavar="MS",
    help="Time limit for reranking, once its model is loaded; fewer hits are reranked if needed.",
)
@option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="Override a setting of the profile; can be repeated.",
)
@option(
    "--exact",
    is_flag=True,
    help="Compare the query with all vectors. In very large stores, searches compare only the most "
    "similar groups of them.",
)
@option("--group", is_flag=True, help="Return only the best hit of each document.")
@option(
    "--all",
    "show_all",
    is_flag=True,
    help="Show duplicates as separate hits, and any number of hits from one document.",
)
@filter_options
@hit_output_options
@common_options()
@pass_invocation
def search_command(invocation: Invocation, /, **options: Any) -> None:
    """Find passages. QUERY is any text; - reads it from stdin.

    A query in single quotes is passed to FTS5 as an expression. To read a hit, pass its citation to
    `kb get`; `kb open 1` opens the first hit in your editor or PDF viewer.

    After the first word, options that kb does not have are part of the query. kb's own options work
    anywhere; after -- everything is part of the query.

    \b
    Examples:
      kb search retry storm
      kb search --tags gateway --after 2026-01-01 "why did the batch fail"
      kb search "'NEAR(backoff jitter)'" --json
      kb search --rerank --budget-ms 500 why do clocks drift
      kb search git push --force
      kb search -l --null retry | xargs -0 wc -l
      kb search -- grep --json
    """
    run_search(invocation, **options)


@click.command("similar", cls=Command)
@document_argument("name")
@option("-n", "--top", type=int, metavar="N", help="Number of hits.  [default: 10]")
@option(
    "--threshold", type=float, metavar="SCORE", help="Drop hits with a lower cosine similarity."
)
@option(
    "--group/--no-group",
    default=None,
    is_flag=True,
    help="Return only the best hit of each document.  [default: if NAME is a document]",
)
@filter_options
@hit_output_options
@common_options()
@pass_invocation
def similar_command(
    invocation: Invocation,
    /,
    *,
    name: str,
    filters: Filters,
    threshold: float | None,
    jsonl: bool,
    paths: bool,
    files: bool,
    null: bool,
    **options: Any,
) -> None:
    """Find passages similar to a passage or a document.

    NAME is a citation from `kb search`, the path of a document, or a chunk id. The passage or
    document itself is not returned.

    \b
    Examples:
      kb similar notes/retry.md
      kb similar notes/retry.md#L12-L34 -n 5
    """
    form = HitOutput(jsonl, paths, files, null)
    form.check(json=invocation.json)
    with invocation.open() as kb:
        search = partial(kb.similar, name, filters=filters, **options)
        show(search, threshold, invocation, kb, form, filters=filters)
