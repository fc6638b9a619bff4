"""Links and tags in Markdown: `[[note]]`, `[text](note.md)`, `![[picture]]` and `#tag`. Pure.

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
_CODE = re.compile(r"(`+)[^`\n](?:[^`\n]|`(?!\1))*?\1|^(?: {4}|\t)[^\n]*$", re.MULTILINE)
_COMMENT = re.compile(r"%%.*?%%|<!--.*?-->", re.DOTALL)
_WIKI = re.compile(
    r"\[\[([^\[\]|#^\\\n]{1,300})(?:[#^][^\[\]|\n]{0,300})?(?:\\?\|[^\[\]\n]{0,300})?\]\]"
)
_INLINE = re.compile(
    r"\]\([ \t]{0,9}(?:<([^<>\n]{1,500})>|([^()\s<>]{1,500}))"
    r"(?:[ \t]{1,9}[\"'(][^\n)]{0,200})?[ \t]{0,9}\)"
)
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,20}:|//")
_TAG = re.compile(r"(?<![^\s(])#([\w/-]{1,100})(?![\w/#-])")
_COLOR = re.compile(r"(?:[0-9a-fA-F]{3}){1,2}|[0-9a-fA-F]{8}")
_SUFFIX = re.compile(r"\.(?:md|markdown)$")
MAX_LINKS = 1_000  # of one document
MAX_INLINE_TAGS = 100


def links_in(text: str) -> tuple[str, ...]:
    """The keys of the links in Markdown to other files, in order and without repetitions."""
    if "](" not in text and "[[" not in text:
        return ()
    text = _without_code(text)
    found = [(match.start(), match[1]) for match in _WIKI.finditer(text)]
    for match in _INLINE.finditer(text):
        target = unquote((match[1] or match[2]).partition("#")[0].partition("?")[0])
        if target and not _ADDRESS.match(target):
            found.append((match.start(), target))
    keys = (link_key(target) for _, target in sorted(found))
    return tuple(dict.fromkeys(key for key in keys if key))[:MAX_LINKS]


def inline_tags(text: str) -> tuple[str, ...]:
    """The tags in the text of Markdown, without `#`. Numbers and colors are no tags."""
    if "#" not in text:
        return ()
    names = (match[1].strip("/") for match in _TAG.finditer(_without_code(text)))
    tags = (
        name
        for name in names
        if any(char.isalpha() for char in name) and not _COLOR.fullmatch(name)
    )
    return tuple(dict.fromkeys(tags))[:MAX_INLINE_TAGS]


def link_key(target: str) -> str:
    """The key of a link: `../Sea/Anchors.md` becomes `sea/anchors`."""
    path = posixpath.normpath(nfc(target).strip().replace("\\", "/")).casefold()
    while path.startswith(("../", "./", "/")):
        path = path.partition("/")[2]
    return "" if path in (".", "..") else _SUFFIX.sub("", path)


def keys_of(path: str) -> tuple[str, ...]:
    """The keys of the links that lead to the document at `path`: every end of it."""
    names = link_key(path.partition("#")[0]).split("/")
    return tuple("/".join(names[start:]) for start in range(len(names)) if names[start:] != [""])


def _without_code(text: str) -> str:
    if "`" in text or "~~~" in text or "    " in text or "\t" in text:
        text = _CODE.sub(" ", _FENCE.sub(" ", text))
    return _COMMENT.sub(" ", text) if "%%" in text or "<!--" in text else text
