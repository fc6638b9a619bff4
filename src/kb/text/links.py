"""Addresses that open a file where a citation points: `file:`, or those of editors. Pure.

An editor's address is used for files with lines, and Obsidian's for the files of a vault. All other
files have a `file:` address, with the page of a PDF or the anchor of a web page.
"""

from __future__ import annotations

import os
import sys

from kb.errors import is_unicode
from kb.types import LINE_TYPES, Citation, FileLocation
from kb.values import replace

NONE, FILE, OBSIDIAN = "none", "file", "obsidian"  # of `kb.types.LINK_FORMS`; the others:
_EDITORS = {
    "vscode": "vscode://file{path}:{line}",
    "vscode-insiders": "vscode-insiders://file{path}:{line}",
    "vscodium": "vscodium://file{path}:{line}",
    "cursor": "cursor://file{path}:{line}",
    "windsurf": "windsurf://file{path}:{line}",
    "zed": "zed://file{path}:{line}",
    "idea": "idea://open?file={path}&line={line}",
    "textmate": "txmt://open?url=file://{path}&line={line}",
}
_VAULT_SUFFIXES = (".md", ".canvas", ".pdf")  # what Obsidian opens
_SAFE = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/"


def locate(
    citation: Citation, kind: str, location: FileLocation | None, form: str = FILE
) -> Citation:
    """The citation with its file, its line there, and a link. `kind` is the document's type."""
    file = None if location is None else file_path(location)
    if file is None:
        return citation
    line = citation.span.start if kind in LINE_TYPES else None
    anchor = citation.place if kind == "html" else None
    address = link(file, line, citation.page, form, anchor)
    return replace(citation, file=file, line=line, link=address)


def file_path(location: FileLocation) -> str | None:
    """The absolute path of a file; None if it must not be read, or if its name is not valid
    UTF-8."""
    names = location.inside.replace(os.sep, "/").split("/")
    if location.detached or any(name in ("", ".", "..") for name in names):
        return None
    path = os.path.join(location.root, location.inside)
    return path if is_unicode(path) and "\0" not in path else None


def link(
    file: str, line: int | None, page: int | None, form: str = FILE, anchor: str | None = None
) -> str | None:
    """The address that opens `file`, at a line, a page or an anchor (`#install`); None if `form` is
    `none`."""
    if form == NONE:
        return None
    path = _quote(file)
    if form in _EDITORS and line is not None:
        return _EDITORS[form].format(path=path, line=line)
    if form == OBSIDIAN and file.lower().endswith(_VAULT_SUFFIXES):
        return f"obsidian://open?path={path}"
    if anchor is not None and anchor.startswith("#"):
        return f"file://{path}#{_quote_part(anchor[1:])}"
    return f"file://{path}" + (f"#page={page}" if page is not None else "")


def _quote(file: str) -> str:
    """Percent-encode an absolute path for a URL. On Windows, it gets a leading slash."""
    if sys.platform == "win32":
        file = "/" + file.replace("\\", "/")
    return _quote_part(file)


def _quote_part(text: str) -> str:
    data = text.encode("utf-8", "replace")
    if not data.translate(None, _SAFE):
        return text
    return "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in data)
