"""Front matter: a note's attributes, in YAML between `---` lines at its top.

Pure. Never fails: a block that cannot be parsed becomes text, with a warning. The lines from the
first unknown or invalid key on become text as well, so that they can be searched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kb.types import Attributes, Block, Span

LIMIT_CHARS = 64 * 1024
_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)
_KEY = re.compile(r"\w[\w -]*:(?:\s|$)")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The attributes, the number of lines that the front matter takes, and warnings about it.

    `text` holds its lines from the first unknown or invalid key on.
    """

    attributes: Attributes = field(default_factory=Attributes)
    lines: int = 0
    warnings: tuple[str, ...] = ()
    text: str = ""

    def blocks(self) -> list[Block]:
        """`text` as a block, which the chunker joins with the block below it."""
        if not self.text:
            return []
        first = self.lines - self.text.count("\n")
        return [Block(self.text, Span("line", first, self.lines), boundary=True)]


def read(text: str, now: datetime) -> FrontMatter:
    """Read the front matter of `text`. A `ttl` counts from the `date` in it, or from `now` if there
    is none."""
    first, newline, rest = text.partition("\n")
    if first.rstrip() != "---" or not newline:
        return FrontMatter()
    closing = _CLOSING.search(rest)
    if closing is None or closing.start() > LIMIT_CHARS:
        if not _KEY.match(rest):  # the first line is a horizontal rule
            return FrontMatter()
        problem = (
            "has no closing ---"
            if closing is None
            else f"has {closing.start():,} characters; the limit is {LIMIT_CHARS:,}"
        )
        return FrontMatter(warnings=(f"front matter {problem}, so it is read as text",))
    block = rest[: closing.start()]
    from kb.ingest.yaml_attributes import InvalidYaml, read_attributes

    try:
        found = read_attributes(block, now)
    except InvalidYaml as refusal:
        return FrontMatter(warnings=(f"front matter is read as text: {refusal}",))
    if found is None:
        return FrontMatter()  # a paragraph between two horizontal rules
    attributes, warnings, text_lines = found
    text = ""
    if text_lines:
        written = f"{block}{closing[0]}".split("\n")
        text = "\n".join(written[min(text_lines) :])
    return FrontMatter(attributes, block.count("\n") + 2, warnings, text)


def strip(text: str, now: datetime) -> str:
    """Return `text` without its front matter."""
    return "\n".join(text.split("\n")[read(text, now).lines :])


def merge(first: Attributes, second: Attributes) -> Attributes:
    """Combine two sets of attributes: values of `first` take precedence, tags are merged."""
    values: dict[str, Any] = {
        name: getattr(first, name) or getattr(second, name) for name in Attributes.__slots__
    }
    values["tags"] = tuple(dict.fromkeys((*first.tags, *second.tags)))
    metadata: Mapping[str, Any] = {**second.metadata, **first.metadata}
    return Attributes(**(values | {"metadata": metadata}))
