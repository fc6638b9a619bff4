"""File signatures: the format that a file's first bytes show, whatever its name is."""

from __future__ import annotations

import re

_HTML = re.compile(
    rb"(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?\s*+(?:<\?xml[^>]*>\s*+)?+(?:(?><!--.*?-->)\s*+)*+"
    rb"<(?:!doctype\s+html|html)[\s>]",
    re.IGNORECASE | re.DOTALL,
)
_HEAD_BYTES = 8192  # so that a whole file gives the same result as its beginning

# Formats that no parser of text may read, whatever the file is called.
BINARY = frozenset({"pdf", "docx", "epub", "zip"})


def signature(head: bytes) -> str | None:
    """Return `pdf`, `docx`, `epub`, `zip` or `html`; None if only the file name shows the format.

    A `zip` may be an office file or a book whose identifying parts come later in the file.
    """
    head = head[:_HEAD_BYTES]
    if head.startswith(b"%PDF-"):
        return "pdf"
    if head.startswith(b"PK\x03\x04"):
        if head[30:38] == b"mimetype" and b"application/epub+zip" in head[38:128]:
            return "epub"
        return "docx" if b"word/document" in head else "zip"
    # ASCII in UTF-16 has a zero byte beside every letter.
    return "html" if _HTML.match(head[:2048].replace(b"\0", b"")) else None
