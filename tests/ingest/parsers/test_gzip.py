"""Compressed texts: read like the file inside, within bounds."""

from __future__ import annotations

import gzip

import pytest

from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parse import Parsers
from kb.ingest.parsers import gzip as gzip_parser
from kb.ingest.parsers.gzip import GzipParser
from kb.ports import Parsed, Source
from tests.ingest.parsers import test_man
from tests.ingest.parsers.mutations import check_survives

PAGE = gzip.compress(test_man.MAN)


def parse(data: bytes, name: str) -> Parsed:
    return GzipParser(1800).parse(Source(name, data))


def test_a_manual_page() -> None:
    parsed = parse(PAGE, "tide.1.gz")
    assert (parsed.type, parsed.title) == ("man", "TIDE(1)")
    assert "tide - predict the height of water" in (parsed.text or "")


def test_a_plain_text_has_its_text() -> None:
    parsed = parse(gzip.compress("tide (2.1)\n\n  * déjà vu\n".encode()), "changelog.gz")
    assert (parsed.type, parsed.text) == ("archive", "tide (2.1)\n\n  * déjà vu\n")


def test_which_files() -> None:
    parsers = Parsers(1800, plug_ins=())
    zeros = gzip.compress(b"\0" * 100)
    files = {
        "tide.1.gz": PAGE, "README.gz": gzip.compress(b"words"),
        "dump.csv.gz": gzip.compress(b"a,b"),
        "disk.tar.gz": zeros, "twice.txt.gz.gz": gzip.compress(gzip.compress(b"words")),
        "libx.so.1.gz": gzip.compress(b"no macros"), "damaged.txt.gz": PAGE[:3] + b"nonsense",
    }  # fmt: skip
    found = {name: parsers.detect(Source(name, data)) for name, data in files.items()}
    assert [name for name, parser in found.items() if parser] == ["tide.1.gz", "README.gz"]


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = gzip.compress(b"words " * 100_000)
    monkeypatch.setattr(gzip_parser, "PART_BYTES", 100_000)
    with pytest.raises(Unreadable, match="too large when unpacked"):
        parse(bomb, "a.txt.gz")


def test_secrets_are_not_read() -> None:
    with pytest.raises(Unsupported):
        parse(gzip.compress(b"-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n"), "id_rsa.gz")


def test_damaged_files() -> None:
    check_survives(GzipParser(1800), "a.1.gz", PAGE)
