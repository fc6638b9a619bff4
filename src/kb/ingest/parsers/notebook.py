"""Jupyter notebooks: their Markdown as it is written, their code fenced, and the text that came
out of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kb.ingest import file_names
from kb.ingest.decode import Unavailable, Unreadable, decode
from kb.ingest.parser_support.extract import Extract, clean, one_line
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ingest.parsers.html import parser as html
from kb.ingest.parsers.html import tree as html_tree
from kb.ingest.parsers.markdown import MarkdownParser
from kb.metadata import TITLE_CHARS
from kb.ports import Parsed, Source
from kb.types import Block, Span

_OUTPUT_CHARS = 2000  # a longer output is cut where it must be, as text is
_LONGEST_OUTPUT_CHARS = 1024 * 1024
_SOURCE_CHARS = 1024 * 1024  # a longer cell holds data: its markup is not read
_NAMED = 10  # cells, in a warning
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\^_])|.(?=\x08)\x08")
_PLACEHOLDER = re.compile(r"[\[(]*<[^\n<>]*>[\])]*")
_ATX = re.compile(r" {0,3}(#{1,6})(?:\s|$)")
# Images that are kept in the text itself, as some editors do it.
_EMBEDDED = re.compile(r"!\[([^\]\n]{0,500})\]\(data:[^)\s]*\)")


class NotebookParser(FormatParser):
    name = "notebook"
    version = "3"

    def __init__(self, max_chars: int) -> None:
        self._markdown = MarkdownParser(max_chars)

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) == ".ipynb"

    def parse(self, source: Source) -> Parsed:
        notebook = _loaded(source.data)
        language = _language(notebook)
        out = Extract()
        cut: list[int] = []
        for number, cell in enumerate(_cells(notebook), 1):
            self._write(cell, language, out)
            if not _write_outputs(cell, out):
                cut.append(number)
        metadata = _dict(notebook.get("metadata"))
        title = _text(metadata.get("title")) or _text(metadata.get("name"))
        out.rest([title], title[:TITLE_CHARS])
        return Parsed(
            type="notebook",
            blocks=out.blocks,
            title=one_line(title) or out.first_heading or file_names.title_of(source.name),
            warnings=_warnings(cut),
            text=out.text,
        )

    def _write(self, cell: dict[str, Any], language: str, out: Extract) -> None:
        kind = cell.get("cell_type")
        text = _text(cell["source"] if "source" in cell else cell.get("input"))
        if len(text) > _SOURCE_CHARS:
            out.code(text, whole=False)
        elif kind == "markdown":
            self._write_markdown(text, out)
        elif kind == "heading":  # of format 3
            level = cell.get("level")
            out.heading(min(max(level, 1), 6) if isinstance(level, int) else 1, text)
        elif kind == "code":
            out.code(text, _text(cell.get("language")) or language)
        else:
            out.lines(text.split("\n"))

    def _write_markdown(self, text: str, out: Extract) -> None:
        lines = clean(_EMBEDDED.sub(r"![\1]()", text)).strip("\n").split("\n")
        if not any(lines):
            return
        # Behind a blank line, `---` at the top of a cell is a rule and not front matter.
        source = Source("", "\n".join(["", *lines]).encode())
        out.add(lines, _nested(self._markdown.parse(source).blocks, out))


def _nested(blocks: Iterable[Block], out: Extract) -> Iterator[Block]:
    """The blocks of a cell, under the headings of the cells above it: those are in `out`, which
    hears of each heading before the block that is the heading. They stood behind a blank line."""
    for block in blocks:
        if block.boundary:
            named = block.text.strip(" #=-\n")
            out.enter(_level(block.text), block.heading_path[-1] if named else "")
        span = Span("line", (block.span.start or 2) - 1, (block.span.end or 2) - 1)
        yield Block(block.text, span, (), block.atomic, block.boundary)


def _level(heading: str) -> int:
    if found := _ATX.match(heading):
        return len(found[1])
    return 1 if heading.rstrip().endswith("=") else 2


# --- JSON of unknown origin -----------------------------------------------------------------------


def _loaded(data: bytes) -> dict[str, Any]:
    try:
        notebook = json.loads(decode(data))
    except json.JSONDecodeError as error:
        raise Unreadable(f"not valid JSON at line {error.lineno}: {error.msg}") from error
    except (RecursionError, ValueError) as error:  # ValueError: a number without end
        raise Unreadable(f"not a notebook: {type(error).__name__}") from error
    if not isinstance(notebook, dict) or not ({"cells", "worksheets"} & notebook.keys()):
        raise Unreadable("not a notebook: it has no cells")
    return notebook


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    """A text, which notebooks also write as a list of its lines, old ones without line ends."""
    if isinstance(value, list):
        lines = [line for line in value if isinstance(line, str)]
        ended = any(line.endswith("\n") for line in lines[:-1])
        return ("" if ended else "\n").join(lines)
    return value if isinstance(value, str) else ""


def _cells(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    sheets = _list(notebook.get("worksheets"))  # format 3 has its cells in there
    for sheet in (notebook, *map(_dict, sheets)):
        yield from map(_dict, _list(sheet.get("cells")))


def _language(notebook: dict[str, Any]) -> str:
    metadata = _dict(notebook.get("metadata"))
    info, kernel = _dict(metadata.get("language_info")), _dict(metadata.get("kernelspec"))
    return _text(info.get("name")) or _text(kernel.get("language")) or "python"


def _write_outputs(cell: dict[str, Any], out: Extract) -> bool:
    """Whether they are written to their ends."""
    complete = True
    for output in _list(cell.get("outputs")):
        text = _output_text(_dict(output))
        complete = complete and len(text) <= _LONGEST_OUTPUT_CHARS
        shown = _shown(text[:_LONGEST_OUTPUT_CHARS])
        out.code(shown, whole=len(shown) <= _OUTPUT_CHARS)
    return complete


def _output_text(output: dict[str, Any]) -> str:
    """The text of an output, in the first form that is text: plain, unless that only stands in the
    place of another."""
    if output.get("output_type") in ("error", "pyerr"):
        error = f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
        trace = "\n".join(line for line in _list(output.get("traceback")) if isinstance(line, str))
        return trace if error in _ESCAPES.sub("", trace) else f"{error}\n{trace}"
    if text := _text(output.get("text")):
        return text
    data = _dict(output.get("data"))
    if not _is_placeholder(plain := _text(data.get("text/plain"))):
        return plain
    for form in ("text/markdown", "text/latex"):
        if text := _text(data.get(form)):
            return text
    return _page_text(_text(data.get("text/html")))


def _page_text(page: str) -> str:
    out = Extract()
    try:
        out.rest(html.write_all(html_tree.parse(page), out) if page else ())
    except Unavailable:  # the notebook can be read without it
        return ""
    return out.text


def _shown(text: str) -> str:
    """Without what terminals make colors of. A progress bar writes over its own line: only what it
    says last was to stay."""
    lines = _ESCAPES.sub("", text).strip("\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


def _warnings(cut: Sequence[int]) -> tuple[str, ...]:
    if not cut:
        return ()
    cells = ", ".join(map(str, cut[:_NAMED])) + (" and more" if len(cut) > _NAMED else "")
    limit = f"{_LONGEST_OUTPUT_CHARS:,}"
    return (f"output of cell {cells}: only the first {limit} characters are read",)


def _is_placeholder(text: str) -> bool:
    """`<Figure size 640x480 with 1 Axes>`, `[<Line2D at 0x7f21298cc828>]`: says nothing."""
    return not text or bool(_PLACEHOLDER.fullmatch(text.strip()))
