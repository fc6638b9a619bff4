"""A page of a PDF as an image, with the positions of a passage. Runs in a separate process, because
PDFs come from anywhere: a crash or an endless loop there harms nothing else.

The process reads a line of JSON and the PDF from stdin, and writes JSON to stdout.
"""

from __future__ import annotations

import base64
import json
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import IO, Any

from kb import deadline
from kb.errors import InvalidRequest, NotFound
from kb.ingest.parser_limits import exit_with_parent
from kb.ingest.parser_process import minimal_environment
from kb.types import JsonDict

TIMEOUT_S = 20.0
_POLL_S = 0.05  # between two checks of the deadline
_MEMORY_BYTES = 2 << 30
_MAX_PIXELS = 6_000_000
_MAX_SIDE = 10_000  # pixels
# A passage is searched in pieces of this many words, because line breaks differ from those of the
# text.
_PIECE_WORDS = 7
_MAX_PIECES = 80
_SAME_LINE, _WORD_GAP = 0.006, 0.015  # as fractions of the page


def page_image(data: bytes, page: int, passage: str = "", width: int = 1000) -> JsonDict:
    """The image of a page (from 1) as base64 PNG, its size, the number of pages, and the boxes of
    `passage` as fractions of the page: left, top, width, height. Raises `NotFound` for a page that
    does not exist, `InvalidRequest` for a file that cannot be shown, and the error of the current
    deadline, which also stops the process."""
    header = json.dumps({"page": page, "passage": passage, "width": width}).encode() + b"\n"
    try:
        shape = json.loads(_run(header + data))
    except (subprocess.SubprocessError, OSError, ValueError):
        shape = {}
    if "pages" in shape and "image" not in shape:
        raise NotFound(f"there is no page {page}", f"it has {shape['pages']} pages")
    if "image" not in shape:
        raise InvalidRequest("the page cannot be shown", "open the original")
    return dict(shape)


def _run(data: bytes) -> bytes:
    """Start the process with `data` as its input, and return its output. Raises the error of the
    current deadline, and `TimeoutExpired` after `TIMEOUT_S`."""
    command = [sys.executable, "-I", "-m", "kb.ingest.page_image"]
    end = time.monotonic() + TIMEOUT_S
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=minimal_environment(),
    ) as process:
        # A second call of `communicate` would not send what the first one has left of its input.
        stdin, process.stdin = process.stdin, None
        assert stdin is not None
        feeder = threading.Thread(target=_feed, args=(stdin, data), daemon=True)
        feeder.start()
        try:
            while True:
                try:
                    output, _ = process.communicate(timeout=_POLL_S)
                    return output if process.returncode == 0 else b""
                except subprocess.TimeoutExpired:
                    deadline.check()
                    if time.monotonic() > end:
                        raise
        finally:
            process.kill()
            feeder.join()


def _feed(stdin: IO[bytes], data: bytes) -> None:
    """Write the input of the process, and close it."""
    with suppress(OSError), stdin:  # the process may end without reading everything
        stdin.write(data)


# --- in the process -------------------------------------------------------------------------------


def main() -> None:
    _limit()
    request = json.loads(sys.stdin.buffer.readline())
    json.dump(_render(sys.stdin.buffer.read(), **request), sys.stdout)


def _limit() -> None:
    if sys.platform == "win32":
        return
    import resource

    seconds = int(TIMEOUT_S)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    exit_with_parent(sys.stdout.fileno())


def _render(data: bytes, page: int, passage: str, width: int) -> JsonDict:
    import pypdfium2

    document = pypdfium2.PdfDocument(data)
    if not 1 <= page <= len(document):
        return {"pages": len(document)}
    sheet = document[page - 1]
    wide, high = sheet.get_size()
    scale = min(
        width / max(wide, 1.0),
        (_MAX_PIXELS / max(wide * high, 1.0)) ** 0.5,
        _MAX_SIDE / max(wide, high, 1.0),
    )
    if min(wide, high) * scale < 1.0:
        return {}
    bitmap = sheet.render(scale=scale, rev_byteorder=True)
    return {
        "image": base64.b64encode(_png(bitmap)).decode(),
        "width": bitmap.width,
        "height": bitmap.height,
        "pages": len(document),
        "boxes": _merge(_boxes(sheet.get_textpage(), passage, wide, high)),
    }


def _png(bitmap: Any) -> bytes:
    """The bitmap as PNG."""
    channels, stride = bitmap.n_channels, bitmap.stride
    raw = bytes(bitmap.buffer)
    used = bitmap.width * channels
    rows = b"".join(b"\0" + raw[at : at + used] for at in range(0, stride * bitmap.height, stride))
    color = {1: 0, 3: 2, 4: 6}[channels]
    header = struct.pack(">IIBBBBB", bitmap.width, bitmap.height, 8, color, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )


def _boxes(text: Any, passage: str, wide: float, high: float) -> Iterator[Sequence[float]]:
    """The positions of the passage's words, piece by piece, in the order of the page."""
    words = passage.split()
    at = 0
    for start in range(0, min(len(words), _PIECE_WORDS * _MAX_PIECES), _PIECE_WORDS):
        piece = " ".join(words[start : start + _PIECE_WORDS])
        found = text.search(piece, index=at).get_next() or text.search(piece).get_next()
        if found is None:
            continue
        index, count = found
        at = index + count
        for number in range(text.count_rects(index, count)):
            left, bottom, right, top = text.get_rect(number)
            box = (left / wide, (high - top) / high, (right - left) / wide, (top - bottom) / high)
            yield box


def _merge(boxes: Iterable[Sequence[float]]) -> list[Sequence[float]]:
    """Merge boxes that continue each other on a line."""
    merged: list[Sequence[float]] = []
    for left, top, wide, high in boxes:
        if merged:
            before_left, before_top, before_wide, before_high = merged[-1]
            gap = left - before_left - before_wide
            if abs(top - before_top) < _SAME_LINE and -_WORD_GAP < gap < _WORD_GAP:
                upper = min(top, before_top)
                lower = max(top + high, before_top + before_high)
                merged[-1] = [before_left, upper, left + wide - before_left, lower - upper]
                continue
        merged.append([left, top, wide, high])
    return [[round(value, 5) for value in box] for box in merged]


if __name__ == "__main__":
    main()
