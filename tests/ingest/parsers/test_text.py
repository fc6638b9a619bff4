from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.ingest.decode import normalize_text
from kb.ingest.parsers.text import TextParser, first_words
from kb.ports import Parsed, Source
from kb.text.normalize import nfc
from kb.types import Span
from tests.ingest.documents import check_blocks

parser = TextParser()


def parse(text: str, name: str = "some-notes.txt") -> Parsed:
    return parser.parse(Source(name, text.encode()))


def test_by_paragraph() -> None:
    parsed = parse("one\ntwo\n\n\nthree\n")
    assert parsed.type == "note"
    assert parsed.title == "some notes"
    assert [(block.text, block.span) for block in parsed.blocks] == [
        ("one\ntwo", Span("line", 1, 2)),
        ("three", Span("line", 5, 5)),
    ]


def test_front_matter_is_not_text() -> None:
    parsed = parse("---\ntitle: Said\nlang: de\n---\ntext\n")
    (block,) = parsed.blocks
    assert (block.text, block.span) == ("text", Span("line", 5, 5))
    assert (parsed.title, parsed.lang) == ("Said", "de")


def test_broken_front_matter_is_text_and_a_warning() -> None:
    parsed = parse("---\ntitle: [\n---\ntext\n")
    assert [block.span for block in parsed.blocks] == [Span("line", 1, 4)]
    assert parsed.warnings


def test_ttl_counts_from_the_file_s_time() -> None:
    source = Source("a.txt", b"---\nttl: 1d\n---\ntext", mtime_ns=86_400 * 10**9)
    assert parser.parse(source).attributes.expires_at == "1970-01-03T00:00:00Z"


@pytest.mark.parametrize("name", ["a.txt", "A.TXT", "a.log", "README", "TODO"])
def test_accepts(name: str) -> None:
    assert parser.accepts(Source(name, b"text"))


@pytest.mark.parametrize("name", ["a.png", "a.xyz", "a.csv"])
def test_leaves_other_suffixes(name: str) -> None:
    assert not parser.accepts(Source(name, b"text"))


def test_leaves_a_program_without_suffix() -> None:
    assert not parser.accepts(Source("kb", b"\x7fELF\x02\x01\x01\0\0\0"))


@given(st.text(alphabet="ab \n\t#-é中"))
def test_every_line_is_in_a_block(text: str) -> None:
    parsed = parse(text)
    if not text.startswith("---"):
        check_blocks(normalize_text(text), list(parsed.blocks))


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# A heading\n\ntext", "A heading"),
        ("\n\n---\n- first item\n", "first item"),
        ("word " * 40, "word " * 15 + "word …"),
        ("x" * 200, "x" * 80 + " …"),
        ("!!!", "!!!"),
    ],
)
def test_first_words(text: str, title: str) -> None:
    assert first_words(text) == title


@given(st.text(min_size=1).filter(lambda text: bool(text.strip())))
def test_first_words_are_short_and_some(text: str) -> None:
    title = first_words(nfc(text))
    assert 0 < len(title) <= 82
    assert "\n" not in title
