"""Sentences of an answer as text: the sentence first, then where it is from."""

from __future__ import annotations

from kb import relevance
from kb.cli.hit_view import Highlighter, heading_line, styled_lines
from kb.cli.output import Console, display_width, escape, escape_lines
from kb.types import AnswerSentence

_INDENT = "    "


def sentence_text(sentence: AnswerSentence, console: Console, highlighter: Highlighter) -> str:
    """Return a sentence with its rank, its citation and relevance, and its title and headings."""
    lines = styled_lines(escape_lines(sentence.text), console, highlighter)
    rank = f"{sentence.rank}.".ljust(len(_INDENT) - 1) + " "
    lines[0] = rank + lines[0].removeprefix(_INDENT)
    return "\n".join([*lines, _place(sentence, console), *_title(sentence, console)])


def _place(sentence: AnswerSentence, console: Console) -> str:
    uri = escape(sentence.citation.uri)
    bar = f"{relevance.bar(sentence.relevance)} " if console.width is not None else ""
    score = f"{bar}{sentence.relevance:.2f}"
    room = (console.width or 0) - len(_INDENT) - display_width(uri) - len(score)
    place = console.link(console.style(uri, fg="cyan", bold=True), sentence.citation.link)
    return _INDENT + place + " " * max(2, room) + console.style(score, dim=True)


def _title(sentence: AnswerSentence, console: Console) -> list[str]:
    text = heading_line(sentence.title, sentence.heading_path)
    return [_INDENT + console.style(text, dim=True)] if text else []
