"""Each kind of file that breaks other tools, through a whole ingest. A good file beside it must be
ingested, whatever happens to the bad one."""

from __future__ import annotations

import os
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from kb.ingest import parse
from kb.ingest.decode import Unsupported
from kb.ingest.file_entry import find_file
from kb.ingest.file_reader import read_and_detect
from kb.ports import Parsed, Source
from kb.regular_files import open_file
from kb.types import FileNote, IngestReport
from tests.ingest.conftest import Library, any_bytes_in_names
from tests.ingest.parsers.pdfs import made, text_page

GOOD = "library/good.md"


@pytest.fixture
def run(library: Library) -> Library:
    library.put("good.md", "# Good\n\ntext\n")
    return library


def ingest(library: Library) -> IngestReport:
    report = library.ingest("")
    assert GOOD in report.added
    return report


def skipped(library: Library) -> str:
    report = ingest(library)
    (note,) = report.skipped
    assert not report.failed
    assert list(library.documents()) == [GOOD]
    return note.reason


def failed(library: Library) -> FileNote:
    (note,) = ingest(library).failed
    assert list(library.documents()) == [GOOD]
    return note


def text(library: Library, name: str) -> str:
    report = ingest(library)
    assert not report.failed
    assert not report.skipped
    return library.text(f"library/{name}")


@pytest.mark.parametrize("content", [b"", b" \n\t\r\n"])
def test_empty_file(run: Library, content: bytes) -> None:
    run.put("bad.md", content)
    assert skipped(run) == "empty"


def test_binary_file(run: Library) -> None:
    run.put("bad.gif", b"GIF89a\0\0\0")
    assert skipped(run) == "binary file .gif"


def test_unsupported_format(run: Library) -> None:
    run.put("bad.unheard", b"a,b\n")
    assert skipped(run) == "unsupported format .unheard"


@pytest.mark.parametrize("head", [b"PK\x03\x04\x14\0\0\0", b"PK\x03\x04 and text"])
def test_an_archive_under_the_name_of_a_note(run: Library, head: bytes) -> None:
    run.put("bad.md", head)
    assert skipped(run).endswith(" .md")


def test_nul_bytes_in_a_text(run: Library) -> None:
    run.put("bad.md", b"# Title\n\0\n")
    assert skipped(run) == "binary file"


def test_nul_bytes_far_into_a_text(run: Library) -> None:
    run.put("bad.txt", b"text\n" * 10_000 + b"\0")
    assert skipped(run) == "binary file"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.pdf", made(text_page("secret"), password="secret")),
        ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
    ],
)
def test_a_locked_file_is_skipped(run: Library, name: str, data: bytes) -> None:
    run.put(name, data)
    assert skipped(run).startswith("encrypted: ")


def test_file_too_large(run: Library) -> None:
    run.configure(max_file_bytes=1000)
    run.put("bad.md", b"x" * 1001)
    assert skipped(run) == "too large: 1,001 bytes; to read it, raise ingest.max_file_bytes (1,000)"


def test_a_file_that_grows_while_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\n")
    found = find_file(str(tmp_path), "a.txt")
    assert found is not None
    file.write_text("one\ntwo\n")
    parsers = parse.Parsers(1800, [])
    assert read_and_detect(str(tmp_path), found, parsers, limit_bytes=8)[2] == b"one\ntwo\n"
    with pytest.raises(Unsupported, match="too large: 8 bytes"):
        read_and_detect(str(tmp_path), found, parsers, limit_bytes=7)


def test_invalid_utf_8(run: Library) -> None:
    run.put("bad.md", "größer\n".encode() + b"\x90\xff\n")
    note = failed(run)
    assert note.path == "library/bad.md"
    assert "line 2" in note.reason


def test_a_legacy_encoding_is_read_with_a_note(run: Library) -> None:
    run.put("old.md", b"fine\ncaf\xe9\n")
    assert text(run, "old.md") == "fine\ncafé"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_utf_16(run: Library, encoding: str, mark: str) -> None:
    run.put("bad.md", f"{mark}# Größe\n\ntext\n".encode(encoding))
    assert text(run, "bad.md") == "# Größe\n\ntext"


def test_byte_order_mark(run: Library) -> None:
    run.put("bad.md", b"\xef\xbb\xbf---\ntitle: Said\n---\ntext\n")
    assert text(run, "bad.md") == "text"
    assert run.documents()["library/bad.md"].title == "Said"


def test_crlf(run: Library) -> None:
    run.put("bad.md", b"---\r\ntitle: Said\r\n---\r\n# One\r\n\r\ntext\r\n")
    assert text(run, "bad.md") == "# One\n\ntext"


def test_unreadable_file(run: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    run.put("bad.md")
    from kb.ingest import file_reader

    def forbidden(path: str, **options: Any) -> object:
        if path == "bad.md":
            raise PermissionError(13, "Permission denied", path)
        return open_file(path, **options)

    monkeypatch.setattr(file_reader, "open_file", forbidden)
    assert failed(run) == FileNote("library/bad.md", "Permission denied")


def test_a_known_file_that_fails_is_kept_as_it_was(run: Library) -> None:
    run.put("bad.md", "known text\n")
    ingest(run)
    run.put("bad.md", b"\x90\xff\n")
    report = run.ingest("")
    assert len(report.failed) == 1
    assert report.removed == ()
    assert run.text("library/bad.md") == "known text"


def test_symlink_cycle(run: Library) -> None:
    run.configure(follow_links=True)
    (run.folder / "loop").symlink_to(run.folder)
    assert skipped(run) == "link to a folder that is already read"


def test_link_to_a_folder_above(run: Library) -> None:
    (run.folder / "up").symlink_to(run.folder.parent)
    assert skipped(run) == "symbolic link"


@pytest.mark.parametrize(
    "name",
    ["a#b.md", "100%.md", "with space.md", "中文 文件.md", "a?b.md", "tab\there.md", "-rf.md"],
)
def test_odd_name(run: Library, name: str) -> None:
    run.put(f"{name}.d/{name}", "odd\n")
    assert text(run, f"{name}.d/{name}") == "odd"
    assert run.ingest("").unchanged == 2
    assert run.ingest(f"{name}.d/{name}").unchanged == 1


@any_bytes_in_names
def test_name_that_is_not_utf_8(run: Library) -> None:
    name = os.fsdecode(b"caf\xe9.md")
    run.put(name, "odd\n")
    assert text(run, "caf\\xe9.md") == "odd"
    document = run.documents()["library/caf\\xe9.md"]
    assert document.title == "caf\\xe9"
    place = run.store.catalog.file_location(document.doc_id)
    assert place is not None
    assert (place.root, place.inside) == (str(run.folder), name)
    assert run.ingest("").unchanged == 2
    assert run.ingest(name).unchanged == 1


@any_bytes_in_names
def test_single_file_whose_name_is_not_utf_8(library: Library) -> None:
    name = os.fsdecode(b"caf\xe9.md")
    library.put(name, "odd\n")
    assert library.ingest(name).added == ("library/caf\\xe9.md",)
    library.put(name, "changed\n")
    assert library.ingest().changed == ("library/caf\\xe9.md",)
    (library.folder / name).unlink()
    assert library.ingest().removed == ("library/caf\\xe9.md",)


@any_bytes_in_names
def test_root_whose_name_is_not_utf_8(library: Library) -> None:
    name = os.fsdecode(b"caf\xe9")
    library.put(f"{name}/a.md", "odd\n")
    assert library.ingest(name).added == ("caf\\xe9/a.md",)
    assert library.ingest().unchanged == 1
    (library.folder / name).rename(library.folder / "away")
    (missing,) = library.ingest().missing_roots
    assert missing.endswith("library/caf\\xe9")


@any_bytes_in_names
def test_name_that_is_not_composed(run: Library) -> None:
    run.put("cafe\u0301.md", "odd\n")
    assert text(run, "caf\u00e9.md") == "odd"
    assert run.ingest("").unchanged == 2
    assert run.ingest("cafe\u0301.md").unchanged == 1


def test_broken_front_matter(run: Library) -> None:
    run.put("bad.md", "---\ntitle: [unclosed\n---\ntext\n")
    report = ingest(run)
    (warning,) = report.warnings
    assert warning.path == "library/bad.md"
    assert "text" in run.text("library/bad.md")
    assert "unclosed" in run.text("library/bad.md")


def test_duplicate_keys(run: Library) -> None:
    run.put("bad.md", "---\ntitle: One\ntitle: Two\n---\ntext\n")
    (warning,) = ingest(run).warnings
    assert "twice" in warning.reason
    assert run.documents()["library/bad.md"].title == "Two"


def test_a_line_of_one_megabyte(run: Library) -> None:
    run.put("bad.md", "word " * 200_000)
    assert text(run, "bad.md").replace("\n\n", " ") + " " == "word " * 200_000


def test_front_matter_and_nothing_else(run: Library) -> None:
    run.put("bad.md", "---\ntitle: Only\n---\n")
    assert skipped(run) == "no text"


def test_a_mailbox_of_which_nothing_may_be_read(run: Library) -> None:
    """The reason is not that it has no text."""
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + f"{'MIIEowIBAAKCAQEA' * 4}\n" * 24
    run.put("bad.mbox", f"From a@b Thu Jan  1 00:00:00 2026\nSubject: x\n\n{key}")
    assert skipped(run).startswith("no text; message 1 is not read: it holds a private key")


def test_time_before_1970(run: Library) -> None:
    run.put("bad.md")
    os.utime(run.folder / "bad.md", ns=(0, -(10**9) * 86_400))
    text(run, "bad.md")
    assert run.documents()["library/bad.md"].date == "1969-12-31T00:00:00Z"


class Buggy:
    name = "buggy"
    version = "1"

    def accepts(self, source: Source) -> bool:
        return source.name.startswith("bad")

    def parse(self, source: Source) -> Parsed:
        if source.name == "bad.metadata":
            from kb.types import Attributes, Block, Span

            return Parsed(
                "buggy",
                [Block("x", Span("line", 1, 1))],
                attributes=Attributes(metadata={"x": object()}),
            )
        raise RecursionError("too deep")


@pytest.mark.parametrize("name", ["bad.any", "bad.metadata"])
def test_parser_with_a_bug(run: Library, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("buggy", f"{__name__}:Buggy", parse.GROUP)
    monkeypatch.setattr(parse, "entry_points", lambda group: [point])
    run.put(name)
    assert failed(run).path == f"library/{name}"


def test_plug_in_that_cannot_be_loaded(run: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("missing", "no_such_module:Parser", parse.GROUP)
    monkeypatch.setattr(parse, "entry_points", lambda group: [point])
    (warning,) = ingest(run).warnings
    assert warning.path == "kb.parsers: missing"
