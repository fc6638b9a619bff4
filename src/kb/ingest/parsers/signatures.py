"""What a file's first bytes say about its format, whatever its name is."""

from __future__ import annotations

import re

_HTML = re.compile(
    rb"(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?\s*+(?:<\?xml[^>]*>\s*+)?+(?:(?><!--.*?-->)\s*+)*+"
    rb"<(?:!doctype\s+html|html)[\s>]",
    re.IGNORECASE | re.DOTALL,
)
_HEAD_BYTES = 8192  # so that a whole file gives the same answer as its beginning

# Which built-in parsers may be asked about a file with such a signature. Nobody reads it as text.
READERS = {"pdf": ("pdf",), "docx": ("docx",), "epub": ("epub",), "zip": ("docx", "epub")}


def signature(head: bytes) -> str | None:
    """`pdf`, `docx`, `epub`, `zip` or `html`; None where the bytes say nothing and the name counts.

    A `zip` may still be an office file or a book whose parts stand further back.
    """
    head = head[:_HEAD_BYTES]
    if head.startswith(b"%PDF-"):
        return "pdf"
    if head.startswith(b"PK\x03\x04"):
        if head[30:38] == b"mimetype" and b"application/epub+zip" in head[38:128]:
            return "epub"
        return "docx" if b"word/document" in head else "zip"
    # UTF-16 is ASCII with a zero beside every letter.
    return "html" if _HTML.match(head[:2048].replace(b"\0", b"")) else None
