"""Generated documents, and what must hold after splitting any of them."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from kb.types import Block, ChunkDraft

MARKDOWN_LINES = (
    "# One", "## Two", "### Three `code` *em*", "#", "Setext", "===", "---", "text", "more text.",
    "", "", "   ", "```", "```python", "~~~", "    indented", "- item", "  - nested", "1. first",
    "> quote", ">", "> > deep", "| a | b |", "|---|---|", "| c | d |", "[ref]: http://x.test",
    "[^1]: note", "<div>", "</div>", "<!-- open", "-->", "\tcode", "* * *", "é한글中文", "#hash",
)  # fmt: skip
CODE_LINES = (
    "import os", "", "", "# comment", "def f():", "    return 1", "class A:", "    x = 1",
    "    def m(self):", "        pass", "    # inside", "@decorated", "x = (1,", ")", "}", "{",
    "function g() {", "}", "const a = () => {", "};", "class B {", "  m() {", "  }", "// note",
    "/* open", "*/", "'''", '"""', "if x:", "else:", "#ifdef X", "#endif", "namespace n {",
    "struct S { int a; };", "func (s *S) Run() {", "impl T for S {", "fn f() {}", "#[test]",
    "é = '中'",
)  # fmt: skip


def documents(lines: Sequence[str], longest: int = 40) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(lines), max_size=longest).map("\n".join)


def check_blocks(text: str, blocks: Sequence[Block], first: int = 0) -> None:
    """Check that every line that is not blank, from line `first` on, is in exactly one block, in
    order, and that the text of each block consists of its lines."""
    lines = text.split("\n")
    covered: list[int] = []
    for block in blocks:
        start, end = block.span.start, block.span.end
        assert start is not None
        assert end is not None
        assert block.text == "\n".join(lines[start - 1 : end])
        assert lines[start - 1].strip()
        assert lines[end - 1].strip()
        covered += range(start - 1, end)
    assert covered == sorted(set(covered))
    missing = set(range(first, len(lines))) - set(covered)
    assert not [lines[number] for number in missing if lines[number].strip()]


def check_chunks(text: str, chunks: Sequence[ChunkDraft], max_chars: int) -> None:
    """Check the same for chunks. Pieces of one long line share that line."""
    lines = text.split("\n")
    pieces: dict[int, list[str]] = {}
    covered: list[int] = []
    for chunk in chunks:
        (span,) = chunk.spans
        assert span.start is not None
        assert span.end is not None
        source = "\n".join(lines[span.start - 1 : span.end])
        covered += [line for line in range(span.start - 1, span.end) if line not in covered[-1:]]
        if chunk.text != source:
            assert span.start == span.end
            assert len(chunk.text) <= max_chars
            pieces.setdefault(span.start - 1, []).append(chunk.text)
    assert covered == sorted(set(covered))
    missing = set(range(len(lines))) - set(covered)
    assert not [lines[number] for number in missing if lines[number].strip()]
    for line, texts in pieces.items():
        assert "".join("".join(texts).split()) == "".join(lines[line].split())
