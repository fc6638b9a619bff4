"""Jupyter notebooks: Markdown cells, code cells in fences, and the text of their outputs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kb.ingest import file_names
from kb.ingest.decode import Unavailable, Unreadable, decode
from kb.ingest.parser_support.extract import Extract, clean, one_line
from kb.ingest.parsers.html import page as html
from kb.ingest.parsers.html import tree as html_tree
from kb.ingest.parsers.markdown import MarkdownParser
from kb.metadata import TITLE_CHARS
from kb.ports import Parsed, Source
from kb.types import Block, Span

_WHOLE_OUTPUT_CHARS = 2000  # a longer output may be split into several passages
_MAX_OUTPUT_CHARS = 1024 * 1024
_MAX_SOURCE_CHARS = 1024 * 1024  # a longer cell holds data: its markup is not parsed
_MAX_NAMED = 10  # cells listed in a warning
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\^_])|.(?=\x08)\x08")
# MIME types of the output fields in format 3.
_OLD_FORMS = {
    "html": "text/html", "json": "application/json", "latex": "text/latex", "svg": "image/svg+xml",
}  # fmt: skip
_WIDGETS = "application/vnd.jupyter."
_WORD = re.compile(r"\w+")
_PLACEHOLDER = re.compile(r"[\[(]*<[^\n<>]*>[\])]*")
_ATX = re.compile(r" {0,3}(#{1,6})(?:\s|$)")
# Images embedded in the text, as some editors write them.
_EMBEDDED = re.compile(r"!\[([^\]\n]{0,500})\]\(data:[^)\s]*\)")


def parse_notebook(source: Source, max_chars: int) -> Parsed:
    """Parse a notebook; `max_chars` is the chunk size."""
    markdown = MarkdownParser(max_chars)
    notebook = _load(source.data)
    language = _language(notebook)
    out = Extract()
    truncated: list[int] = []
    for number, cell in enumerate(_cells(notebook), 1):
        out.place = f"cell {number}"
        _write(cell, language, markdown, out)
        out.place = f"cell {number}, output"
        if not _write_outputs(cell, out):
            truncated.append(number)
    metadata = _dict(notebook.get("metadata"))
    title = _text(metadata.get("title")) or _text(metadata.get("name"))
    out.append_missing([title], title[:TITLE_CHARS])
    return Parsed(
        type="notebook",
        blocks=out.blocks,
        title=one_line(title) or out.first_heading or file_names.title_of(source.name),
        warnings=_warnings(truncated),
        text=out.text,
    )


def _write(cell: dict[str, Any], language: str, markdown: MarkdownParser, out: Extract) -> None:
    kind = cell.get("cell_type")
    text = _text(cell["source"] if "source" in cell else cell.get("input"))
    if len(text) > _MAX_SOURCE_CHARS:
        out.code(text, whole=False)
    elif kind == "markdown":
        _write_markdown(text, markdown, out)
    elif kind == "heading":  # in format 3
        level = cell.get("level")
        out.heading(min(max(level, 1), 6) if isinstance(level, int) else 1, text)
    elif kind == "code":
        out.code(text, _text(cell.get("language")) or language)
    else:
        out.lines(text.split("\n"))


def _write_markdown(text: str, markdown: MarkdownParser, out: Extract) -> None:
    lines = clean(_EMBEDDED.sub(r"![\1]()", text)).strip("\n").split("\n")
    if not any(lines):
        return
    # After a blank line, `---` at the top of a cell is a rule, not front matter.
    source = Source("", "\n".join(["", *lines]).encode())
    out.add_blocks(lines, _nest_blocks(markdown.parse(source).blocks, out))


def _nest_blocks(blocks: Iterable[Block], out: Extract) -> Iterator[Block]:
    """Yield the blocks of a cell under the headings of earlier cells, which `out` keeps. A heading
    is entered before its own block is yielded. Spans are shifted by one line, for the blank
    line."""
    for block in blocks:
        if block.boundary:
            has_text = block.text.strip(" #=-\n")
            out.enter_section(_level(block.text), block.heading_path[-1] if has_text else "")
        span = Span("line", (block.span.start or 2) - 1, (block.span.end or 2) - 1)
        yield Block(block.text, span, (), block.atomic, block.boundary)


def _level(heading: str) -> int:
    if match := _ATX.match(heading):
        return len(match[1])
    return 1 if heading.rstrip().endswith("=") else 2


# --- untrusted JSON -------------------------------------------------------------------------------


def _load(data: bytes) -> dict[str, Any]:
    try:
        notebook = json.loads(decode(data))
    except json.JSONDecodeError as error:
        raise Unreadable(f"not valid JSON at line {error.lineno}: {error.msg}") from error
    except (RecursionError, ValueError) as error:  # ValueError: a number with too many digits
        raise Unreadable(f"not a notebook: {type(error).__name__}") from error
    if not isinstance(notebook, dict) or not ({"cells", "worksheets"} & notebook.keys()):
        raise Unreadable("not a notebook: it has no cells")
    return notebook


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    """Return a text, which may be stored as a list of lines. In old notebooks, the lines have no
    line endings."""
    if isinstance(value, list):
        lines = [line for line in value if isinstance(line, str)]
        ended = any(line.endswith("\n") for line in lines[:-1])
        return ("" if ended else "\n").join(lines)
    return value if isinstance(value, str) else ""


def _cells(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    sheets = _list(notebook.get("worksheets"))  # the cells of format 3
    for sheet in (notebook, *map(_dict, sheets)):
        yield from map(_dict, _list(sheet.get("cells")))


def _language(notebook: dict[str, Any]) -> str:
    metadata = _dict(notebook.get("metadata"))
    info, kernel = _dict(metadata.get("language_info")), _dict(metadata.get("kernelspec"))
    return _text(info.get("name")) or _text(kernel.get("language")) or "python"


def _write_outputs(cell: dict[str, Any], out: Extract) -> bool:
    """Write the outputs of a cell; return False if one was truncated."""
    complete = True
    for output in _list(cell.get("outputs")):
        text = _output_text(_dict(output))
        complete = complete and len(text) <= _MAX_OUTPUT_CHARS
        plain = _plain_output(text[:_MAX_OUTPUT_CHARS])
        out.code(plain, whole=len(plain) <= _WHOLE_OUTPUT_CHARS)
    return complete


def _output_text(output: dict[str, Any]) -> str:
    """The text of an output: the plain version, or another one if that is a mere placeholder."""
    if output.get("output_type") in ("error", "pyerr"):
        error = f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
        trace = "\n".join(line for line in _list(output.get("traceback")) if isinstance(line, str))
        return trace if error in _ESCAPES.sub("", trace) else f"{error}\n{trace}"
    if text := _text(output.get("text")):
        return text
    data = {form: output[key] for key, form in _OLD_FORMS.items() if key in output}
    data |= _dict(output.get("data"))
    plain = _text(data.get("text/plain"))
    forms = [_text(data.get(form)) for form in ("text/markdown", "text/latex")]
    forms += [_page_text(_text(data.get(form))) for form in ("text/html", "image/svg+xml")]
    if not _is_placeholder(plain):
        # Most rich forms repeat the plain one; the others are kept as well.
        known = set(_WORD.findall(plain))
        other = [text for text in forms if not known.issuperset(_WORD.findall(text))]
        return "\n\n".join([plain, *other])
    if text := next(filter(None, forms), ""):
        return text
    return "\n\n".join(filter(None, (_data_text(*item) for item in data.items())))


def _data_text(form: str, value: object) -> str:
    """The text of an output in a machine-readable format."""
    if form.startswith("text/") and form not in ("text/html", "text/plain"):
        return _text(value)
    if form == "application/json":
        return json.dumps(value, ensure_ascii=False, indent=1)
    if form.endswith("json") and not form.startswith(_WIDGETS):
        return "\n".join(_strings(value))
    return ""


def _strings(value: object) -> Iterator[str]:
    """Yield the texts in a JSON value, without the numbers between them."""
    stack = [value]
    while stack:
        match stack.pop():
            case str(text):
                yield text
            case list(items):
                stack += reversed(items)
            case dict(items):
                stack += reversed(items.values())


def _page_text(page: str) -> str:
    out = Extract()
    try:
        out.append_missing(html.write_page(html_tree.parse_html(page), out) if page else ())
    except Unavailable:  # the notebook is readable without it
        return ""
    return out.text


def _plain_output(text: str) -> str:
    """Remove terminal colors, and the overwritten states of progress bars."""
    lines = _ESCAPES.sub("", text).strip("\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


def _warnings(truncated: Sequence[int]) -> tuple[str, ...]:
    if not truncated:
        return ()
    cells = ", ".join(map(str, truncated[:_MAX_NAMED])) + (
        " and more" if len(truncated) > _MAX_NAMED else ""
    )
    limit = f"{_MAX_OUTPUT_CHARS:,}"
    return (f"output of cell {cells}: only the first {limit} characters are read",)


def _is_placeholder(text: str) -> bool:
    """Whether the text only names an object, such as `<Figure size 640x480 with 1 Axes>`."""
    return not text or bool(_PLACEHOLDER.fullmatch(text.strip()))
