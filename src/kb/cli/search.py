"""`kb search` and `kb similar`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kb.cli import output
from kb.cli.invocation import Session, pass_session
from kb.cli.options import (
    Choice,
    Command,
    common_options,
    document_argument,
    filter_options,
    option,
    readable,
    text_or_stdin,
)
from kb.errors import KbError
from kb.types import MATCHES, MODES, RERANKERS, Filters

if TYPE_CHECKING:
    from kb.library.knowledge_base import KnowledgeBase
    from kb.types import Response

_ASKED_CHARS = 60  # of a query that found nothing, to be recognised by
_ANY_SCORE = -1e6  # a threshold that cuts nothing


@click.command("search", cls=Command)
@click.argument("query", type=readable, nargs=-1, required=True)
@option("-n", "--top", type=int, metavar="N", help="How many hits.  [default: by profile, 10]")
@option("--profile", metavar="NAME", help="How to search; kb config profiles shows which.")
@option(
    "--mode",
    type=Choice(MODES),
    metavar="MODE",
    help="Only this retriever: lexical (words), vector (meaning), sparse (weighted terms); or "
    "hybrid: those of the profile.",
)
@option("--fts-only", is_flag=True, help="The same as --mode lexical.")
@option("--vec-only", is_flag=True, help="The same as --mode vector.")
@option(
    "--match",
    type=Choice(MATCHES),
    metavar="MATCH",
    help="Which words a hit found by words needs: any, all, or auto (all first, then any). What "
    "is found by meaning may have others; with --mode lexical there is nothing else.",
)
@option("--threshold", type=float, metavar="SCORE", help="Cut hits with a lower score.")
@option(
    "--rerank",
    is_flag=True,
    help="Have the first hits read once more, by the reranker of the profile or else the best.",
)
@option(
    "--reranker",
    type=Choice(RERANKERS),
    metavar="NAME",
    help="The same, by colbert or cross-encoder; none is --no-rerank.",
)
@option("--no-rerank", is_flag=True, help="Not even if the profile does.")
@option(
    "--budget-ms",
    type=int,
    metavar="MS",
    help="How long a rerank may take, once its model is loaded: as many hits are read as fit in.",
)
@option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="Change a setting of the profile; may be repeated.",
)
@option("--group", is_flag=True, help="Only the best hit of each document.")
@filter_options
@option("--explain", is_flag=True, heading="Output", help="Also show how hits were found.")
@option("--jsonl", is_flag=True, heading="Output", help="Answer in JSON, one hit a line.")
@common_options()
@pass_session
def search_command(
    session: Session,
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
    filters: Filters,
    threshold: float | None,
    jsonl: bool,
    **options: Any,
) -> None:
    """Find passages. QUERY is any text; - reads it from stdin.

    A query in single quotes is an FTS5 expression, as it stands. Give a hit's citation to
    `kb get` to read the passage.

    \b
    Examples:
      kb search retry storm
      kb search --tags gateway --after 2026-01-01 "why did the batch fail"
      kb search "'NEAR(backoff jitter)'" --json
      kb search --rerank --budget-ms 500 why do clocks drift
    """
    changed: dict[str, Any] = dict(_pair(text) for text in settings)
    with session.open() as kb:
        ask = partial(
            kb.search,
            text_or_stdin(query),
            mode=_mode(mode, fts_only=fts_only, vec_only=vec_only),
            rerank=_reranker(reranker, on=rerank, off=no_rerank),
            filters=filters,
            settings=changed | {"group": True} if group else changed,
            **options,
        )
        _answer(ask, threshold, session, kb, filtered=bool(filters), jsonl=jsonl)


@click.command("similar", cls=Command)
@document_argument("name")
@option("-n", "--top", type=int, metavar="N", help="How many hits.  [default: 10]")
@option("--threshold", type=float, metavar="SCORE", help="Cut hits with a lower cosine.")
@option(
    "--group/--no-group",
    default=None,
    is_flag=True,
    help="Only the best hit of each document.  [default: if NAME is a document]",
)
@filter_options
@option("--explain", is_flag=True, heading="Output", help="Also show how hits were found.")
@option("--jsonl", is_flag=True, heading="Output", help="Answer in JSON, one hit a line.")
@common_options()
@pass_session
def similar_command(
    session: Session,
    /,
    *,
    name: str,
    filters: Filters,
    threshold: float | None,
    jsonl: bool,
    **options: Any,
) -> None:
    """Find what is like a passage, or like a document.

    NAME is a citation as `kb search` shows it, a document's path, or the number of a chunk. What
    it names is not found again.

    \b
    Examples:
      kb similar notes/retry.md
      kb similar notes/retry.md#L12-L34 -n 5
    """
    with session.open() as kb:
        ask = partial(kb.similar, name, filters=filters, **options)
        _answer(ask, threshold, session, kb, filtered=bool(filters), jsonl=jsonl)


def _mode(mode: str | None, *, fts_only: bool, vec_only: bool) -> str | None:
    said = {"--fts-only": "lexical"} if fts_only else {}
    said |= {"--vec-only": "vector"} if vec_only else {}
    said |= {f"--mode {mode}": mode} if mode is not None else {}
    if len(set(said.values())) > 1:
        raise click.UsageError(f"{' and '.join(said)} contradict each other")
    return next(iter(said.values()), None)


def _reranker(name: str | None, *, on: bool, off: bool) -> str | bool | None:
    off_by = "--no-rerank" if off else "--reranker none" if name == "none" else None
    on_by = "--rerank" if on else f"--reranker {name}" if name not in (None, "none") else None
    if off_by is not None and on_by is not None:
        raise click.UsageError(f"{on_by} and {off_by} contradict each other")
    return False if off_by is not None else name or on or None


def _answer(
    ask: Callable[..., Response],
    threshold: float | None,
    session: Session,
    kb: KnowledgeBase,
    *,
    filtered: bool,
    jsonl: bool,
) -> None:
    response = ask(threshold=threshold)
    if jsonl:
        _say_lines(response, kb)
    elif session.json:
        from kb import wire

        output.say_json(wire.response(response))
    else:
        _say(response, kb, filtered=filtered)
        if threshold is not None and not response.hits:
            _say_what_was_cut(ask(threshold=_ANY_SCORE), threshold)


def _say_what_was_cut(response: Response, threshold: float) -> None:
    """Scores have another scale in every profile: who asks too much is told what there is."""
    if response.hits:
        best = max(hit.score for hit in response.hits)
        hits = "1 hit" if response.returned == 1 else f"{response.returned} hits"
        output.note(f"--threshold {threshold:g} cut {hits}; the best score is {best:.4g}")


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--set")
    return key.strip(), value.strip()


def _say_lines(response: Response, kb: KnowledgeBase) -> None:
    from kb import wire

    for hit in response.hits:
        output.say_json_line(wire.hit(hit))
    _note_degraded(response, kb)


def _say(response: Response, kb: KnowledgeBase, *, filtered: bool) -> None:
    from kb.cli.hit_view import explain_text, hit_text

    factors = _factors(response)
    sheet = output.Page.of(output.out())
    marker = partial(kb.highlights, response.query)
    explained = response.explain is not None
    shown = [
        hit_text(hit, sheet, marker, explain=explained, factors=factors.get(hit.chunk_id, {}))
        for hit in response.hits
    ]
    if response.explain is not None:
        shown.append(explain_text(response.explain, response.timing_ms, sheet))
    if shown:
        output.say("\n\n".join(shown))
    if not response.hits:
        output.note(_nothing_found(response.query, filtered=filtered))
        if not kb.documents(limit=1):
            output.note(
                f"the store {output.visible(str(kb.path))} is empty; fill it with: kb ingest FOLDER"
            )
    _note_degraded(response, kb)


def _factors(response: Response) -> dict[int, dict[str, float]]:
    """What each hit's score was multiplied by."""
    told = {} if response.explain is None else response.explain
    return {one["chunk_id"]: one["factors"] for one in told.get("hits", ())}


def _nothing_found(query: str, *, filtered: bool) -> str:
    if not any(map(str.isalnum, query)):
        return "the query has no words to look for"
    cut = "…" if len(query) > _ASKED_CHARS else ""
    asked = output.visible(query[:_ASKED_CHARS] + cut)
    return f"nothing found for {asked!r}" + (" with these filters" if filtered else "")


def _note_degraded(response: Response, kb: KnowledgeBase) -> None:
    from kb.degradation import degradation_messages

    for text in degradation_messages(response.degraded, can_embed=partial(_can_embed, kb)):
        output.warn(text)


def _can_embed(kb: KnowledgeBase) -> bool:
    try:
        return kb.encoder() is not None
    except KbError:
        return False
