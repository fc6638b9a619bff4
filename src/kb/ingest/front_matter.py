"""Front matter: what a note says about itself, in YAML between `---` lines at its top.

Pure, and never a failure: a block that cannot be read is text, with a warning. So are the lines
from the first key on that kb has no use for: people look for what they have written there. Serves
the parsers of text formats.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import yaml

from kb.ingest import dates
from kb.ingest.attribute_bounds import bound_lang, bound_tags
from kb.types import KINDS, SCOPES, TRUSTS, Attributes, Block, Span

LIMIT_CHARS = 64 * 1024
_DEPTH = 32
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)
_KEY = re.compile(r"\w[\w -]*:(?:\s|$)")
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


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What was said, how many lines it took at the top of the file, and what was odd about it.
    `text` are the last of those lines, from the first key that is not known or not valid on."""

    attributes: Attributes = field(default_factory=Attributes)
    lines: int = 0
    warnings: tuple[str, ...] = ()
    text: str = ""

    def blocks(self) -> list[Block]:
        """`text` as a block, which the chunker joins with what stands below it."""
        if not self.text:
            return []
        first = self.lines - self.text.count("\n")
        return [Block(self.text, Span("line", first, self.lines), boundary=True)]


class _Refused(Exception):
    """YAML that is not read, and why."""


def read(text: str, now: datetime) -> FrontMatter:
    """The front matter of `text`; a `ttl` counts from the date it names, else from `now`."""
    first, newline, rest = text.partition("\n")
    if first.rstrip() != "---" or not newline:
        return FrontMatter()
    closing = _CLOSING.search(rest[: LIMIT_CHARS + 1])
    if closing is None or closing.start() > LIMIT_CHARS:
        unclosed = _KEY.match(rest)  # else the first line is a rule between two paragraphs
        return FrontMatter(warnings=("front matter has no end, read as text",) if unclosed else ())
    block = rest[: closing.start()]
    try:
        root = _compose(block)
    except _Refused as refusal:
        return FrontMatter(warnings=(f"front matter read as text: {refusal}",))
    if root is not None and not isinstance(root, yaml.MappingNode):
        return FrontMatter()  # a paragraph between two rules
    pairs = root.value if root is not None else []
    reading = _Reading(pairs, now)
    attributes, text = reading.attributes(), ""
    if reading.unread:
        written = f"{block}{closing[0]}".split("\n")
        text = "\n".join(written[min(reading.unread) :])
    return FrontMatter(attributes, block.count("\n") + 2, tuple(reading.warnings), text)


def without(text: str, now: datetime) -> str:
    """`text` behind its front matter."""
    return "\n".join(text.split("\n")[read(text, now).lines :])


# --- YAML into nodes ------------------------------------------------------------------------------


def _compose(block: str) -> yaml.Node | None:
    """The block as nodes, whose scalars still are the text as written: `lang: no` stays `no`."""
    try:
        _inspect(block)
        loader = _Loader(block)
        try:
            node: yaml.Node | None = loader.get_single_node()
        finally:
            loader.dispose()
        return node
    except yaml.MarkedYAMLError as error:
        line = f" (line {error.problem_mark.line + 2})" if error.problem_mark else ""
        raise _Refused(f"{error.problem or error.context}{line}") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: characters YAML has no place for
        raise _Refused(str(error).splitlines()[0]) from error


def _inspect(block: str) -> None:
    """Refuse what can blow up: references (a few lines can stand for gigabytes), deep nesting."""
    depth = 0
    for event in yaml.parse(block, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _Refused("anchors and aliases are not allowed")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEPTH:
            raise _Refused("it is nested too deeply")


def _plain(node: yaml.Node) -> Any:
    """A node as JSON has it: what JSON cannot say (dates, NaN, huge numbers) stays text."""
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
    except ValueError:  # 12:30 counts in sixties, 010 in eights: better left as written
        pass
    return text


def _key(node: yaml.Node) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else str(_plain(node))


# --- nodes into attributes ------------------------------------------------------------------------


class _Reading:
    """One front matter being read: the known keys as nodes, the others as metadata. `unread` are
    the lines of the block at which a key stands that is not known, or whose value is ignored."""

    def __init__(self, pairs: list[tuple[yaml.Node, yaml.Node]], now: datetime) -> None:
        self.warnings: list[str] = []
        self.unread: set[int] = set()
        self._now = now
        self._line_of_key = {id(node): key.start_mark.line for key, node in pairs}
        self._said: dict[str, yaml.Node] = {}
        self._metadata: dict[str, Any] = {}
        for written, key, node in self._unique(pairs):
            if key in _KNOWN:
                self._said[key] = node
            else:
                self._metadata[written] = _plain(node)
                self._unread(node)

    def attributes(self) -> Attributes:
        date, created, updated = (self._date(key) for key in ("date", "created", "updated"))
        born = created or date
        return Attributes(
            title=self._text("title"),
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
        """(key as written, key as known, value), the last of those with the same key."""
        found: dict[str, tuple[str, yaml.Node]] = {}
        for key_node, node in pairs:
            written = _key(key_node)
            lower = written.strip().lower().replace("-", "_")
            known = _ALIASES.get(lower, lower)
            key = known if known in _KNOWN else written
            if key in found:
                self.warnings.append(f"front matter has {written!r} twice, the last one counts")
                self._unread(found[key][1])
            found[key] = (written, node)
        yield from ((written, key, node) for key, (written, node) in found.items())

    def _text(self, key: str) -> str | None:
        node = self._said.get(key)
        if node is None or node.tag.endswith(":null"):
            return None
        if not isinstance(node, yaml.ScalarNode):
            self._odd(key, "it must be a text")
            return None
        return " ".join(str(node.value).split()) or None

    def _tags(self) -> tuple[str, ...]:
        node = self._said.get("tags")
        if not isinstance(node, yaml.SequenceNode):
            text = self._text("tags") or ""
            words = text.split(",") if "," in text else text.split()
        else:
            scalars = [item for item in node.value if isinstance(item, yaml.ScalarNode)]
            words = [str(item.value) for item in scalars if not item.tag.endswith(":null")]
            if len(words) < len(node.value):
                self._odd("tags", "each must be a text")
        tags = (" ".join(word.split()).lstrip("#").strip() for word in words)
        fitting, warnings = bound_tags(dict.fromkeys(tag for tag in tags if tag))
        self._beyond("tags", warnings)
        return fitting

    def _lang(self) -> str | None:
        lang, warnings = bound_lang(self._text("lang"))
        self._beyond("lang", warnings)
        return lang

    def _choice(self, key: str, valid: tuple[str, ...]) -> str | None:
        text = self._text(key)
        if text is None or text.lower() in valid:
            return text and text.lower()
        self._odd(key, f"{text!r} is none of {', '.join(valid)}")
        return None

    def _date(self, key: str) -> str | None:
        text = self._text(key)
        parsed = dates.parse(text) if text else None
        if text and parsed is None:
            self._odd(key, f"{text!r} is not a date such as 2026-01-31")
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
            self._odd("ttl", str(error))
            return None

    def _unread(self, node: yaml.Node) -> None:
        self.unread.add(self._line_of_key[id(node)])

    def _beyond(self, key: str, warnings: tuple[str, ...]) -> None:
        if warnings:
            self._unread(self._said[key])
        self.warnings.extend(f"front matter: {warning}" for warning in warnings)

    def _odd(self, key: str, why: str) -> None:
        self._unread(self._said[key])
        self.warnings.append(f"front matter: {key} is ignored: {why}")


def merged(first: Attributes, second: Attributes) -> Attributes:
    """What `first` says, and where it says nothing, what `second` says; tags of both."""
    values: dict[str, Any] = {
        name: getattr(first, name) or getattr(second, name) for name in Attributes.__slots__
    }
    values["tags"] = tuple(dict.fromkeys((*first.tags, *second.tags)))
    metadata: Mapping[str, Any] = {**second.metadata, **first.metadata}
    return Attributes(**(values | {"metadata": metadata}))
