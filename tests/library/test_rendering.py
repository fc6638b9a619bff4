"""Documents as elements for the web page."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb import KnowledgeBase
from kb.deadline import Deadline
from kb.errors import Cancelled, InvalidRequest, NotFound
from kb.library.images import MAX_IMAGE_BYTES
from kb.library.rendering import plain_text, render
from kb.types import Node

PNG = b"\x89PNG\r\n\x1a\n" + b"rest"
TAGS = frozenset(
    "p h2 h3 h4 h5 h6 ul ol li blockquote pre code table thead tbody tr th td hr br strong em s "
    "sup a img".split()
)
MATH_TAGS = frozenset(
    "math mrow mi mn mo mtext mspace msup msub msubsup mover munder munderover mfrac msqrt mroot "
    "mtable mtr mtd".split()
)


def every(nodes: Any) -> list[dict[str, Any]]:
    found = [node for node in nodes if not isinstance(node, str)]
    return [*found, *(below for node in found for below in every(node["children"]))]


def tags(text: str, kind: str = "markdown") -> list[str]:
    return [node["tag"] for node in every(render("lib/notes/a.md", kind, text).nodes)]


def test_blocks_have_their_lines() -> None:
    text = "---\ntitle: x\n---\n# One\n\ntext\nmore\n\n- a\n- b\n\n```py\nx = 1\n```\n"
    rendering = render("lib/a.md", "markdown", text)
    heading, paragraph, items, code = [
        node for node in rendering.nodes if not isinstance(node, str)
    ]
    assert (heading["tag"], heading["lines"]) == ("h2", [4, 4])
    assert (paragraph["tag"], paragraph["lines"]) == ("p", [6, 7])
    assert items["children"][1]["lines"][0] == 10
    assert (code["tag"], code["lines"]) == ("pre", [12, 14])
    assert code["children"][0]["language"] == "py"
    assert rendering.outline == ((1, "section-1", "One"),)


@pytest.mark.parametrize("mark", ["> ", "- ", "1. "])
def test_text_that_is_nested_too_deeply_is_shown_as_lines(mark: str) -> None:
    """The parser drops it without a word."""
    assert words_of(mark * 15 + "deep\n\nafter") == ["deep", "after"]
    assert render("lib/a.md", "markdown", mark * 3000 + "deep\n\nafter").kind == "lines"
    for depth in range(15, 60):
        rendering = render("lib/a.md", "markdown", mark * depth + "deep\n\nafter")
        assert rendering.kind == "lines" or "deep" in plain_text(rendering.nodes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("---\nA sentence between two rules.\n---\nAfter.", ["sentence", "rules", "After"]),
        ("---\ntitle: [\n---\nAfter.", ["title", "After"]),  # not valid, so it is text
        ("---\ntags: [a]\nowner: Ruth\n---\nAfter.", ["owner", "Ruth", "After"]),
        ("---\nowner: Ruth\n---", ["owner", "Ruth"]),
    ],
)
def test_what_is_no_front_matter_is_shown(text: str, words: list[str]) -> None:
    assert [word for word in words_of(text) if word in words] == words


def test_only_formats_with_front_matter_hide_it() -> None:
    text = "---\n\ntitle: a\n\n---\n\nafter"
    assert "title" in words_of(text, "html")
    assert "title" not in words_of("---\ntitle: a\n---\nafter", "note")


def words_of(text: str, kind: str = "markdown") -> list[str]:
    rendering = render("lib/a.md", kind, text)
    assert rendering.kind == "elements"
    return [word for text in texts(rendering.nodes) for word in re.findall(r"\w+", text)]


def texts(nodes: Any) -> list[str]:
    found = [[node] if isinstance(node, str) else texts(node["children"]) for node in nodes]
    return [text for each in found for text in each]


def test_tables_and_footnotes() -> None:
    text = "| a | b |\n|---|---|\n| 1 | 2 |\n\ntext[^1]\n\n[^1]: a longer note\n"
    found = every(render("lib/a.md", "markdown", text).nodes)
    assert {"table", "th", "td"} <= {node["tag"] for node in found}
    assert any(node.get("href") == "#footnote-1" for node in found)
    assert any(node.get("id") == "footnote-1" for node in found)


@pytest.mark.parametrize(
    ("href", "address"),
    [
        ("other.md", "/read/lib/notes/other.md"),
        ("../b%20c.md#x", "/read/lib/b%20c.md"),
        ("https://example.org/", "https://example.org/"),
        ("mailto:a@example.org", "mailto:a@example.org"),
        ("../../../etc/passwd", None),
        ("/etc/passwd", None),
        ("//evil.example/x", None),
        ("file:///etc/passwd", None),
        ("data:text/html,x", None),
        ("vbscript:x", None),
    ],
)
def test_addresses_of_links(href: str, address: str | None) -> None:
    found = every(render("lib/notes/a.md", "markdown", f"[text]({href})").nodes)
    assert [node.get("href") for node in found if node["tag"] == "a"] in ([address], [])
    if address is not None:
        assert found


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        "![x](javascript:alert(1))",
        "<a href='javascript:alert(1)'>x</a>",
        "<svg onload=alert(1)>",
        "[x]: javascript:alert(1)\n\n[x]",
        "![x](https://evil.example/pixel.png)",
        '<iframe src="https://evil.example"></iframe>',
    ],
)
def test_no_text_becomes_a_script_or_a_request(text: str) -> None:
    for node in every(render("lib/a.md", "markdown", text).nodes):
        assert node["tag"] in TAGS | MATH_TAGS
        assert "image" not in node or ":" not in node["image"]
        assert not node.get("href", "").lower().startswith(("javascript", "data", "vbscript"))
        assert not {"onerror", "onload", "src", "style"} & node.keys()


@given(st.text(max_size=300), st.sampled_from(["markdown", "table", "html", "code", "pdf"]))
def test_any_text_is_rendered(text: str, kind: str) -> None:
    rendering = render("lib/a.md", kind, text)
    assert rendering.kind in ("elements", "lines", "pages")
    for node in every(rendering.nodes):
        assert node["tag"] in TAGS | MATH_TAGS
        start, end = node.get("lines", (1, 1))
        assert 1 <= start <= max(start, end) <= text.count("\n") + text.count("\r") + 2


def test_separated_values_are_a_table() -> None:
    rendering = render("lib/a.csv", "table", 'name;note\na;"one\ntwo"\nb;three\n')
    rows = [node for node in every(rendering.nodes) if node["tag"] == "tr"]
    assert [row["lines"] for row in rows] == [[1, 1], [2, 3], [4, 4]]
    cells: list[Node] = rows[1]["children"]
    assert [plain_text([cell]) for cell in cells] == ["a", "one\ntwo"]


def test_code_and_long_texts_are_lines() -> None:
    assert render("lib/a.py", "code", "x = 1").kind == "lines"
    assert render("lib/a.md", "markdown", "x " * 1_500_000).kind == "lines"
    assert render("lib/a.csv", "table", "a,b\n" * 5000).kind == "lines"
    assert render("lib/a.pdf", "pdf", "x").kind == "pages"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("markdown", "|a|b|\n|-|-|\n" + "|x|y|\n" * 8_000),
        ("markdown", "# h\n" * 20_000),
        ("markdown", "[a]: b\n\n" + "[a] " * 20_000),
        ("markdown", ("$" + "a" * 1_900 + "$ ") * 30),
        ("table", "a," * 60_000),
    ],
)
def test_too_many_elements_are_lines(kind: str, text: str) -> None:
    """They would take gigabytes in a server, and stop a browser."""
    assert render("lib/a.md", kind, text).kind == "lines"


def test_the_deadline_stops_rendering() -> None:
    limit = Deadline()
    limit.cancel()
    with pytest.raises(Cancelled), limit:
        render("lib/a.md", "markdown", "- a\n" * 3)


# --- files ----------------------------------------------------------------------------------------


def test_originals_and_images(kb: KnowledgeBase, tmp_path: Path) -> None:
    folder = tmp_path / "lib"
    (folder / "notes").mkdir(parents=True)
    shown = ("x.webp", "../top.png", "%C3%A9.png")
    refused = ("../../outside.png", "/etc/passwd", "link.png", "missing.png", "../.env")
    text = " ".join(f"![x]({path})" for path in (*shown, *refused))
    (folder / "notes" / "a.md").write_text(f"# A\n\n{text}\n\n![x](large.png)\n")
    (folder / "notes" / "x.webp").write_bytes(b"RIFF1234WEBP")
    (folder / "notes" / unicodedata.normalize("NFD", "é.png")).write_bytes(PNG)
    (folder / "notes" / "large.png").write_bytes(PNG + bytes(MAX_IMAGE_BYTES))
    (folder / "top.png").write_bytes(PNG)
    (folder / ".env").write_text("TOKEN=sk-1234567890abcdef1234567890abcdef")
    (tmp_path / "outside.png").write_bytes(PNG)
    (folder / "notes" / "link.png").symlink_to(tmp_path / "outside.png")
    kb.ingest(folder)
    name = "lib/notes/a.md"
    assert kb.original(name).startswith(b"# A")
    assert kb.image(name, "x.webp") == ("image/webp", b"RIFF1234WEBP")
    assert kb.image(name, "../top.png") == kb.image(name, "é.png") == ("image/png", PNG)
    for path in (*refused, "a\0b", "../notes/x.webp"):
        with pytest.raises(NotFound):
            kb.image(name, path)
    with pytest.raises(InvalidRequest, match="too large"):
        kb.image(name, "large.png")
    note = kb.add("a note with ![x](x.png)")
    with pytest.raises(NotFound):
        kb.original(note.doc_path)
    with pytest.raises(NotFound):
        kb.image(note.doc_path, "x.png")
