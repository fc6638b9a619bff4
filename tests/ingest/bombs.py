"""Small generated files that make a parser use all memory or run for hours."""

from __future__ import annotations

import bz2
import struct
from collections.abc import Callable
from functools import cache


@cache
def _packed_spaces() -> bytes:
    """400 MB of spaces in a few hundred bytes."""
    packer = bz2.BZ2Compressor(9)
    spaces = b" " * (16 << 20)
    packed = b"".join(packer.compress(spaces) for _ in range(24))
    return packed + packer.flush()


def _zip(parts: dict[str, tuple[bytes, int]]) -> bytes:
    """An archive of bzip2 parts that declare a wrong size."""
    body, index = b"", b""
    for name, (packed, claimed) in parts.items():
        sizes = struct.pack("<III", 0, len(packed), claimed)
        index += struct.pack("<4s6H", b"PK\1\2", 46, 46, 0, 12, 0, 0) + sizes
        index += struct.pack("<5H2I", len(name), 0, 0, 0, 0, 0, len(body)) + name.encode()
        body += struct.pack("<4s5H", b"PK\3\4", 46, 0, 12, 0, 0) + sizes
        body += struct.pack("<2H", len(name), 0) + name.encode() + packed
    count = len(parts)
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, len(index), len(body), 0)
    return body + index + end


def docx() -> bytes:
    """A part that declares to be short, but is not."""
    return _zip({"word/document.xml": (_packed_spaces(), 1000)})


def epub() -> bytes:
    return _zip({"META-INF/container.xml": (_packed_spaces(), 1000)})


def pdf(levels: int = 10, each: int = 10) -> bytes:
    """Forms that each draw the next one ten times."""
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R"
        b"/Resources<</XObject<</F 6 0 R>>>>>>",
        b"<</Length 5>>stream\n/F Do\nendstream",
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for level in range(levels):
        last = level == levels - 1
        drawn = b"BT /T 9 Tf (hello world) Tj ET" if last else b"/F Do " * each
        uses = b"<</Font<</T 5 0 R>>>>" if last else b"<</XObject<</F %d 0 R>>>>" % (7 + level)
        objects.append(
            b"<</Type/XObject/Subtype/Form/BBox[0 0 600 800]/Resources%b/Length %d>>"
            b"stream\n%b\nendstream" % (uses, len(drawn), drawn)
        )
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    end = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n"
    return out + head + table + end % (len(objects) + 1, len(out))


def encoded_words() -> bytes:
    """A subject of many encoded words."""
    return b"Subject: " + b"=?utf-8?q?a?= " * 40_000 + b"\nFrom: a@b.c\n\nbody\n"


def parameters() -> bytes:
    return b"Content-Type: text/plain; " + b"a=b;" * 60_000 + b"\nFrom: a@b.c\n\nbody\n"


def recipients() -> bytes:
    return b"To: " + b"a," * 60_000 + b"\nFrom: a@b.c\n\nbody\n"


def attributes() -> bytes:
    """A tag with more attributes than a parser compares in time."""
    return b"<p " + b" ".join(b"a%d=1" % number for number in range(80_000)) + b">text</p>"


def unclosed_tags() -> bytes:
    return b"<td" * 60_000


def comments() -> bytes:
    """Not Python at all: its grammar runs out of stack."""
    return b"/*\n" * 33_000


def continuations() -> bytes:
    """A statement of many lines, for which the grammar takes quadratic time."""
    return b"\\\n" * 50_000


BOMBS: dict[str, Callable[[], bytes]] = {
    "size.docx": docx,
    "size.epub": epub,
    "forms.pdf": pdf,
    "words.eml": encoded_words,
    "parameters.eml": parameters,
    "recipients.eml": recipients,
    "attributes.html": attributes,
    "tags.html": unclosed_tags,
    "comments.py": comments,
    "continuations.py": continuations,
}
