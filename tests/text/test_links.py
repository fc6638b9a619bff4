"""Links that open a file where a citation points."""

from __future__ import annotations

import os
import sys
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.text.citations import cite
from kb.text.links import link, locate
from kb.types import LINK_FORMS, FileLocation, Span

posix = pytest.mark.skipif(sys.platform == "win32", reason="paths of POSIX")
LINES = cite("lib/a b.md", Span("line", 12, 34), None)
PLACE = FileLocation("/home/ada/lib", "a b.md", detached=False)


@posix
@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("file", "file:///home/ada/lib/a%20b.md"),
        ("vscode", "vscode://file/home/ada/lib/a%20b.md:12"),
        ("zed", "zed://file/home/ada/lib/a%20b.md:12"),
        ("idea", "idea://open?file=/home/ada/lib/a%20b.md&line=12"),
        ("obsidian", "obsidian://open?path=/home/ada/lib/a%20b.md"),
        ("none", None),
    ],
)
def test_forms(form: str, expected: str | None) -> None:
    located = locate(LINES, "markdown", PLACE, form)
    assert (located.file, located.line, located.page) == ("/home/ada/lib/a b.md", 12, None)
    assert located.link == expected
    assert located.uri == LINES.uri


@posix
@pytest.mark.parametrize("form", [form for form in LINK_FORMS if form not in ("none", "obsidian")])
def test_a_pdf_opens_in_no_editor(form: str) -> None:
    page = cite("lib/x.pdf", Span("page", page=4), None)
    located = locate(page, "pdf", FileLocation("/lib", "x.pdf", detached=False), form)
    assert (located.line, located.page, located.link) == (None, 4, "file:///lib/x.pdf#page=4")


@posix
def test_obsidian_opens_the_files_of_a_vault_only() -> None:
    assert link("/v/a.PDF", None, 3, "obsidian") == "obsidian://open?path=/v/a.PDF"
    assert link("/v/a.py", 3, None, "obsidian") == "file:///v/a.py"


def test_lines_of_extracted_text_are_not_lines_of_the_file() -> None:
    assert locate(LINES, "html", PLACE).line is None


@posix
@pytest.mark.parametrize(
    "place",
    [
        None,
        FileLocation("/lib", "a.md", detached=True),
        FileLocation("/lib", "../a.md", detached=False),
        FileLocation("/lib", "sub/../../a.md", detached=False),
        FileLocation("/lib", "/etc/passwd", detached=False),
        FileLocation("/lib", os.fsdecode(b"\xff.md"), detached=False),
        FileLocation("/lib", "a\0.md", detached=False),
    ],
)
def test_no_file(place: FileLocation | None) -> None:
    located = locate(LINES, "markdown", place)
    assert (located.file, located.line, located.link) == (None, None, None)


@posix
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), min_size=1))
def test_every_name_is_one_path_of_the_link(name: str) -> None:
    address = link(f"/lib/{name}", None, None)
    assert address is not None
    assert address.isascii()
    assert address.isprintable()
    assert unquote(urlsplit(address).path) == f"/lib/{name}"
    assert not urlsplit(address).fragment
