"""`kb search`."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kb.cli import page
from kb.cli.options import Command, common_options, filter_options, option, readable, text_or_stdin
from kb.cli.session import Session, pass_session
from kb.types import MATCHES, MODES, Filters

if TYPE_CHECKING:
    from kb.app import KnowledgeBase
    from kb.types import Response

_ASKED_CHARS = 60  # of a query that found nothing, to be recognised by


@click.command("search", cls=Command)
@click.argument("query", type=readable, nargs=-1, required=True)
@option("-n", "--top", type=int, metavar="N", help="How many hits.  [default: by profile, 10]")
@option("--profile", metavar="NAME", help="How to search; kb config profiles shows which.")
@option(
    "--mode",
    type=click.Choice(MODES),
    metavar="MODE",
    help="Only this of the profile's retrievers; the profiles of this version have lexical.",
)
@option("--fts-only", is_flag=True, help="The same as --mode lexical.")
@option(
    "--match",
    type=click.Choice(MATCHES),
    metavar="MATCH",
    help="Which words a hit needs: any, all, or auto (all first, then any).",
)
@option("--threshold", type=float, metavar="SCORE", help="Cut hits with a lower score.")
@option(
    "--set",
    "settings",
    metavar="KEY=VALUE",
    multiple=True,
    help="Change a setting of the profile; may be repeated.",
)
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
    settings: tuple[str, ...],
    filters: Filters,
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
    """
    if fts_only and mode not in (None, "lexical"):
        raise click.UsageError(f"--fts-only and --mode {mode} contradict each other")
    with session.open() as kb:
        response = kb.search(
            text_or_stdin(query),
            mode="lexical" if fts_only else mode,
            filters=filters,
            settings=dict(_pair(text) for text in settings),
            **options,
        )
        if jsonl:
            _say_lines(response)
        elif session.json:
            from kb import wire

            page.say_json(wire.response(response))
        else:
            _say(response, kb, filtered=bool(filters))


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--set")
    return key.strip(), value.strip()


def _say_lines(response: Response) -> None:
    from kb import wire

    for hit in response.hits:
        page.say_json_line(wire.hit(hit))
    _note_degraded(response)


def _say(response: Response, kb: KnowledgeBase, *, filtered: bool) -> None:
    from kb.cli.hits import explain_text, hit_text

    sheet = page.Page.of(sys.stdout)
    marker = partial(kb.highlights, response.query)
    explained = response.explain is not None
    shown = [hit_text(hit, sheet, marker, explain=explained) for hit in response.hits]
    if response.explain is not None:
        shown.append(explain_text(response.explain, response.timing_ms, sheet))
    if shown:
        page.say("\n\n".join(shown))
    if not response.hits:
        asked = page.visible(response.query[:_ASKED_CHARS])
        page.note(f"nothing found for {asked!r}" + (" with these filters" if filtered else ""))
        if not kb.documents(limit=1):
            page.note(f"the store {kb.path} is empty; fill it with: kb ingest FOLDER")
    _note_degraded(response)


def _note_degraded(response: Response) -> None:
    for part in response.degraded:
        detail = "" if part.detail is None else f" ({part.detail})"
        page.warn(f"{part.part}: {part.reason.replace('_', ' ')}{detail}")
