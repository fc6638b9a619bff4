"""Links and tags in Markdown: `[[note]]`, `[text](note.md)`, `[text]: note.md`, `![[picture]]` and
`#tag`. Pure.

A link is kept as a key: the path that it names, in lower case and without the suffix of Markdown.
It leads to every document whose path ends with it, as in Obsidian, so that links survive the move
of a folder.
"""

from __future__ import annotations

import posixpath
import re
from urllib.parse import unquote

from kb.text.normalize import nfc

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.M | re.DOTALL)
_INDENTED = re.compile(r"^(?: {4}|\t)[^\n]*$", re.MULTILINE)
_BACKTICKS = re.compile(r"`+")
_COMMENTS = (("%%", "%%"), ("<!--", "-->"))
_WIKI = re.compile(
    r"\[\[([^\[\]|#^\\\n]{1,300})(?:[#^][^\[\]|\n]{0,300})?(?:\\?\|[^\[\]\n]{0,300})?\]\]"
)
_INLINE = re.compile(
    r"\]\([ \t]{0,9}(?:<([^<>\n]{1,500})>|([^()\s<>]{1,500}))"
    r"(?:[ \t]{1,9}[\"'(][^\n)]{0,200})?[ \t]{0,9}\)"
)
# The definition of a reference link; `[^1]:` is a footnote.
_DEFINITION = re.compile(
    r"^ {0,3}\[[^\[\]\n^][^\[\]\n]{0,300}\]:[ \t]{0,9}\n?[ \t]{0,9}"
    r"(?:<([^<>\n]{1,500})>|([^\s<>]{1,500}))(?:[ \t]{1,9}[\"'(][^\n]{0,300})?[ \t]{0,9}$",
    re.MULTILINE,
)
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,20}:|//")
_TAG = re.compile(r"(?<![^\s(])(?<!\]\()(?<!\]: )#([\w/-]{1,100})(?![\w/#-])")
_COLOR = re.compile(r"(?:[0-9a-fA-F]{3}){1,2}|[0-9a-fA-F]{8}")
_SUFFIX = re.compile(r"\.(?:md|markdown)$")
MAX_LINKS = 1_000  # recorded per document


def links_in(text: str) -> tuple[str, ...]:
    """The keys of the links in Markdown to other files, in order and without repetitions."""
    if "](" not in text and "[[" not in text and "]:" not in text:
        return ()
    text = _without_code(text)
    found = [(match.start(), match[1]) for match in _WIKI.finditer(text)]
    for match in (*_INLINE.finditer(text), *_DEFINITION.finditer(text)):
        target = unquote((match[1] or match[2]).partition("#")[0].partition("?")[0])
        if target and not _ADDRESS.match(target):
            found.append((match.start(), target))
    keys = (link_key(target) for _, target in sorted(found))
    return tuple(dict.fromkeys(key for key in keys if key))


def inline_tags(text: str) -> tuple[str, ...]:
    """The tags in the text of Markdown, without `#`. Numbers and colors are not tags."""
    if "#" not in text:
        return ()
    names = (match[1].strip("/") for match in _TAG.finditer(_without_code(text)))
    tags = (
        name
        for name in names
        if any(char.isalpha() for char in name) and not _COLOR.fullmatch(name)
    )
    return tuple(dict.fromkeys(tags))


def link_key(target: str) -> str:
    """The key of a link: `../Sea/Anchors.md` becomes `sea/anchors`."""
    path = posixpath.normpath(nfc(target).strip().replace("\\", "/")).casefold()
    while path.startswith(("../", "./", "/")):
        path = path.partition("/")[2]
    return "" if path in (".", "..") else _SUFFIX.sub("", path)


def keys_of(path: str) -> tuple[str, ...]:
    """The keys of the links that lead to the document at `path`: one for each end of the path."""
    names = link_key(path.partition("#")[0]).split("/")
    return tuple("/".join(names[start:]) for start in range(len(names)) if names[start:] != [""])


def longer_keys_end(path: str) -> str:
    """The suffix of the keys that have more folders than `path`. `path` may be only the last part
    of a document's path, so `anchors.md` may be the target of a link to `sea/anchors`."""
    return "/" + link_key(path.partition("#")[0])


def _without_code(text: str) -> str:
    """The text without code and comments, in time proportional to its length."""
    if "`" in text or "~~~" in text or "    " in text or "\t" in text:
        text = _INDENTED.sub(" ", _FENCE.sub(" ", text))
    if "`" in text:
        lines = text.split("\n")
        text = "\n".join(_without_spans(line) if "`" in line else line for line in lines)
    return _without_comments(text)


def _without_spans(line: str) -> str:
    """The line without spans of code. A span ends at the next run of as many backticks as began
    it."""
    runs = [match.span() for match in _BACKTICKS.finditer(line)]
    closing: list[int | None] = [None] * len(runs)
    following: dict[int, int] = {}
    for number in reversed(range(len(runs))):
        start, end = runs[number]
        closing[number] = following.get(end - start)
        following[end - start] = number
    kept, at, number = [], 0, 0
    while number < len(runs):
        if (last := closing[number]) is not None:
            kept.append(line[at : runs[number][0]])
            at, number = runs[last][1], last
        number += 1
    return " ".join((*kept, line[at:]))


def _without_comments(text: str) -> str:
    """The text without its comments. A comment that is not closed counts as text. All later
    comments with the same marks are not closed either, so they are not searched for."""
    kept, at = [], 0
    starts = {marks: text.find(marks[0]) for marks in _COMMENTS}
    while (start := min((each for each in starts.values() if each >= 0), default=-1)) >= 0:
        marks = next(each for each in _COMMENTS if starts[each] == start)
        end = text.find(marks[1], start + len(marks[0]))
        if end < 0:
            starts[marks] = -1
            continue
        kept.append(text[at:start])
        at = end + len(marks[1])
        for each in _COMMENTS:
            if 0 <= starts[each] < at:
                starts[each] = text.find(each[0], at)
    return " ".join((*kept, text[at:]))
