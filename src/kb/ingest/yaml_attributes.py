"""Converts the YAML of front matter into attributes.

Separate from `front_matter`, so that PyYAML is loaded only for files that have front matter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import yaml

from kb.ingest import dates
from kb.ingest.attribute_bounds import bound_lang, bound_tags, bound_title
from kb.types import KINDS, SCOPES, TRUSTS, Attributes

_DEPTH = 32
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_COMMENT = re.compile(r"(?:^|\s)#")
_ALIASES = {"created_at": "created", "updated_at": "updated", "expires_at": "expires"}
_KNOWN = frozenset(
    {
        "title",
        "tags",
        "kind",
        "scope",
        "trust",
        "lang",
        "date",
        "created",
        "updated",
        "expires",
        "ttl",
    }
)


class InvalidYaml(Exception):
    """YAML that is not read; the message is the reason."""


def read_attributes(
    block: str, now: datetime
) -> tuple[Attributes, tuple[str, ...], set[int]] | None:
    """Return the attributes in `block`, warnings about it, and the numbers of the lines that are
    also text: keys that are unknown or invalid, and comments. None if the block is a paragraph.

    Raises `InvalidYaml` if it cannot be read.
    """
    root = _compose(block)
    if root is not None and not isinstance(root, yaml.MappingNode):
        return None
    reader = _Reader(root.value if root is not None else [], now)
    attributes = reader.attributes()
    return attributes, tuple(reader.warnings), reader.text_lines | _comment_lines(block)


# --- YAML into nodes ------------------------------------------------------------------------------


def _compose(block: str) -> yaml.Node | None:
    """Parse the block into nodes, whose scalars keep their spelling: `lang: no` stays `no`."""
    try:
        _check_limits(block)
        loader = _Loader(block)
        try:
            node: yaml.Node | None = loader.get_single_node()
        finally:
            loader.dispose()
        return node
    except yaml.MarkedYAMLError as error:
        line = f" (line {error.problem_mark.line + 2})" if error.problem_mark else ""
        raise InvalidYaml(f"{error.problem or error.context}{line}") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: characters that YAML does not allow
        raise InvalidYaml(str(error).splitlines()[0]) from error


def _check_limits(block: str) -> None:
    """Refuse anchors, with which a few lines can expand to gigabytes, and deep nesting."""
    depth = 0
    for event in yaml.parse(block, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise InvalidYaml("anchors and aliases are not allowed")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEPTH:
            raise InvalidYaml(f"it is nested more than {_DEPTH} levels deep")


def _comment_lines(block: str) -> set[int]:
    """Return the numbers of the lines that have a comment."""
    if "#" not in block:
        return set()
    lines = block.split("\n")
    for token in yaml.scan(block, Loader=_Loader):
        if isinstance(token, yaml.ScalarToken):  # a `#` in a value is not a comment
            start, end = token.start_mark, token.end_mark
            for number in range(start.line, min(end.line + 1, len(lines))):
                line = lines[number]
                first = start.column if number == start.line else 0
                last = end.column if number == end.line else len(line)
                lines[number] = line[:first] + "x" * (last - first) + line[last:]
    return {number for number, line in enumerate(lines) if _COMMENT.search(line)}


def _plain(node: yaml.Node) -> Any:
    """Convert a node to JSON values; dates, NaN and huge numbers stay text."""
    if isinstance(node, yaml.MappingNode):
        return {_key(key): _plain(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item) for item in node.value]
    return _scalar(node.tag.rpartition(":")[2], str(node.value))


def _scalar(tag: str, text: str) -> Any:
    if tag == "null":
        return None
    if tag == "bool":
        return text.lower() in ("yes", "true", "on")
    if tag == "timestamp":
        return dates.parse(text) or text
    try:
        if tag == "int" and len(text) <= 19:
            return int(text.replace("_", ""), 0)
        if tag == "float" and math.isfinite(number := float(text.replace("_", ""))):
            return number
    except ValueError:  # 12:30 would be sexagesimal, 010 octal: keep the spelling
        pass
    return text


def _key(node: yaml.Node) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else str(_plain(node))


# --- nodes into attributes ------------------------------------------------------------------------


class _Reader:
    """Reads the nodes of one front matter: known keys into attributes, the others into metadata.

    `text_lines` are the line numbers of keys that are unknown, or whose value is ignored or cut.
    """

    def __init__(self, pairs: list[tuple[yaml.Node, yaml.Node]], now: datetime) -> None:
        self.warnings: list[str] = []
        self.text_lines: set[int] = set()
        self._now = now
        self._line_of_key = {id(node): key.start_mark.line for key, node in pairs}
        self._nodes: dict[str, yaml.Node] = {}
        self._metadata: dict[str, Any] = {}
        for written, key, node in self._unique(pairs):
            if key in _KNOWN:
                self._nodes[key] = node
            else:
                self._metadata[written] = _plain(node)
                self._keep_as_text(node)

    def attributes(self) -> Attributes:
        date, created, updated = (self._date(key) for key in ("date", "created", "updated"))
        born = created or date
        return Attributes(
            title=self._title(),
            tags=self._tags(),
            kind=self._choice("kind", KINDS),
            scope=self._choice("scope", SCOPES),
            trust=self._choice("trust", TRUSTS),
            lang=self._lang(),
            date=date or created,
            created_at=dates.moment(born) if born else None,
            updated_at=dates.moment(updated) if updated else None,
            expires_at=self._expires(date or created),
            metadata=self._metadata,
        )

    def _unique(
        self, pairs: list[tuple[yaml.Node, yaml.Node]]
    ) -> Iterator[tuple[str, str, yaml.Node]]:
        """Yield (key as written, normalized key, value), the last one for each key."""
        unique: dict[str, tuple[str, yaml.Node]] = {}
        for key_node, node in pairs:
            written = _key(key_node)
            lower = written.strip().lower().replace("-", "_")
            known = _ALIASES.get(lower, lower)
            key = known if known in _KNOWN else written
            if key in unique:
                self.warnings.append(f"front matter has {written!r} twice; the last value is used")
                self._keep_as_text(unique[key][1])
            unique[key] = (written, node)
        yield from ((written, key, node) for key, (written, node) in unique.items())

    def _text(self, key: str) -> str | None:
        node = self._nodes.get(key)
        if node is None or node.tag.endswith(":null"):
            return None
        if not isinstance(node, yaml.ScalarNode):
            self._ignore(key, "it must be text")
            return None
        return " ".join(str(node.value).split()) or None

    def _title(self) -> str | None:
        if (text := self._text("title")) is None:
            return None
        title, warnings = bound_title(text)
        self._warn_bounds("title", warnings)
        return title

    def _tags(self) -> tuple[str, ...]:
        node = self._nodes.get("tags")
        if not isinstance(node, yaml.SequenceNode):
            text = self._text("tags") or ""
            words = text.split(",") if "," in text else text.split()
        else:
            scalars = [item for item in node.value if isinstance(item, yaml.ScalarNode)]
            words = [str(item.value) for item in scalars if not item.tag.endswith(":null")]
            if len(words) < len(node.value):
                self._ignore("tags", "each tag must be text")
        tags = (" ".join(word.split()).lstrip("#").strip() for word in words)
        fitting, warnings = bound_tags(dict.fromkeys(tag for tag in tags if tag))
        self._warn_bounds("tags", warnings)
        return fitting

    def _lang(self) -> str | None:
        lang, warnings = bound_lang(self._text("lang"))
        self._warn_bounds("lang", warnings)
        return lang

    def _choice(self, key: str, valid: tuple[str, ...]) -> str | None:
        text = self._text(key)
        if text is None or text.lower() in valid:
            return text and text.lower()
        self._ignore(key, f"{text!r} is not one of {', '.join(valid)}")
        return None

    def _date(self, key: str) -> str | None:
        text = self._text(key)
        parsed = dates.parse(text) if text else None
        if text and parsed is None:
            self._ignore(key, f"{text!r} is not a date such as 2026-01-31")
        return parsed

    def _expires(self, born: str | None) -> str | None:
        if (text := self._text("expires")) and text.lower() != "never":
            expires = self._date("expires")
            return dates.moment(expires) if expires else None
        if text or (ttl := self._text("ttl")) is None:
            return None
        start = datetime.fromisoformat(dates.moment(born)) if born else self._now
        try:
            return dates.expiry(ttl, start)
        except ValueError as error:
            self._ignore("ttl", str(error))
            return None

    def _keep_as_text(self, node: yaml.Node) -> None:
        self.text_lines.add(self._line_of_key[id(node)])

    def _warn_bounds(self, key: str, warnings: tuple[str, ...]) -> None:
        if warnings:
            self._keep_as_text(self._nodes[key])
        self.warnings.extend(f"front matter: {warning}" for warning in warnings)

    def _ignore(self, key: str, reason: str) -> None:
        self._keep_as_text(self._nodes[key])
        self.warnings.append(f"front matter: {key} is ignored: {reason}")
