"""`kb ask`: a question, answered with sentences of the store."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from kb.cli import output
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.options import common_options, filter_options, option, text_or_stdin, utf8_text
from kb.cli.query_command import QueryCommand
from kb.types import Filters

if TYPE_CHECKING:
    from kb.library.knowledge_base import KnowledgeBase
    from kb.types import Answer

NOTHING = "nothing here answers that"


@click.command("ask", cls=QueryCommand)
@click.argument("question", type=utf8_text, nargs=-1, required=True)
@option(
    "-n",
    "--sentences",
    type=int,
    metavar="N",
    default=3,
    help="Number of sentences.  [default: 3]",
)
@option("--profile", metavar="NAME", help="The search profile; see `kb config profiles`.")
@filter_options
@common_options()
@pass_invocation
def ask_command(
    invocation: Invocation,
    /,
    *,
    question: tuple[str, ...],
    sentences: int,
    profile: str | None,
    filters: Filters,
) -> None:
    """Answer a question with sentences of your documents, each with its citation.

    QUESTION is any text; - reads it from stdin. The sentences are quoted, not written by a language
    model. If nothing answers the question, kb says so. `kb open 1` opens the first citation.

    \b
    Examples:
      kb ask "why were the radio slots made wider?"
      kb ask --tags gateway how many retries are allowed
    """
    with invocation.open() as kb:
        answer = kb.ask(
            text_or_stdin(question), sentences=sentences, profile=profile, filters=filters
        )
        if invocation.json:
            from kb import wire

            output.write_json(wire.answer(answer))
        else:
            _write(answer, kb, invocation)


def _write(answer: Answer, kb: KnowledgeBase, invocation: Invocation) -> None:
    from kb.cli import last_hits
    from kb.cli.answer_view import sentence_text
    from kb.degradation import degradation_messages

    cited = [each.citation for each in answer.sentences] or list(answer.closest)
    last_hits.save(kb.path, invocation.terminal, [citation.uri for citation in cited])
    console = output.Console.of(output.stdout())
    highlighter = partial(kb.highlights, answer.question)
    if answer.answered:
        parts = [sentence_text(each, console, highlighter) for each in answer.sentences]
        output.write("\n\n".join(parts))
    else:
        output.write(NOTHING)
        if cited:
            names = ", ".join(output.escape(citation.uri) for citation in cited)
            output.note(f"the closest passages, probably about something else: {names}")
        elif not kb.documents(limit=1):
            location = output.escape(kb.location)
            output.note(f"the store {location} is empty; to fill it: kb ingest FOLDER")
    for text in degradation_messages(answer.degraded, can_embed=lambda: True):
        output.warn(text)
