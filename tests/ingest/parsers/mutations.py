"""Mutated files, and the checks that every one of them must pass."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress

from kb.ingest.chunk import chunk
from kb.ingest.decode import Unreadable, Unsupported, decode
from kb.ports import Parsed, Parser, Source
from tests.ingest.documents import check_blocks, check_chunks

COUNT = 200
MAX_CHARS = 1800


def mutations(data: bytes, count: int = COUNT) -> Iterator[bytes]:
    """`data` with bytes changed, lost, doubled and truncated; the same mutations in every run."""
    chance = random.Random(len(data))
    for _ in range(count):
        broken = bytearray(data)
        for _ in range(chance.randint(1, 8)):
            at = chance.randrange(len(broken) or 1)
            width = chance.randint(1, 40)
            match chance.randrange(5):
                case 0:
                    broken[at : at + 1] = bytes([chance.randrange(256)])
                case 1:
                    del broken[at : at + width]
                case 2:
                    broken[at:at] = broken[at : at + width]
                case 3:
                    broken[at:at] = chance.choice(
                        (b"\0", b"\xff", b"\r", b"<", b'"', b"\n\n", b"{")
                    )
                case _:
                    del broken[max(at, len(broken) // 2) :]
        yield bytes(broken)


def check_parsed(parsed: Parsed, data: bytes, first: int = 0) -> str:
    """The text of a document, whose blocks and chunks must be its lines."""
    text = decode(data) if parsed.text is None else parsed.text
    blocks = list(parsed.blocks)
    check_blocks(text, blocks, first)
    if first == 0:
        check_chunks(text, chunk(blocks, MAX_CHARS), MAX_CHARS)
    assert "\r" not in text
    return text


def check_survives(parser: Parser, name: str, data: bytes) -> None:
    """Check that a damaged file is read, or refused with a reason."""
    for broken in mutations(data):
        with suppress(Unreadable, Unsupported):
            parsed = parser.parse(Source(name, broken))
            if parsed.text is not None or not broken.startswith(b"---"):
                check_parsed(parsed, broken)
