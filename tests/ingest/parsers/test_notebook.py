from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.ingest.chunk import chunk
from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parsers.notebook import NotebookParser
from kb.ports import Parsed, Source
from tests.ingest.documents import MARKDOWN_LINES, documents
from tests.ingest.parsers.mutations import check_parsed, check_survives

parser = NotebookParser(1800)


def markdown(*lines: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "source": list(lines)}


def code(text: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "source": text, "outputs": list(outputs)}


def stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def notebook(*cells: dict[str, Any], language: str = "python") -> bytes:
    metadata = {"language_info": {"name": language}}
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4}, indent=1).encode()


def parse(data: bytes) -> Parsed:
    return parser.parse(Source("some-work.ipynb", data))


def text_of(*cells: dict[str, Any]) -> str:
    return check_parsed(parse(notebook(*cells)), b"")


TYPICAL = notebook(
    markdown("# Widths\n", "\n", "How wide are the *slots*?\n"),
    code("a = 1\nprint(a)", stream("1\n")),
    markdown("## Result\n", "- one\n", "- two"),
    code("1 / 0", {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "by zero"}),
    code(
        "plot()",
        {"output_type": "display_data", "data": {"image/png": "xx", "text/plain": "<Figure 1>"}},
        {"output_type": "execute_result", "data": {"text/plain": ["4", "2"]}},
    ),
    {"cell_type": "raw", "source": "raw text"},
)
TEXT = """\
# Widths

How wide are the *slots*?

```python
a = 1
print(a)
```

```
1
```

## Result
- one
- two

```python
1 / 0
```

```
ZeroDivisionError: by zero
```

```python
plot()
```

```
4
2
```

raw text"""


def test_a_typical_notebook() -> None:
    parsed = parse(TYPICAL)
    assert check_parsed(parsed, b"") == TEXT
    assert (parsed.type, parsed.title) == ("notebook", "Widths")


def test_headings_apply_across_cells() -> None:
    blocks = list(parse(TYPICAL).blocks)
    assert [block.heading_path for block in blocks if block.boundary] == [
        ("Widths",), ("Widths", "Result"),
    ]  # fmt: skip
    assert blocks[-1].heading_path == ("Widths", "Result")
    assert [block.text[:3] for block in blocks if block.atomic] == ["```"] * 6


@pytest.mark.parametrize(
    ("cells", "path"),
    [
        (["# A", "Setext\n===", "x"], ("Setext",)),
        (["# A", "Setext\n---", "x"], ("A", "Setext")),
        (["# A\n## B", "## *C*", "x"], ("A", "C")),
        (["# A", "#", "x"], ()),
        (["# A", "```\n# no", "x"], ("A",)),
        (["# A", "---\ntitle: no\n---\n", "x"], ("A", "title: no")),
    ],
)
def test_heading_paths(cells: list[str], path: tuple[str, ...]) -> None:
    parsed = parse(notebook(*map(markdown, cells)))
    check_parsed(parsed, b"")
    assert list(parsed.blocks)[-1].heading_path == path


def test_format_3() -> None:
    cells = [
        {"cell_type": "heading", "level": 2, "source": "Head"},
        {"cell_type": "code", "input": ["a", "b"], "language": "ruby", "outputs": [
            {"output_type": "pyout", "text": ["1"]}, {"output_type": "pyerr", "ename": "E"}]},
    ]  # fmt: skip
    data = json.dumps({"worksheets": [{"cells": cells}], "metadata": {"name": "Mine"}})
    parsed = parse(data.encode())
    assert parsed.title == "Mine"
    assert parsed.text == "## Head\n\n```ruby\na\nb\n```\n\n```\n1\n```\n\n```\nE:\n```"


def test_long_outputs_become_several_passages() -> None:
    text = "".join(f"line {n}\n" for n in range(1000))
    blocks = list(parse(notebook(code("x", stream(text)))).blocks)
    assert blocks[-1].text == f"```\n{text}```"
    assert len(chunk(blocks, 1800)) == 5


def test_outputs_without_end_are_named() -> None:
    parsed = parse(notebook(markdown("x"), code("x", stream("y " * 600_000))))
    assert parsed.warnings == ("output of cell 2: only the first 1,048,576 characters are read",)
    assert parse(notebook(code("x " * 600_000))).warnings == ()


def shown(**data: str) -> str:
    forms = {name.replace("__", "/"): text for name, text in data.items()}
    return text_of(code("x", {"output_type": "display_data", "data": forms}))


def test_outputs_in_other_forms() -> None:
    assert "**Zacharias**" in shown(text__plain="<Markdown object>", text__markdown="**Zacharias**")
    assert r"\alpha" in shown(text__latex=r"$\alpha$")
    assert "a | b" in shown(text__html="<table><tr><td>a<td>b</table>")
    assert shown(text__plain="a  b", text__html="<table><tr><td>a<td>b</table>").endswith(
        "a  b\n```"
    )
    assert "Figure" not in shown(text__plain="<Figure size 1x1>", image__png="xx")


def test_the_trace_of_an_error_is_text() -> None:
    error = {"output_type": "error", "ename": "KeyError", "evalue": "'x'"}
    trace = ["\x1b[31mKeyError\x1b[0m  Traceback", "----> 1 f()", "\x1b[31mKeyError\x1b[0m: 'x'"]
    text = text_of(code("f()", error | {"traceback": trace}))
    assert text.endswith("```\nKeyError  Traceback\n----> 1 f()\nKeyError: 'x'\n```")
    text = text_of(code("f()", error | {"traceback": trace[:2]}))
    assert "```\nKeyError: 'x'\nKeyError  Traceback" in text


def test_outputs_without_terminal_escapes() -> None:
    assert "\nred\n" in text_of(code("x", stream("\x1b[31mred\x1b[0m")))
    assert "\n100%\n" in text_of(code("x", stream("10%\r50%\r100%\n")))


def test_embedded_images_are_dropped() -> None:
    text = text_of(markdown(f"![a kite](data:image/png;base64,{'A' * 5000}) flies"))
    assert text == "![a kite]() flies"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{\n"cells": [\n}', "line 3"),
        (b"[]", "no cells"),
        (b'{"a": 1}', "no cells"),
        (b"[" * 100_000, "RecursionError"),
        (b'{"cells": [' + b"9" * 5000 + b"]}", "ValueError"),
        (b"", "line 1"),
        (b'{"cells": "\x90\xff"}', "UTF-8"),
    ],
)
def test_a_broken_file_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        parse(data)


ODD: list[Any] = [None, 1, "x", [], {}, [1, None], {"a": []}, True]


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("key", ["cells", "metadata", "source", "outputs", "data", "text", "level"])
def test_odd_values(key: str, odd: Any) -> None:
    cell: dict[str, Any] = {"cell_type": "code", "source": "x", "outputs": [{"data": {}}]}
    whole: dict[str, Any] = {"cells": [cell, {"cell_type": "heading", "source": "h"}]}
    for target in (whole, cell, cell["outputs"][0], whole["cells"][1]):
        if key in ("cells", "metadata") and target is not whole:
            continue
        changed = json.loads(json.dumps(whole))
        for found in (changed, changed["cells"][0], changed["cells"][0]["outputs"][0]):
            found[key] = odd
        check_parsed(parse(json.dumps(changed).encode()), b"")


def test_damage() -> None:
    check_survives(parser, "a.ipynb", TYPICAL)


@given(st.lists(st.tuples(st.booleans(), documents(MARKDOWN_LINES, 12)), max_size=4))
def test_text_and_spans_agree(cells: list[tuple[bool, str]]) -> None:
    text_of(*(code(text) if is_code else markdown(text) for is_code, text in cells))


def test_binary_is_not_json() -> None:
    with pytest.raises((Unreadable, Unsupported)):
        parse(b'{"cells": "\0"}')


def test_a_rich_form_with_other_words_is_kept() -> None:
    text = shown(text__plain="Report(3 items)", text__html="<p>barnacles on the hull</p>")
    assert "Report(3 items)" in text
    assert "barnacles on the hull" in text
