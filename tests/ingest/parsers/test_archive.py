"""Zip archives: their files, parsed one by one, within bounds."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from kb.ingest.chunk import chunk
from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parse import Parsers
from kb.ingest.parsers.archive import ArchiveParser, members
from kb.ports import Parsed, Source
from tests.ingest.parsers import pdfs
from tests.ingest.parsers.archives import zipped
from tests.ingest.parsers.mutations import check_parsed, check_survives
from tests.ingest.parsers.test_docx import docx, p
from tests.ingest.parsers.test_slack import DAY

NOTION = "Boat 0123456789abcdef0123456789abcdef.md"


TYPICAL = zipped({"a.md": "# x\n\nwords", "b.csv": "a,b\n1,2\n", "c.zip": zipped({"d.txt": "e"})})


def parse(parts: dict[str, str | bytes], name: str = "export.zip") -> Parsed:
    return ArchiveParser(1800).parse(Source(name, zipped(parts)))


def test_files_of_many_formats() -> None:
    parts: dict[str, str | bytes] = {
        "notes/a.md": "---\ntags: [boat]\n---\n# Anchors\n\nThe kedge\n",
        "letter.docx": docx(p("Dear harbourmaster")),
        "paper.pdf": pdfs.made(pdfs.text_page("A page about tides"), pdfs.text_page("second page")),
        "general/2024-03-09.json": json.dumps(DAY),
        "__MACOSX/a.md": "ignored",
        ".git/config.txt": "ignored",
        "keys/id_rsa": "ignored",
        "photo.raw": b"\0\1",
        "empty.md": "",
        NOTION: "# Boat\n\npaint",
        "inner.zip": zipped({"deep.txt": "deep words", "more.zip": zipped({"a.txt": "deeper"})}),
    }
    parsed = parse(parts)
    text = parsed.text or ""
    for path, words in (
        ("notes/a.md", "The kedge"), ("letter.docx", "Dear harbourmaster"), ("Boat.md", "paint"),
        ("paper.pdf", "second page"), ("general/2024-03-09.json", "In the locker"),
        ("inner.zip/deep.txt", "deep words"),
    ):  # fmt: skip
        (block,) = [one for one in parsed.blocks if words in one.text]
        assert block.heading_path[0] == path
    assert "ignored" not in text
    assert "deeper" not in text
    assert parsed.attributes.tags == ("boat",)
    assert (parsed.type, parsed.title) == ("archive", "export")
    deep, keys, photo, hidden = parsed.warnings
    assert hidden == "hidden files are not read: .git/config.txt"
    assert keys.startswith("not read: may hold secrets")
    assert keys.endswith("): keys/id_rsa")
    assert photo == "not read: unsupported format: photo.raw"
    assert deep == "not read: archives are read to a depth of 2: inner.zip/more.zip"
    check_parsed(parsed, zipped(parts))


def test_a_passage_below_a_title_is_cited_by_its_first_line() -> None:
    parsed = parse({"a.md": "---\ntitle: Anchors\n---\nThe kedge\n"})
    drafts = chunk(parsed.blocks, 1800)
    assert [draft.spans[0].place for draft in drafts] == ["a.md:4"]


def test_paths_of_notion() -> None:
    """Without the ids, unless two files would then have the same path."""
    first, second = "0123456789abcdef" * 2, "fedcba9876543210" * 2
    export = "Export-99d4faad-5bc1-4fef-82ac-5f6c7a957b12"
    inner = zipped({
        f"{export}/Boats {first}.md": "list",
        f"{export}/Boats {first}/Anchors {second}.csv": "name\nkedge\n",
        f"{export}/Boats {first}/Anchors {second}_all.csv": "name\nbower\n",
        f"{export}/Boats {second}.md": "other",
        f"{export}/Boats {first}/Plan {first}.png": b"\0",
        f"{export}/Boats {first}/Hull {first}.png": b"\0",
    })  # fmt: skip
    parsed = parse({f"{export}-Part-1.zip": inner})
    headings = [line[2:] for line in (parsed.text or "").split("\n") if line.startswith("# ")]
    assert sorted(headings) == [
        "Boats.md", "Boats/Anchors.csv", "Boats/Anchors_all.csv",
        f"{export}-Part-1.zip/{export}/Boats {second}.md",
    ]  # fmt: skip
    (warning,) = parsed.warnings
    assert warning.startswith("not read: a picture")
    assert warning.endswith(": Boats/Hull.png; Boats/Plan.png")


def test_people_of_slack() -> None:
    ada = {"id": "U1", "name": "ab", "profile": {"display_name": "", "real_name": "Ada Byron"}}
    day = [{"type": "message", "user": "U1", "ts": "1709971200.0", "text": "for <@U2>"}]
    users = json.dumps([ada, {"id": "U2", "name": "ben", "profile": None}, {"id": 3}, 4])
    parsed = parse({"users.json": users, "general/2024-03-09.json": json.dumps(day)})
    assert "**Ada Byron** 08:00:\nfor @ben" in (parsed.text or "")
    for users in ("{", "{}", '"words"'):
        parsed = parse({"users.json": users, "general/2024-03-09.json": json.dumps(day)})
        assert "**U1** 08:00:\nfor @U2" in (parsed.text or "")


def test_hidden_files_are_named() -> None:
    parts: dict[str, str | bytes] = {f".{n}.md": "secret thoughts" for n in range(6)}
    parts |= {"a.md": "words", "node_modules/b.md": "words of others", ".DS_Store": b"\0"}
    (warning,) = parse(parts).warnings
    assert warning == "hidden files are not read: .0.md; .1.md; .2.md; .3.md; .4.md, and 2 more"
    with pytest.raises(Unsupported, match=r"none of its files can be read: hidden: \.a\.md"):
        parse({".a.md": "words"})


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_that_a_later_one_replaces_is_named() -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("a.md", "first words")
        archive.writestr("a.md", "second words")
    parsed = ArchiveParser(1800).parse(Source("a.zip", data.getvalue()))
    assert "second words" in (parsed.text or "")
    assert parsed.warnings == ("not read: a later file has the same name: a.md",)


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: dict[str, str | bytes] = {f"{n}.txt": f"words {n}" for n in range(5)}
    monkeypatch.setattr(members, "_MAX_MEMBERS", 2)
    parsed = parse(parts)
    assert len(list(parsed.blocks)) == 4  # a heading and a paragraph each
    assert parsed.warnings == ("only the first 2 files are read",)
    monkeypatch.setattr(members, "_MAX_BLOCKS", 3)
    monkeypatch.setattr(members, "_MAX_MEMBERS", 5)
    parsed = parse(parts)
    assert len(list(parsed.blocks)) == 4
    assert parsed.warnings == ("the files after 3 paragraphs are not read",)


def test_bombs(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", b"a" * (80 << 20))
    with pytest.raises(Unsupported, match="too large when unpacked"):
        ArchiveParser(1800).parse(Source("bomb.zip", path.read_bytes()))


def test_archives_without_text() -> None:
    with pytest.raises(Unsupported, match=r"none of its files can be read: a\.bin"):
        parse({"a.bin": b"\0"})
    with pytest.raises(Unreadable, match="not a valid zip"):
        ArchiveParser(1800).parse(Source("a.zip", b"PK"))


def test_damaged_files() -> None:
    check_survives(ArchiveParser(1800), "a.zip", TYPICAL)


@pytest.mark.parametrize("name", ["word/document.md", "backup/word/document.xml"])
def test_an_archive_with_parts_like_those_of_word(name: str) -> None:
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w") as archive:
        archive.writestr(name, "mast")
        archive.writestr("letter.docx", docx(p("Dear harbourmaster")))
        archive.writestr("other.md", "boom")
    source = Source("all.zip", stored.getvalue())
    parser = Parsers(1800, plug_ins=()).detect(source)
    assert parser is not None
    text = parser.parse(source).text or ""
    assert "Dear harbourmaster" in text
    assert "boom" in text


def test_members_whose_path_has_dots() -> None:
    names = ("../up.md", "./here.md", "/root//a.md", ".git/b.md")
    parsed = parse(dict(zip(names, ("one", "two", "three", "four"), strict=True)))
    text = parsed.text or ""
    assert [line for line in text.split("\n") if line.startswith("# ")] == [
        "# up.md", "# here.md", "# root/a.md",
    ]  # fmt: skip
    assert all(word in text for word in ("one", "two", "three"))
    assert "four" not in text
