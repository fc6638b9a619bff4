"""Answers as text: quoted sentences with their citations, and the sentences of a language model."""

from __future__ import annotations

from collections.abc import Sequence

from kb import relevance
from kb.cli.hit_view import Highlighter, heading_line, styled_lines, wrap
from kb.cli.output import Console, display_width, escape, escape_lines
from kb.types import AnswerSentence, Citation, WrittenSentence

_INDENT = "    "
_PROBLEMS = {
    "unsupported": "the cited passage does not support this",
    "unknown": "cites a passage that does not exist",
    "uncited": "without a citation",
    "unchecked": "not checked: there is no judge",
}


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
    parts = [(0, len(text))]
    if console.width is not None:
        parts = wrap(text, console.width - len(_INDENT))
    return [_INDENT + console.style(text[start:end], dim=True) for start, end in parts if text]


def written_text(sentence: WrittenSentence, console: Console) -> str:
    """Return a sentence of a language model. A problem with its citations is marked."""
    text = escape(sentence.text)
    lines = [text]
    if console.width is not None:
        lines = [text[start:end] for start, end in wrap(text, console.width)]
    if problem := _PROBLEMS.get(sentence.state):
        lines.append(_INDENT + console.style(f"! {problem}", fg="yellow"))
    return "\n".join(lines)


def source_lines(citations: Sequence[Citation], console: Console) -> list[str]:
    """Return the citations with their numbers."""
    return [
        f"[{number}] " + console.link(console.style(escape(each.uri), fg="cyan"), each.link)
        for number, each in enumerate(citations, start=1)
    ]
