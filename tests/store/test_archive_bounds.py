"""Malicious exports are refused with a line number, in bounded memory."""

from __future__ import annotations

import gzip
import io
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase
from kb.errors import BrokenImport, KbError
from kb.metadata import LEGACY_METADATA_BYTES
from tests.conftest import Clock
from tests.models.weightless import Weightless, unexamined
from tests.store.library import opened

Lines = list[dict[str, Any]]
MODEL = {"model_id": 1, "name": "a", "version": "1", "dimension": 4, "token_dimension": None,
         "role": "search", "source": None, "marks": None}  # fmt: skip


@pytest.fixture
def lines(tmp_path: Path, clock: Clock) -> Lines:
    """A small export with everything in it."""
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "a.md").write_text("---\ntags: [sea]\n---\n# Radio\n\nA buoy.\n")
    path = tmp_path / "source.sqlite"
    with KnowledgeBase(path, encoder=Weightless(), config=unexamined(), clock=clock) as kb:
        kb.ingest(folder)
        kb.add("a note", tags=["mine"], metadata={"n": [1, {"a": None}]})
        kb.embed()
        stream = io.BytesIO()
        kb.export(stream, vectors=True)
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def imported(lines: Lines, path: Path, clock: Clock, *, merge: bool = False) -> KnowledgeBase:
    kb = opened(path, clock)
    data = "\n".join(json.dumps(line) for line in lines)
    kb.import_(io.BytesIO(data.encode()), merge=merge)
    return kb


def _at(lines: Lines, record: str) -> int:
    return next(at for at, line in enumerate(lines) if line.get("record") == record)


@pytest.mark.parametrize(
    ("record", "field", "value"),
    [
        (None, "changes", 2**63),
        (None, "changes", -1),
        (None, "changes", 10**400),
        (None, "changes", 2**53 - 1),
        (None, "created_at", "\ud800"),
        (None, "created_at", "yesterday"),
        (None, "created_at", "2026-01-31"),
        (None, "counts", {"roots": 2**70, "documents": 1, "chunks": 1}),
        (None, "sequences", {"roots": 1, "documents": 2**63 - 1, "chunks": 1}),
        (None, "sequences", {"roots": 1, "documents": 2**53 - 1, "chunks": 1}),
        (None, "models", [{"model_id": 2**64}]),
        (None, "models", [MODEL | {"dimension": 2**40}]),
        (None, "models", [MODEL | {"token_dimension": 0}]),
        (None, "models", [MODEL | {"token_dimension": -4}]),
        (None, "models", [MODEL | {"token_dimension": 2**40}]),
        (None, "models", [MODEL | {"name": ""}]),
        (None, "models", [MODEL | {"name": "a\0b"}]),
        (None, "models", [MODEL | {"dimension": 0}]),
        (None, "models", [MODEL | {"role": "boss"}]),
        ("root", "root_id", 2**63),
        ("root", "whole", 2**63),
        ("root", "whole", -1),
        ("root", "whole", 2),
        ("document", "doc_id", 2**63 - 1),
        ("document", "doc_id", -5),
        ("document", "doc_id", 10**4000),
        ("document", "size_bytes", 2**64),
        ("document", "size_bytes", -1),
        ("document", "mtime_ns", 1e300),
        ("document", "access_count", 2**62),
        ("document", "type", ""),
        ("document", "type", "a\0b"),
        ("document", "date", ""),
        ("document", "date", "2026-02-31"),
        ("document", "date", "2026-02-03 12:00"),
        ("document", "created_at", "2026-02-03T12:00:00+01:00"),
        ("document", "updated_at", "2026-02-03T25:00:00Z"),
        ("document", "indexed_at", "\u0662026-02-03T12:00:00Z"),
        ("document", "expires_at", ""),
        ("document", "expires_at", "never"),
        ("document", "expires_at", "2026-02-03T12:00:00.5Z"),
        ("document", "os_path", {"base64": ""}),
        ("document", "title", "\udcff"),
        ("document", "metadata", {"a": float("nan")}),
        ("document", "metadata", {"a": float("inf")}),
        ("document", "metadata", {"a": "\ud800"}),
        ("document", "tags", {"a": "nobody"}),
        ("document", "tags", {"": "user"}),
        ("document", "tags", {"\ud800": "user"}),
        ("chunk", "chunk_id", 2**63),
        ("chunk", "ordinal", -1),
        ("chunk", "ordinal", 2**80),
        ("chunk", "text", "a\ud800b"),
        ("chunk", "spans", [{"kind": "line", "start": 1.5}]),
        ("chunk", "spans", [{"kind": "code", "symbol": 5}]),
        ("chunk", "spans", [{"kind": "", "start": 1}]),
        ("chunk", "spans", [{"kind": "line", "start": 0}]),
        ("chunk", "spans", [{"kind": "line", "start": 5, "end": 4}]),
        ("chunk", "spans", [{"kind": "page", "page": -1}]),
        ("chunk", "spans", [{"kind": "page", "page": 2**60}]),
        ("chunk", "indexed_at", "soon"),
        ("chunk", "embeddings", [{"model_id": 1, "sparse": {"a": 10**400}}]),
        ("chunk", "embeddings", [5]),
        ("chunk", "embeddings", "x"),
    ],
)
def test_values_that_fit_no_column(
    lines: Lines, tmp_path: Path, clock: Clock, record: str | None, field: str, value: Any
) -> None:
    number = 0 if record is None else _at(lines, record)
    lines[number][field] = value
    target = tmp_path / "new.sqlite"
    with pytest.raises(BrokenImport, match=f"^line {number + 1}: ") as error:
        imported(lines, target, clock)
    assert len(error.value.message) < 500
    assert not target.exists()
    with opened(target, clock) as kb:
        kb.add("of our own")
        before = kb.index_version()
        with pytest.raises(BrokenImport, match=f"^line {number + 1}: "):
            imported(lines, target, clock, merge=True)
        assert kb.index_version() == before


@pytest.mark.parametrize("depth", [33, 947, 100_000])
def test_metadata_that_is_nested_deeply(
    lines: Lines, tmp_path: Path, clock: Clock, depth: int
) -> None:
    at = _at(lines, "document")
    lines[at]["metadata"] = "HERE"
    nested = '{"a":' * depth + "1" + "}" * depth
    data = "\n".join(json.dumps(line) for line in lines).replace('"HERE"', nested)
    with (
        opened(tmp_path / "new.sqlite", clock) as kb,
        pytest.raises(BrokenImport, match=f"^line {at + 1}: "),
    ):
        kb.import_(io.BytesIO(data.encode()))


def test_metadata_of_older_stores_comes_back(lines: Lines, tmp_path: Path, clock: Clock) -> None:
    old = {"a": "x" * (LEGACY_METADATA_BYTES - 100)}
    lines[_at(lines, "document")]["metadata"] = old
    with imported(lines, tmp_path / "new.sqlite", clock) as kb:
        assert old in [one.metadata for one in kb.documents()]
    lines[_at(lines, "document")]["metadata"] = {"a": "x" * LEGACY_METADATA_BYTES}
    with pytest.raises(BrokenImport, match="metadata is longer than 1,048,576 bytes"):
        imported(lines, tmp_path / "other.sqlite", clock)


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("lang", "x" * 3_000_000, "'lang' is longer than 65,536 characters"),
        ("tags", {"x" * 900_000: "user"}, "is longer than 65,536 characters"),
        ("tags", {f"t{n}": "user" for n in range(90_000)}, "more than 32,768 tags"),
    ],
)
def test_tags_and_a_language_that_no_store_has(
    lines: Lines, tmp_path: Path, clock: Clock, *, field: str, value: Any, why: str
) -> None:
    lines[_at(lines, "document")][field] = value
    with pytest.raises(BrokenImport, match=why) as error:
        imported(lines, tmp_path / "new.sqlite", clock)
    assert len(error.value.message) < 300


def test_tags_of_older_stores_come_back_and_can_be_taken_away(
    lines: Lines, tmp_path: Path, clock: Clock
) -> None:
    record = next(one for one in lines if str(one.get("doc_path", "")).startswith("note:"))
    old = {f"t{n:04}": "user" for n in range(1_200)} | {"x" * 900: "user"}
    record["tags"] = old
    with imported(lines, tmp_path / "new.sqlite", clock) as kb:
        assert set(kb.document(record["doc_path"]).tags) == set(old)
        left = kb.tag(record["doc_path"], remove=["x" * 900, "t0000"]).tags
        assert set(left) == old.keys() - {"x" * 900, "t0000"}


def test_numbers_of_metadata_come_back_however_long(
    lines: Lines, tmp_path: Path, clock: Clock
) -> None:
    lines[_at(lines, "document")]["metadata"] = {"n": 10**30}
    with imported(lines, tmp_path / "new.sqlite", clock) as kb:
        assert {"n": 10**30} in [one.metadata for one in kb.documents()]


def test_more_records_than_promised(lines: Lines, tmp_path: Path, clock: Clock) -> None:
    lines += [lines[-1]] * 5
    with pytest.raises(BrokenImport, match=rf"^line {len(lines) - 4}: more records"):
        imported(lines, tmp_path / "new.sqlite", clock)


def test_random_changes(lines: Lines, tmp_path: Path, clock: Clock) -> None:
    """Whatever a line contains, the result is a store or one of kb's own errors."""
    odd: list[Any] = [
        None, True, -1, 0, 2**63, 10**30, 1.5, "", "x", "\0", "\ud800", [], {}, [None], {"a": 1},
        {"base64": "eA=="}, {"base64": 5}, {"base64": "\u00e9"}, [[]], "9" * 5000, {"kind": "line"},
    ]  # fmt: skip
    refused = 0
    for number in range(100):
        chance = random.Random(number)
        changed = json.loads(json.dumps(lines))
        for _ in range(chance.choice((1, 1, 3))):
            line = chance.choice(changed)
            line[chance.choice([*line, "other"])] = chance.choice(odd)
        target = tmp_path / f"{number}.sqlite"
        try:
            with imported(changed, target, clock) as kb:
                kb.search("buoy note")
                assert kb.doctor().findings
        except KbError:
            refused += 1
    assert 30 < refused <= 100


# --- sizes ----------------------------------------------------------------------------------------


def _packed(*parts: tuple[bytes, int]) -> io.BytesIO:
    """Many copies of each of these values, compressed."""
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=9) as file:
        for part, count in parts:
            block = part * max(1, (1 << 20) // len(part))
            for _ in range(count * len(part) // len(block)):
                file.write(block)
            file.write(part * (count * len(part) % len(block) // len(part)))
    stream.seek(0)
    return stream


def test_an_archive_of_nothing_that_unpacks_to_much(
    lines: Lines, tmp_path: Path, clock: Clock
) -> None:
    """One valid line after another: 100 MB out of 100 kB."""
    others = [line for line in lines if line.get("record") != "chunk"]
    others[0]["counts"]["chunks"] = 10_000
    chunk = lines[-1] | {"text": "x" * 500_000, "embeddings": []}
    chunks = [chunk | {"chunk_id": number, "ordinal": number} for number in range(1, 200)]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in others + chunks)
    stream = io.BytesIO(gzip.compress(data))
    assert len(stream.getvalue()) < len(data) // 200
    with (
        opened(tmp_path / "new.sqlite", clock) as kb,
        pytest.raises(BrokenImport, match="200 times"),
    ):
        kb.import_(stream)
    assert not (tmp_path / "new.sqlite").exists()


@pytest.mark.parametrize("line", [b"x", b"[", b"[{},", b'{"a":1,"b":['])
def test_a_line_without_an_end(lines: Lines, tmp_path: Path, clock: Clock, line: bytes) -> None:
    header = json.dumps(lines[0]).encode() + b"\n"
    stream = _packed((header, 1), (line, (100 << 20) // len(line)))
    assert len(stream.getvalue()) < 2 << 20
    with opened(tmp_path / "new.sqlite", clock) as kb, pytest.raises(BrokenImport):
        kb.import_(stream)


MEASURED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
from kb import KnowledgeBase
from kb.errors import KbError
with KnowledgeBase(sys.argv[1]) as kb:
    try:
        kb.import_(sys.argv[2])
    except KbError as error:
        # Not ru_maxrss: a process inherits that from the one that has started it.
        status = dict(line.split(":", 1) for line in open("/proc/self/status"))
        print(error.code, status["VmHWM"].split()[0])
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits and sizes of Linux")
def test_memory_is_bounded(lines: Lines, tmp_path: Path) -> None:
    """60 MB of objects in one line would take over a gigabyte as Python objects."""
    header = json.dumps(lines[0]).encode() + b"\n"
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(_packed((header, 1), (b'{"a":[', 1), (b"{},", 20 << 20)).getvalue())
    told = subprocess.run(
        [sys.executable, "-c", MEASURED, tmp_path / "new.sqlite", bomb],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    code, peak_kb = told.stdout.split()
    assert code == "broken_import", told.stderr
    assert int(peak_kb) < 512 << 10


def test_a_path_in_another_normal_form_is_refused(
    lines: Lines, tmp_path: Path, clock: Clock
) -> None:
    """Its citation would open the document whose path is the same in NFC."""
    record = next(line for line in lines if line.get("root_id") and "doc_path" in line)
    folder = record["doc_path"].partition("/")[0]
    for path in ("cafe\u0301.md", "caf\u00e9.md"):
        record |= {"path": path, "doc_path": f"{folder}/{path}", "os_path": None}
        if path == "caf\u00e9.md":
            imported(lines, tmp_path / "nfc.sqlite", clock).close()
        else:
            with pytest.raises(BrokenImport, match="'path' cannot be"):
                imported(lines, tmp_path / "nfd.sqlite", clock)
