from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.ingest.chunk import chunk
from kb.ingest.decode import Unsupported, normalize_text
from kb.ingest.parsers.code import definitions
from kb.ingest.parsers.code.grammars import GRAMMARS
from kb.ingest.parsers.code.parser import CodeParser
from kb.ports import Source
from kb.types import Block
from tests.ingest.documents import CODE_LINES, check_blocks, documents

FILES = {
    "python": "a.py", "javascript": "a.js", "typescript": "a.ts", "tsx": "a.tsx", "go": "a.go",
    "rust": "a.rs", "java": "A.java", "c": "a.c", "cpp": "a.cpp",
}  # fmt: skip

Outline = list[tuple[int | None, int | None, str | None]]


def blocks_of(name: str, text: str, max_chars: int = 1800) -> Sequence[Block]:
    return list(CodeParser(max_chars).parse(Source(name, text.encode())).blocks)


def outline(name: str, text: str, max_chars: int = 1800) -> Outline:
    text = dedent(text).lstrip("\n")
    blocks = blocks_of(name, text, max_chars)
    check_blocks(normalize_text(text), blocks)
    return [(block.span.start, block.span.end, block.span.symbol) for block in blocks]


def outline_of(name: str, text: str) -> Outline:
    blocks = blocks_of(name, text)
    return [(block.span.start, block.span.end, block.span.symbol) for block in blocks]


def test_python() -> None:
    text = '''
        """Module."""
        import os

        X = 1


        # about f
        @decorated
        def f():
            pass

        class A(B):
            """Doc."""

            # about m
            def m(self):
                pass
        '''
    whole: Outline = [(1, 2, None), (4, 4, None), (7, 10, "f"), (12, 17, "A")]
    assert outline("a.py", text) == whole
    split: Outline = [*whole[:3], (12, 13, "A"), (15, 17, "A.m")]
    assert outline("a.py", text, max_chars=60) == split


def test_a_span_names_the_symbol_and_the_language() -> None:
    parsed = CodeParser(1800).parse(Source("a.tsx", b"function F() {}\n"))
    (block,) = parsed.blocks
    assert (parsed.type, parsed.lang, parsed.title) == ("code", "typescript", "a.tsx")
    assert block.heading_path == ("F",)
    assert block.span.to_dict() == {
        "kind": "code", "start": 1, "end": 1, "symbol": "F", "lang": "typescript",
    }  # fmt: skip


def test_javascript() -> None:
    text = """
        import x from 'x';

        /** about A */
        export default class A {
          m() {}
        }
        const f = () => 1;
        exports.g = function () {};
        Foo.prototype.bar = () => 1;
        const data = {};
        export default () => {};
        """
    assert outline("a.js", text) == [
        (1, 1, None), (3, 6, "A"), (7, 7, "f"), (8, 8, "g"), (9, 9, "Foo.bar"), (10, 10, None),
        (11, 11, "default"),
    ]  # fmt: skip
    assert outline("a.js", text, max_chars=30)[1:4] == [(3, 4, "A"), (5, 6, "A.m"), (7, 7, "f")]


def test_typescript() -> None:
    text = """
        @Component({})
        export class A<T> {
          @Input() x = () => 1;
        }
        interface I { a(): void }
        type T = string;
        enum E { A }
        namespace N.M { function q() {} }
        declare function z(): void;
        """
    expected: Outline = [
        (1, 4, "A"), (5, 5, "I"), (6, 6, "T"), (7, 7, "E"), (8, 8, "N.M"), (9, 9, "z"),
    ]  # fmt: skip
    assert outline("a.ts", text) == expected


def test_go() -> None:
    text = """
        package a

        // Run runs.
        func (s *Server[T]) Run() {}
        func F[T any]() {}
        type (
            A int
            B int
        )
        """
    assert outline("a.go", text) == [
        (1, 1, None), (3, 4, "Server.Run"), (5, 5, "F"), (6, 9, "A"),
    ]  # fmt: skip


def test_rust() -> None:
    text = """
        //! module

        /// about S
        #[derive(Debug)]
        pub struct S<T> { a: T }
        impl<T> Clone for S<T> {
            /// about f
            fn f(&self) {}
        }
        mod m { fn g() {} }
        """
    assert outline("a.rs", text) == [(1, 1, None), (3, 5, "S"), (6, 9, "S"), (10, 10, "m")]
    assert outline("a.rs", text, max_chars=50)[2:4] == [(6, 6, "S"), (7, 9, "S.f")]


def test_java() -> None:
    text = """
        package a;

        /** About A. */
        @Annotated
        public class A<T> {
            int x;

            /** About m. */
            @Override public void m() {}
            A() {}
        }
        """
    assert outline("A.java", text) == [(1, 1, None), (3, 11, "A")]
    assert outline("A.java", text, max_chars=50) == [
        (1, 1, None), (3, 6, "A"), (8, 9, "A.m"), (10, 11, "A.A"),
    ]  # fmt: skip


def test_c() -> None:
    text = """
        #ifndef A_H
        #define A_H

        /* about f */
        static int *f(int a)
        {
            return 0;
        }
        struct S { int a; };
        struct Declared;
        typedef struct { int b; } T;
        #define MAX(a, b) \\
            ((a) > (b))
        #endif
        """
    assert outline("a.c", text) == [
        (1, 2, None), (4, 8, "f"), (9, 9, "S"), (10, 10, None), (11, 11, "T"), (12, 13, "MAX"),
        (14, 14, None),
    ]  # fmt: skip


def test_cpp() -> None:
    text = """
        namespace a::b {
        template <class T>
        class C {
        public:
          C() {}
          int f() const { return 1; }
        };
        void C::h() {}
        int &C::ref() {}
        bool operator<(A a, A b) { return 1; }
        }
        extern "C" {
        int k() {}
        }
        """
    assert outline("a.cpp", text, max_chars=40) == [
        (1, 1, "a.b"), (2, 4, "a.b.C"), (5, 5, "a.b.C.C"), (6, 7, "a.b.C.f"), (8, 8, "a.b.C.h"),
        (9, 9, "a.b.C.ref"), (10, 11, "a.b.operator<"), (12, 12, None), (13, 14, "k"),
    ]  # fmt: skip


def test_a_syntax_error_costs_only_its_own_definition() -> None:
    text = """
        def good():
            pass

        def bad(:
            x = (

        """
    assert outline("a.py", text)[0] == (1, 2, "good")
    assert all(symbol in (None, "good") for _, _, symbol in outline("a.py", text))


def test_a_trailing_comment_does_not_belong_to_the_next_definition() -> None:
    assert outline("a.py", "x = 1  # one\ndef f(): pass\n") == [(1, 1, None), (2, 2, "f")]


def test_other_languages_are_split_by_paragraph() -> None:
    blocks = blocks_of("a.sh", "#!/bin/sh\nset -e\n\n\nf() {\n}\n")
    assert [(block.span.start, block.span.end) for block in blocks] == [(1, 2), (5, 6)]
    assert all(block.span.symbol is None and block.span.lang == "bash" for block in blocks)


def test_a_broken_grammar_falls_back_to_lines(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(language: str) -> None:
        raise RuntimeError("incompatible grammar")

    monkeypatch.setattr(definitions, "parser_for", broken)
    with caplog.at_level(logging.WARNING):
        assert outline("a.py", "def f():\n    pass\n\nx = 1\n") == [(1, 2, None), (4, 4, None)]
    assert "incompatible grammar" in caplog.text


def test_a_huge_file_is_split_by_lines() -> None:
    assert blocks_of("a.py", "def f(): pass\n\n" + "x = 1\n" * 110_000)[0].span.symbol is None


def test_a_file_with_an_endless_comment_is_split_by_lines() -> None:
    assert blocks_of("a.py", "def f(): pass\n\n" + "# x\n" * 20_000)[0].span.symbol is None


def test_lines_beyond_the_small_numbers() -> None:
    text = "x = 1\n" * 1000 + "x" * 4900 + " = 1\n\ndef f():\n    pass\n"
    for _ in range(20):
        assert outline_of("a.py", text) == [(1, 1001, None), (1003, 1004, "f")]


@pytest.mark.parametrize("language", sorted(GRAMMARS))
@given(text=documents(CODE_LINES))
def test_every_line_is_in_exactly_one_block(language: str, text: str) -> None:
    for max_chars in (20, 1800):
        check_blocks(normalize_text(text), blocks_of(FILES[language], text, max_chars))


@given(st.text(alphabet="ab(){};:#\n\t '\"é中\x0c\u2028"))
def test_any_text_is_parsed(text: str) -> None:
    check_blocks(normalize_text(text), blocks_of("a.py", text))
    check_blocks(normalize_text(text), blocks_of("a.cpp", text))


def test_every_grammar_has_a_wheel() -> None:
    assert set(FILES) == set(GRAMMARS)


def test_minified_files_are_not_read() -> None:
    with pytest.raises(Unsupported, match="minified"):
        CodeParser(1800).parse(Source("a.js", b"var a=1;" * 10_000))
    assert list(CodeParser(1800).parse(Source("a.py", b"x = 1; " * 10_000)).blocks)


def test_data_on_one_line_is_read() -> None:
    messages = [f"message {number} about the harbour" for number in range(5000)]
    as_json = json.dumps({"messages": [{"text": text} for text in messages]})
    as_xml = "<feed>" + "".join(f"<p>{text}</p>" for text in messages) + "</feed>"
    for name, text in (("chat.json", as_json), ("feed.xml", as_xml)):
        blocks = blocks_of(name, text)
        assert "\n".join(block.text for block in blocks) == text
        passages = chunk(blocks, 1800)
        assert max(len(passage.text) for passage in passages) <= 1800
        words = {word for passage in passages for word in re.findall(r"\d+", passage.text)}
        assert words >= {str(number) for number in range(5000)}
