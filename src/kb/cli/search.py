"""`kb search` and `kb similar`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kb.cli import output
from kb.cli.hit_output import HitOutput, hit_output_options, is_json, write_response
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.options import (
    Choice,
    Command,
    common_options,
    document_argument,
    filter_options,
    option,
    text_or_stdin,
    utf8_text,
)
from kb.cli.query_command import QueryCommand
from kb.search.retrievers import registry
from kb.types import MATCHES, RERANKERS, Filters, SearchRequest

if TYPE_CHECKING:
    from kb.library.knowledge_base import KnowledgeBase
    from kb.types import Response

_NO_THRESHOLD = -1e6  # lower than any score


def _mode_help() -> str:
    retrievers = [f"{spec.mode} ({spec.label})" for spec in registry.specs()]
    choices = f"{', '.join(retrievers[:-1])} or {retrievers[-1]}"
    return f"Use one retriever: {choices}; or hybrid, all retrievers of the profile."


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
    help="Show duplicates as hits of their own, and any number of hits from one document.",
)
@filter_options
@hit_output_options
@common_options()
@pass_invocation
def search_command(
    invocation: Invocation,
    /,
    *,
    query: tuple[str, ...],
    mode: str | None,
    fts_only: bool,
    vec_only: bool,
    settings: tuple[str, ...],
    rerank: bool,
    reranker: str | None,
    no_rerank: bool,
    group: bool,
    show_all: bool,
    filters: Filters,
    threshold: float | None,
    min_relevance: float | None,
    jsonl: bool,
    paths: bool,
    files: bool,
    null: bool,
    **options: Any,
) -> None:
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
    form = HitOutput(jsonl, paths, files, null)
    form.check(json=invocation.json)
    changed: dict[str, Any] = dict(_parse_setting(text) for text in settings)
    with invocation.open() as kb:
        request = SearchRequest(
            text_or_stdin(query),
            mode=_mode(mode, fts_only=fts_only, vec_only=vec_only),
            rerank=_reranker(reranker, on=rerank, off=no_rerank),
            filters=filters,
            settings=changed | {"group": True} if group else changed,
            min_relevance=min_relevance,
            collapse=False if show_all else None,
            **options,
        )

        def search(threshold: float | None) -> Response:
            return kb.execute(replace(request, threshold=threshold))

        response = _run(search, threshold, invocation, kb, form, filtered=bool(filters))
        if min_relevance and not (response.hits or is_json(invocation, form)):
            _note_min_relevance(kb.execute(replace(request, min_relevance=0.0)), min_relevance)


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
        _run(search, threshold, invocation, kb, form, filtered=bool(filters))


def _mode(mode: str | None, *, fts_only: bool, vec_only: bool) -> str | None:
    modes = {"--fts-only": "lexical"} if fts_only else {}
    modes |= {"--vec-only": "vector"} if vec_only else {}
    modes |= {f"--mode {mode}": mode} if mode is not None else {}
    if len(set(modes.values())) > 1:
        raise click.UsageError(f"{' and '.join(modes)} cannot be used together")
    return next(iter(modes.values()), None)


def _reranker(name: str | None, *, on: bool, off: bool) -> str | bool | None:
    off_by = "--no-rerank" if off else "--reranker none" if name == "none" else None
    on_by = "--rerank" if on else f"--reranker {name}" if name not in (None, "none") else None
    if off_by is not None and on_by is not None:
        raise click.UsageError(f"{on_by} and {off_by} cannot be used together")
    return False if off_by is not None else name or on or None


def _run(
    search: Callable[..., Response],
    threshold: float | None,
    invocation: Invocation,
    kb: KnowledgeBase,
    form: HitOutput,
    *,
    filtered: bool,
) -> Response:
    response = search(threshold=threshold)
    if not is_json(invocation, form):
        from kb.cli import last_hits

        last_hits.save(kb.path, invocation.terminal, [hit.citation.uri for hit in response.hits])
    write_response(response, kb, invocation, form, filtered=filtered)
    if threshold is not None and not (response.hits or is_json(invocation, form)):
        _note_threshold(search(threshold=_NO_THRESHOLD), threshold)
    return response


def _note_threshold(response: Response, threshold: float) -> None:
    """Print the best score: the scale of scores depends on the profile."""
    if response.hits:
        best = max(hit.score for hit in response.hits)
        hits = output.count(response.returned, "hit")
        output.note(f"--threshold {threshold:g} dropped {hits}; the best score is {best:.4g}")


def _note_min_relevance(response: Response, least: float) -> None:
    """Print the best relevance, so that the caller can choose another limit."""
    known = [hit.relevance for hit in response.hits if hit.relevance is not None]
    if known:
        hits = output.count(len(known), "hit")
        best = f"the best relevance is {max(known):.2g}"
        output.note(f"--min-relevance {least:g} dropped {hits}; {best}")


def _parse_setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--set")
    return key.strip(), value.strip()
