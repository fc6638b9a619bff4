"""The outline of a source file: which lines belong to which definition.

Turns a syntax tree into sections that cover all lines, in order. Lines that the grammar cannot
parse belong to no definition; the rest of the file keeps its outline.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from kb.ingest.parsers.code.grammars import GRAMMARS, Grammar, parser_for

if TYPE_CHECKING:
    from tree_sitter import Node

_DEPTH = 8  # of nested classes; deeper ones stay whole
_NAME_CHARS = 120
_NOT_NAMES = frozenset({"exports", "module", "prototype", "this", "window"})
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Section:
    """Lines from `start` up to but not including `end`, counted from 0. They are a `whole`
    definition, or other lines of the definition or file at `path`."""

    start: int
    end: int
    path: tuple[str, ...]
    whole: bool


@dataclass(frozen=True, slots=True)
class _Definition:
    node: Node
    names: tuple[str, ...]
    container: bool


def outline(lines: Sequence[str], language: str, max_chars: int) -> list[Section]:
    """The sections of a file; a container longer than `max_chars` is split into its members."""
    encoded = [line.encode() for line in lines]
    tree = parser_for(language).parse(b"\n".join(encoded))
    splitter = _Splitter(GRAMMARS[language], _offsets(encoded), _offsets(lines), max_chars)
    sections = splitter.split(tree.root_node.children, 0, len(lines), ())
    return _absorb_loose_lines(lines, sections)


def _offsets(lines: Sequence[str] | Sequence[bytes]) -> list[int]:
    return [0, *accumulate(len(line) + 1 for line in lines)]


def _absorb_loose_lines(lines: Sequence[str], sections: Iterator[Section]) -> list[Section]:
    """Join lines without a word, such as a closing brace, with the section before them."""
    tidy: list[Section] = []
    for section in sections:
        loose = not section.whole and not any(map(_WORD.search, lines[section.start : section.end]))
        if tidy and loose:
            last = tidy.pop()
            section = Section(last.start, section.end, last.path, last.whole)
        tidy.append(section)
    return tidy


@dataclass(frozen=True, slots=True)
class _Splitter:
    grammar: Grammar
    bytes_before: Sequence[int]  # before each line
    chars_before: Sequence[int]
    max_chars: int

    def split(
        self, nodes: Sequence[Node], first: int, last: int, path: tuple[str, ...]
    ) -> Iterator[Section]:
        """Yield sections for all lines from `first` to `last`, which contain `nodes`."""
        cursor = first
        for node, begin in self._with_comments(nodes):
            definition = self._define(node)
            if definition is None and node.type not in self.grammar.transparent:
                continue
            begin, end = max(begin, cursor), self._lines(node)[1]
            if end <= begin:
                continue  # on a line that belongs to an earlier section
            if begin > cursor:
                yield Section(cursor, begin, path, whole=False)
            yield from self._sections(node, definition, begin, end, path)
            cursor = end
        if cursor < last:
            yield Section(cursor, last, path, whole=False)

    def _sections(
        self,
        node: Node,
        definition: _Definition | None,
        begin: int,
        end: int,
        path: tuple[str, ...],
    ) -> Iterator[Section]:
        if definition is None:
            yield from self.split(_members(node), begin, end, path)
            return
        inner = path + definition.names
        broken = definition.node.has_error
        is_long = self.chars_before[end] - self.chars_before[begin] > self.max_chars
        if definition.container and len(path) < _DEPTH and (broken or is_long):
            yield from self.split(_members(definition.node), begin, end, inner)
        else:
            yield Section(begin, end, inner, whole=True)

    def _with_comments(self, nodes: Sequence[Node]) -> Iterator[tuple[Node, int]]:
        """Yield each node with the line where it begins, including the comments right above it."""
        lead: tuple[int, int] | None = None
        before = -1  # the end of the last node that is not a comment
        for node in nodes:
            start, end = self._lines(node)
            if node.type in self.grammar.leading:
                if start >= before:  # otherwise it follows code on the same line
                    lead = (lead[0] if lead and lead[1] >= start else start, end)
                continue
            yield node, lead[0] if lead and lead[1] >= start else start
            lead, before = None, end

    def _lines(self, node: Node) -> tuple[int, int]:
        """The range of the node's lines; a trailing line end belongs to its last line. Computed
        from byte offsets, since `Point.row` of tree-sitter 0.26.0 corrupts memory."""
        first = bisect_right(self.bytes_before, node.start_byte) - 1
        last = bisect_right(self.bytes_before, max(node.start_byte, node.end_byte - 1)) - 1
        return first, last + 1

    def _define(self, node: Node) -> _Definition | None:
        grammar = self.grammar
        if not node.is_named:
            return None  # the keyword `class` has the type of a class
        if node.type in grammar.wrappers:
            inner = next(filter(None, map(self._define, node.named_children)), None)
            if inner is None or inner.names or node.type != "export_statement":
                return inner if inner and inner.names else None
            return _Definition(inner.node, ("default",), inner.container)
        if node.type in grammar.assigned:
            return self._assigned_definition(node)
        container = node.type in grammar.containers
        if not container and (node.type not in grammar.leaves or node.has_error):
            return None
        if node.type.endswith("_specifier") and node.child_by_field_name("body") is None:
            return None  # `struct S;` only declares it
        return _Definition(node, _names(node), container)

    def _assigned_definition(self, node: Node) -> _Definition | None:
        value = node.child_by_field_name("value") or node.child_by_field_name("right")
        definition = self._define(value) if value is not None else None
        if definition is None or not (names := _names(node)):
            return None
        return _Definition(definition.node, names, definition.container)


def _members(node: Node) -> list[Node]:
    """The node's children, with its body replaced by its own children: comments may be in both."""
    body = node.child_by_field_name("body")
    if body is None:
        return node.children
    return [
        member
        for child in node.children
        for member in (child.children if child.id == body.id else [child])
    ]


# --- names ----------------------------------------------------------------------------------------


def _names(node: Node) -> tuple[str, ...]:
    """The names of a definition: `("Server", "run")` for a method that names its class."""
    if node.type == "method_declaration" and (receiver := node.child_by_field_name("receiver")):
        return (*_name_parts(_first_type(receiver)), *_name_parts(node.child_by_field_name("name")))
    if node.type == "type_declaration":  # Go: `type ( A ...; B ... )` is named by its first type
        return _name_parts(next((_name_node(child) for child in node.named_children), None))
    return _name_parts(_name_node(node))


def _name_node(node: Node) -> Node | None:
    """The node that holds the name; in C, it is at the end of a chain of declarators."""
    for field in ("name", "property", "left", "declarator", "type"):
        if (name := node.child_by_field_name(field)) is not None:
            break
    else:
        return None
    while name.type.endswith("_declarator"):
        inner = name.child_by_field_name("declarator") or next(
            (child for child in name.named_children if child.type.endswith("declarator")), None
        )
        if inner is None:
            break
        name = inner
    return name


def _first_type(node: Node) -> Node | None:
    if node.type == "type_identifier":
        return node
    return next(filter(None, map(_first_type, node.named_children)), None)


def _name_parts(node: Node | None) -> tuple[str, ...]:
    """The parts of `a::b` or `a.b`, without type arguments."""
    if node is None or node.text is None:
        return ()
    text = node.text.decode("utf-8", "replace")
    if "operator" not in text:  # C++: `operator<` is a name, `Box<T>` a name with arguments
        text = text.partition("<")[0]
    if len(text) > _NAME_CHARS or "\n" in text:
        return ()
    parts = (part.strip(" \"'*&") for part in re.split(r"::|\.", text))
    return tuple(part for part in parts if part and part not in _NOT_NAMES)
