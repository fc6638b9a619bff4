from __future__ import annotations

import pytest

from kb.ingest.parsers.code.languages import language_of


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("a.py", "python"), ("a.PY", "python"), ("a.jsx", "javascript"), ("a.tsx", "tsx"),
        ("a.ts", "typescript"), ("a.go", "go"), ("a.rs", "rust"), ("A.java", "java"), ("a.c", "c"),
        ("a.hpp", "cpp"), ("a.sh", "bash"), ("a.rb", "ruby"), ("a.php", "php"), ("a.lua", "lua"),
        ("a.sql", "sql"), ("a.css", "css"), ("a.yaml", "yaml"), ("a.toml", "toml"),
        ("Dockerfile", "dockerfile"), ("Dockerfile.dev", "dockerfile"), ("Makefile", "make"),
        ("a.kt", "kotlin"), ("a.swift", "swift"), ("a.scala", "scala"), ("a.r", "r"),
        ("a.pl", "perl"), ("a.hs", "haskell"), ("a.ex", "elixir"), ("a.zig", "zig"),
        ("a.ini", "ini"), ("CMakeLists.txt", "cmake"), ("a.md", None), ("a.txt", None),
        ("README", None),
    ],
)  # fmt: skip
def test_by_name(name: str, language: str | None) -> None:
    assert language_of(name, b"") == language


@pytest.mark.parametrize(
    ("head", "language"),
    [
        (b"#!/bin/sh\n", "bash"),
        (b"#!/usr/bin/env python3\n", "python"),
        (b"#!/usr/bin/env -S node --flag\n", "javascript"),
        (b"#! /usr/bin/python3.11 -u\n", "python"),
        (b"#!/usr/bin/unheard-of\n", None),
        (b"#!", None),
        (b"text", None),
    ],
)
def test_by_first_line(head: bytes, language: str | None) -> None:
    assert language_of("run", head) == language


def test_a_translation_is_not_typescript() -> None:
    assert language_of("app_de.ts", b"<?xml version='1.0'?>\n<!DOCTYPE TS>\n") == "xml"


def test_a_header_is_c_unless_it_looks_like_more() -> None:
    assert language_of("a.h", b"int f(void);\n") == "c"
    assert language_of("a.h", b"namespace x {\n}\n") == "cpp"
