"""`kb ask`: a question, answered with sentences of the store or by a language model."""

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
    from kb.library.conversation import Conversation
    from kb.library.knowledge_base import KnowledgeBase
    from kb.types import Answer

NOTHING = "no document answers this question"


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
@option(
    "--quote",
    is_flag=True,
    help="Quote sentences even if a language model is configured.",
)
@option(
    "-i",
    "--interactive",
    is_flag=True,
    help="Prompt for more questions until an empty line is entered.",
)
@option(
    "--sent",
    "show_sent",
    is_flag=True,
    help="Also print the messages sent to the language model, on stderr.",
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
    quote: bool,
    interactive: bool,
    show_sent: bool,
    profile: str | None,
    filters: Filters,
) -> None:
    """Answer a question from your documents, with citations.

    QUESTION is any text; - reads it from stdin. kb quotes the sentences that answer it, or reports
    that no document does. `kb open 1` opens the first citation.

    If ask.endpoint_url is set, a language model writes the answer from the passages that kb finds,
    and kb marks each sentence whose citation is missing or does not support it.

    \b
    Examples:
      kb ask "why were the radio slots made wider?"
      kb ask --tags gateway how many retries are allowed
    """
    with invocation.open() as kb:
        conversation = None
        if kb.config.ask.endpoint_url and not quote:
            from kb.library.conversation import Conversation

            conversation = Conversation(kb, filters)
        text = text_or_stdin(question)
        while text:
            if invocation.json or conversation is None:
                answer = kb.ask(text, sentences=sentences, profile=profile, filters=filters)
                if invocation.json:
                    _write_json(answer, conversation)
                else:
                    _write(answer, kb, invocation)
            else:
                _write_model_answer(conversation, text, kb, invocation)
            if conversation is not None and show_sent:
                _show_messages(conversation)
            text = _next_question() if interactive else ""


def _next_question() -> str:
    try:
        return input("\n? " if output.is_terminal(output.stdout()) else "").strip()
    except EOFError:
        return ""


def _write_json(answer: Answer, conversation: Conversation | None) -> None:
    from kb import wire
    from kb.types import WrittenSentence

    written = None
    if conversation is not None:
        events = conversation.ask(answer.question)
        written = [each for each in events if isinstance(each, WrittenSentence)]
    output.write_json(wire.answer(answer, written))


def _write_model_answer(
    conversation: Conversation, question: str, kb: KnowledgeBase, invocation: Invocation
) -> None:
    """Write each sentence once it is complete and checked, and then the citations."""
    from kb.cli import last_hits
    from kb.cli.answer_view import source_lines, written_text
    from kb.types import WrittenSentence

    console = output.Console.of(output.stdout())
    count = 0
    for event in conversation.ask(question):
        if isinstance(event, WrittenSentence):
            count += 1
            output.write(written_text(event, console))
    if not count:
        output.write(NOTHING)
        return
    output.write("\n" + "\n".join(source_lines(conversation.citations, console)))
    uris = [citation.uri for citation in conversation.citations]
    last_hits.save(kb.path, invocation.terminal, uris)


def _show_messages(conversation: Conversation) -> None:
    if not conversation.sent:
        output.note("nothing was sent")
    for message in conversation.sent:
        output.note(f"--- sent: {message['role']} ---\n{output.escape_lines(message['content'])}")


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
