from __future__ import annotations

from importlib.metadata import EntryPoint
from pkgutil import iter_modules

import pytest

from kb.ingest import parsers as formats
from kb.ingest.parse import GROUP, Parsers
from kb.ingest.parser_registry import built_in_parsers
from kb.ports import Parsed, Source
from kb.types import Block, Span


class Poems:
    name = "poems"
    version = "3"

    def accepts(self, source: Source) -> bool:
        return source.name.endswith((".poem", ".md"))

    def parse(self, source: Source) -> Parsed:
        return Parsed("poem", [Block(source.data.decode(), Span("verse", extra={"verse": 1}))])


class Stumbling(Poems):
    def accepts(self, source: Source) -> bool:
        raise ValueError("no idea")


def broken() -> Poems:
    raise RuntimeError("no such library")


def plug_in(value: str) -> EntryPoint:
    return EntryPoint("mine", value, GROUP)


def detected(parsers: Parsers, name: str, data: bytes = b"text") -> str | None:
    parser = parsers.detect(Source(name, data))
    return parser.name if parser else None


@pytest.mark.parametrize(
    ("name", "data", "parser"),
    [
        ("a.md", b"", "markdown"),
        ("a.py", b"", "code"),
        ("Makefile", b"", "code"),
        ("run", b"#!/bin/sh\n", "code"),
        ("a.txt", b"", "text"),
        ("README", b"words", "text"),
        ("program", b"\x7fELF\0\0\1", None),
        ("a.png", b"", "image"),
        ("a.unheard", b"text", None),
        ("a.html", b"<p>text", "html"),
        ("a.rst", b"text", "rst"),
        ("a.org", b"text", "org"),
        ("a.adoc", b"text", "asciidoc"),
        ("a.ipynb", b"{}", "notebook"),
        ("a.csv", b"a,b", "table"),
        ("a.jsonl", b"{}", "table"),
        ("a.json", b"{}", "code"),
        ("a.eml", b"From: a", "email"),
        ("a.md", b"%PDF-1.7\n", "pdf"),
        ("a.txt", b"%PDF-1.7\n", "pdf"),
        ("a.py", b"PK\x03\x04 and more", None),
        ("README", b"PK\x03\x04 and more", None),
    ],
)
def test_detect(name: str, data: bytes, parser: str | None) -> None:
    assert detected(Parsers(1800, []), name, data) == parser


def test_a_plug_in_adds_a_format_and_may_take_one_over() -> None:
    parsers = Parsers(1800, [plug_in(f"{__name__}:Poems")])
    assert detected(parsers, "a.poem") == "poems"
    assert detected(parsers, "a.md") == "poems"
    assert detected(parsers, "a.txt") == "text"
    assert next(parser.name for parser in parsers) == "poems"
    assert [parser.name for parser in parsers][-1] == "text"
    assert parsers.problems == []


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no_such_module:Parser", "ModuleNotFoundError"),
        (f"{__name__}:no_such_name", "AttributeError"),
        (f"{__name__}:broken", "no such library"),
        ("builtins:object", "it has no name, version, accepts, parse"),
    ],
)
def test_a_plug_in_that_cannot_be_loaded_is_named(value: str, why: str) -> None:
    parsers = Parsers(1800, [plug_in(value), plug_in(f"{__name__}:Poems")])
    (problem,) = parsers.problems
    assert problem.path == "kb.parsers: mine"
    assert why in problem.reason
    assert detected(parsers, "a.poem") == "poems"


def test_a_plug_in_that_stumbles_is_left_out() -> None:
    parsers = Parsers(1800, [plug_in(f"{__name__}:Stumbling")])
    assert detected(parsers, "a.md") == "markdown"
    assert detected(parsers, "b.md") == "markdown"
    (problem,) = parsers.problems
    assert "no idea" in problem.reason


def test_installed_plug_ins_are_found() -> None:
    assert [parser.name for parser in Parsers(1800)][-1] == "text"


def test_every_module_of_the_package_is_a_format() -> None:
    names = {module.name for module in iter_modules(formats.__path__)}
    built_in = built_in_parsers(1800)
    assert set(built_in) == names
    assert all(location == parser.name for location, parser in built_in.items())
    assert [parser.priority for parser in built_in.values()] == sorted(
        (parser.priority for parser in built_in.values()), reverse=True
    )
