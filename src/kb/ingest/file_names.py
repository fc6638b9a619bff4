"""File names: their portable spelling, and the title, date and suffix in them. Pure."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Sequence
from datetime import date
from functools import lru_cache
from itertools import zip_longest

# Folders of version control, dependencies and caches, kb's own store and unfinished uploads. They
# are never read.
TOOL_FOLDERS = frozenset(
    {".git", ".hg", ".svn", ".kb", ".kb-uploads", "node_modules", "__pycache__"}
)
MAIL_FOLDERS = ("cur", "new")  # those with messages, in a folder of a Maildir
VENV_MARK = "pyvenv.cfg"
# Zotero keeps its own programs and styles beside its library.
ZOTERO_LIBRARY = "zotero.sqlite"
ZOTERO_FOLDERS = frozenset({"locate", "pipes", "styles", "translators"})

_DAY = re.compile(r"(\d{4}-\d{2}-\d{2})(?!\d)")
_NOTION_ID = re.compile(r" [0-9a-f]{32}(?:_all)?$")
# The same in a path, where `_all` and suffixes follow, and the folder of an export of Notion.
_NOTION_ID_IN_STEP = re.compile(r" [0-9a-f]{32}(?=(?:_all)?(?:\.\w{1,10})?$)")
_NOTION_EXPORT = re.compile(
    r"Export(?:Block)?-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:-Part-\d{1,4})?(?:\.zip)?"
)
_SEPARATORS = re.compile(r"[-_\s]+")


def hidden_name(names: Sequence[str]) -> bool:
    """Whether a path has a hidden name. Names that begin with a dot are hidden, except those of
    mail folders, which are followed by `cur` or `new`."""
    return any(
        name.startswith(".") and after not in MAIL_FOLDERS
        for name, after in zip_longest(names, names[1:], fillvalue="")
    )


def portable(names: Sequence[str]) -> list[str]:
    """Spell the names of one folder so that every system, and JSON, can represent them.

    The result is NFC, with bytes that are not UTF-8 as `\\xNN`. Different names stay different.
    """
    if all(name.isascii() and "\\" not in name for name in names):
        return list(names)
    present, taken, texts = set(names), set[str](), []
    for name in names:
        text = _readable(name)
        # Two forms of one text (`é` as one or two characters): the non-NFC form shows its bytes.
        if text in taken or (text != name and text in present):
            text = _escape(name)
        taken.add(text)
        texts.append(text)
    return texts


def portable_path(path: str) -> str:
    """Spell every name of `path` portably, with `/` between them."""
    return "/".join(portable([name])[0] for name in path.replace(os.sep, "/").split("/"))


def _readable(name: str) -> str:
    text = _disk_bytes(name).decode("utf-8", "backslashreplace")
    return unicodedata.normalize("NFC", text)


def _escape(name: str) -> str:
    return _disk_bytes(name).decode("ascii", "backslashreplace")


def _disk_bytes(name: str) -> bytes:
    """The bytes of a name, with a literal `\\x` escaped to distinguish it from the escapes."""
    return os.fsencode(name.replace("\\x", "\\x5cx"))


_SOURCES = frozenset({".rst", ".md", ".adoc", ".org"})


@lru_cache(maxsize=1024)  # called about ten times for each file
def suffix_of(name: str) -> str:
    """The suffix in lower case: `.md` for `Notes.MD`, none for `README` and `.profile`.

    It is `.rst` for `index.rst.txt`, as documentation sites serve their sources.
    """
    stem, suffix = os.path.splitext(name)
    if suffix.lower() == ".txt" and (inner := os.path.splitext(stem)[1].lower()) in _SOURCES:
        return inner
    return suffix.lower()


def day_of(name: str) -> str | None:
    """The date at the start of a name, if it is valid: `2026-03-01 call.md`."""
    match = _DAY.match(name)
    if match is None:
        return None
    try:
        date.fromisoformat(match[1])
    except ValueError:
        return None
    return match[1]


def without_notion_ids(path: str) -> str:
    """The path of a file in an export of Notion, such as `Boats/Anchors.md`, without the ids that
    Notion adds."""
    steps = [
        _NOTION_ID_IN_STEP.sub("", step)
        for step in path.split("/")
        if not _NOTION_EXPORT.fullmatch(step)
    ]
    return "/".join(steps) or path


def title_of(name: str) -> str:
    """Derive a title from a file name: `2026-03-01-first_call.md` -> `2026-03-01 first call`.

    The id that Notion adds to every name is left out.
    """
    stem = os.path.splitext(name)[0]
    if os.path.splitext(stem)[1].lower() in _SOURCES:
        stem = os.path.splitext(stem)[0]
    stem = _NOTION_ID.sub("", stem)
    day = day_of(stem) or ""
    words = _SEPARATORS.sub(" ", stem[len(day) :]).strip()
    return f"{day} {words}".strip() or name
