"""Small files of simple formats are parsed without a parser process, in bounded time, with the same
result."""

from __future__ import annotations

import time
from itertools import pairwise, product

import pytest

from kb.ingest import parser_pool
from kb.ingest.parse import Parsers
from kb.ingest.parsed_document import ChunkedDocument, parse_and_chunk
from kb.ingest.parser_limits import Limits
from kb.ingest.parser_support.format_parser import SMALL_BYTES
from kb.ingest.small_files import LocalParsing, can_parse_locally, may_need_process
from kb.ports import Parser, Source
from tests.ingest.conftest import Library

MAX_CHARS = 1800
PARSERS = Parsers(MAX_CHARS, ())
NAMES = ("a.md", "a.txt", "a.org", "a.rst", "a.adoc", "a.csv", "a.jsonl")
HOSTILE = (
    "[", "*", "_", "`", "> ", "- ", "1. ", "<!--", "<a ", "| a ", "\t", "&", "[a]: ", "# ",
    "a\n===\n", "---\n", "```\n", "-\n* a\n", ">\na\n", "a|b\n-|-\n", "[a]:\n", ".. a::\n", "::\n",
    "** a\n", "#+begin_src\n", "====\n", '"', '","', '\\u0041', "\r", "e\u0301", "\u0301", "{",
)  # fmt: skip


def parser_of(name: str) -> Parser:
    parser = PARSERS.detect(Source(name, b"text"))
    assert parser is not None
    return parser


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_small_file_takes_less_than_a_second(name: str) -> None:
    parser = parser_of(name)
    deep = "".join(f"{'  ' * depth}- a\n" for depth in range(150))
    quoted = "".join(f"{'> ' * depth}a\n" for depth in range(150))
    texts = [unit * SMALL_BYTES for unit in HOSTILE]
    texts += [one * 4000 + other * SMALL_BYTES for one, other in pairwise(HOSTILE[::2])]
    texts += ["#tag [[link]] " + unit * SMALL_BYTES for unit in HOSTILE]
    for text in (*texts, deep * 2, quoted * 2):
        data = text.encode()[:SMALL_BYTES].decode("utf-8", "ignore").encode()
        started = time.thread_time()
        for _chunk in parse_and_chunk(parser, Source(name, data), MAX_CHARS).chunks:
            pass
        assert time.thread_time() - started < 1.0, text[:20]


def content(document: ChunkedDocument) -> tuple[object, ...]:
    return (document.type, document.title, document.attributes, document.warnings,
            list(document.chunks))  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_both_ways_give_the_same_document(name: str) -> None:
    text = '# Title\n\nname,b\n"x, y",é\n\n* item\n\n  more\n\nTitle\n=====\n\n{"a": "\\u00e9"}\n'
    source, parser = Source(name, text.encode(), 10**18), parser_of(name)
    here = LocalParsing(parser, source, MAX_CHARS)
    limits = Limits(10**9, 60.0)
    with parser_pool.start(PARSERS.location(parser), source, MAX_CHARS, limits) as there:
        assert content(here.document()) == content(there.document())


@pytest.mark.parametrize(
    ("name", "data", "local"),
    [
        ("a.md", b"# Title\n", True),
        ("a.md", b"x" * SMALL_BYTES, True),
        ("a.md", b"x" * (SMALL_BYTES + 1), False),
        ("a.md", b"---\ntitle: x\n---\ntext\n", False),
        ("a.md", b"\xef\xbb\xbf---\ntitle: x\n---\ntext\n", False),
        ("a.txt", "---\ntitle: x\n---\n".encode("utf-16"), False),
        ("a.txt", "---\ntitle: x\n---\n".encode("utf-16-le"), False),
        ("a.py", b"x = 1\n", False),
        ("a.html", b"<p>x</p>", False),
        ("a.ipynb", b"{}", False),
        ("a.eml", b"From: a@example.org\n\nx\n", False),
    ],
)
def test_which_files_are_parsed_locally(name: str, data: bytes, local: bool) -> None:
    assert can_parse_locally(parser_of(name), data) is local


def test_small_files_start_no_process(library: Library) -> None:
    parser_pool.close()
    for name, start in product(NAMES, ("", "text\n---\na: b\n---\n")):
        library.put(f"{len(start)}-{name}", start + "plain text\n")
    library.ingest("")
    assert not parser_pool._POOL._idle
    assert library.store.catalog.counts().documents == 2 * len(NAMES)


def test_a_name_tells_whether_a_process_should_start_early() -> None:
    assert may_need_process("report.pdf")
    assert not may_need_process("folder/note.md")
