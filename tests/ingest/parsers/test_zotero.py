"""Zotero's library: items with notes and annotations, read while Zotero may write."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.ingest.decode import Unreadable
from kb.ingest.parsers.zotero import ZoteroParser
from kb.ports import Source
from tests.ingest.parsers.mutations import check_parsed, check_survives

# The tables that are read, as Zotero 7 creates them, without columns that are not read.
SCHEMA = """
CREATE TABLE itemTypes (itemTypeID INTEGER PRIMARY KEY, typeName TEXT);
CREATE TABLE items (itemID INTEGER PRIMARY KEY, itemTypeID INT, dateAdded TEXT, key TEXT);
CREATE TABLE fields (fieldID INTEGER PRIMARY KEY, fieldName TEXT);
CREATE TABLE itemData (itemID INT, fieldID INT, valueID INT);
CREATE TABLE itemDataValues (valueID INTEGER PRIMARY KEY, value);
CREATE TABLE creators (creatorID INTEGER PRIMARY KEY, firstName TEXT, lastName TEXT);
CREATE TABLE itemCreators (itemID INT, creatorID INT, creatorTypeID INT, orderIndex INT);
CREATE TABLE tags (tagID INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE itemTags (itemID INT, tagID INT, type INT);
CREATE TABLE collections (collectionID INTEGER PRIMARY KEY, collectionName TEXT,
  parentCollectionID INT);
CREATE TABLE collectionItems (collectionID INT, itemID INT);
CREATE TABLE itemNotes (itemID INTEGER PRIMARY KEY, parentItemID INT, note TEXT, title TEXT);
CREATE TABLE itemAttachments (itemID INTEGER PRIMARY KEY, parentItemID INT, path TEXT);
CREATE TABLE itemAnnotations (itemID INTEGER PRIMARY KEY, parentItemID INT, type INT, text TEXT,
  comment TEXT, pageLabel TEXT, sortIndex TEXT);
CREATE TABLE deletedItems (itemID INTEGER PRIMARY KEY);
INSERT INTO itemTypes VALUES (1, 'annotation'), (2, 'attachment'), (3, 'journalArticle'),
  (4, 'note');
INSERT INTO fields VALUES (1, 'title'), (2, 'date'), (3, 'publicationTitle'), (4, 'abstractNote'),
  (5, 'DOI'), (6, 'extra');
"""
ITEMS = """
INSERT INTO items VALUES (1, 3, '2024-01-01', 'ITEMAAAA'), (2, 2, '2024-01-01', 'FILEAAAA'),
  (3, 4, '2024-01-02', 'NOTEAAAA'), (4, 1, '2024-01-03', 'ANNOAAAA'),
  (5, 1, '2024-01-03', 'ANNOBBBB'),
  (6, 3, '2024-01-04', 'GONEAAAA');
INSERT INTO itemDataValues VALUES (1, 'Mooring loads in tidal streams'), (2, '2019-05-00 May 2019'),
  (3, 'Ocean Engineering'), (4, 'We measure chain tension.'), (5, '10.1000/182'), (6, 'Old thing'),
  (7, 'Citation Key: hale2019');
INSERT INTO itemData VALUES (1, 1, 1), (1, 2, 2), (1, 3, 3), (1, 4, 4), (1, 5, 5), (1, 6, 7),
  (6, 1, 6);
INSERT INTO creators VALUES (1, 'Ruth', 'Hale'), (2, 'Ivo', 'Marsh');
INSERT INTO itemCreators VALUES (1, 2, 1, 1), (1, 1, 1, 0);
INSERT INTO tags VALUES (1, 'mooring'), (2, 'to read');
INSERT INTO itemTags VALUES (1, 1, 0), (1, 2, 0);
INSERT INTO collections VALUES (1, 'Boats', NULL), (2, 'Anchors', 1);
INSERT INTO collectionItems VALUES (2, 1);
INSERT INTO itemNotes VALUES (3, 1,
  '<div><p>Compare with <b>our</b> buoy &amp; chain</p></div>', '');
INSERT INTO itemAttachments VALUES (2, 1, 'storage:Hale 2019.pdf');
INSERT INTO itemAnnotations VALUES
  (4, 2, 1, 'tension peaks at slack water', 'surprising', '315', '00008|000744|00344'),
  (5, 2, 2, NULL, 'check this table', 'iv', '00003|000010|00120');
INSERT INTO deletedItems VALUES (6);
"""


def database(script: str = SCHEMA + ITEMS) -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script)
        return connection.serialize()


def test_an_item() -> None:
    parsed = ZoteroParser().parse(Source("zotero.sqlite", database()))
    assert (parsed.text or "").split("\n\n") == [
        "# Hale, Marsh 2019: Mooring loads in tidal streams",
        "Ruth Hale, Ivo Marsh\npublicationTitle: Ocean Engineering\ndate: May 2019\n"
        "DOI: 10.1000/182\nextra: Citation Key: hale2019\nCollections: Boats / Anchors\n"
        "#mooring #to read\nzotero://select/library/items/ITEMAAAA",
        "We measure chain tension.",
        "> Compare with our buoy & chain",
        "Attachment: Hale 2019.pdf",
        "p. iv:\n— check this table\n"
        "zotero://open-pdf/library/items/FILEAAAA?page=4&annotation=ANNOBBBB",
        "p. 315: tension peaks at slack water\n— surprising\n"
        "zotero://open-pdf/library/items/FILEAAAA?page=9&annotation=ANNOAAAA",
    ]
    check_parsed(parsed, b"")


def test_items_of_a_group() -> None:
    group = """ALTER TABLE items ADD libraryID INT; UPDATE items SET libraryID = 2;
    CREATE TABLE groups (groupID INTEGER PRIMARY KEY, libraryID INT);
    INSERT INTO groups VALUES (4711, 2);"""
    parsed = ZoteroParser().parse(Source("zotero.sqlite", database(SCHEMA + ITEMS + group)))
    assert "\nzotero://select/groups/4711/items/ITEMAAAA\n" in (parsed.text or "")
    assert "/groups/4711/items/FILEAAAA?page=9&annotation=ANNOAAAA" in (parsed.text or "")


def test_an_annotation_in_a_book() -> None:
    """The places of EPUB have two parts, and are no pages."""
    script = "UPDATE itemAnnotations SET sortIndex = '00008|00000123'"
    parsed = ZoteroParser().parse(Source("zotero.sqlite", database(SCHEMA + ITEMS + script)))
    assert "/FILEAAAA?annotation=ANNOAAAA" in (parsed.text or "")


@pytest.mark.parametrize(
    ("stored", "shown"),
    [("2019-05-00", "2019-05"), ("2019-00-00 c. 2019", "c. 2019"), ("2019-05-14", "2019-05-14"),
     ("in press", "in press")],
)  # fmt: skip
def test_dates(stored: str, shown: str) -> None:
    script = f"UPDATE itemDataValues SET value = '{stored}' WHERE valueID = 2"
    parsed = ZoteroParser().parse(Source("zotero.sqlite", database(SCHEMA + ITEMS + script)))
    assert f"\ndate: {shown}\n" in (parsed.text or "")


def test_the_programs_of_zotero_are_not_read(tmp_path: Path) -> None:
    for name in ("Zotero/translators", "Zotero/locate", "Zotero/storage/FILEAAAA", "locate"):
        (tmp_path / "home" / name).mkdir(parents=True)
        (tmp_path / "home" / name / "engines.json").write_text('{"name": "tides"}')
    (tmp_path / "home" / "Zotero" / "zotero.sqlite").write_bytes(database())
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder="none") as kb:
        assert kb.ingest(tmp_path / "home").added == (
            "home/Zotero/storage/FILEAAAA/engines.json",
            "home/Zotero/zotero.sqlite",
            "home/locate/engines.json",
        )


def test_while_zotero_has_it_open(tmp_path: Path) -> None:
    """Another program holds an exclusive lock, and the file is not changed."""
    folder = tmp_path / "Zotero"
    folder.mkdir()
    path = folder / "zotero.sqlite"
    path.write_bytes(database())
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    before = path.read_bytes()
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder="none") as kb:
        report = kb.ingest(folder)
        assert (report.failed, report.added) == ((), ("Zotero/zotero.sqlite",))
        (hit, *_) = kb.search("slack water tension").hits
    assert hit.section_label == "Hale, Marsh 2019: Mooring loads in tidal streams"
    assert hit.type == "zotero"
    assert path.read_bytes() == before
    assert sorted(each.name for each in folder.iterdir()) == ["zotero.sqlite"]
    other.close()


def test_a_database_with_a_write_ahead_log(tmp_path: Path) -> None:
    path = tmp_path / "zotero.sqlite"
    path.write_bytes(database())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    assert "Mooring loads" in (
        ZoteroParser().parse(Source(path.name, path.read_bytes())).text or ""
    )


def test_other_databases() -> None:
    assert not ZoteroParser().accepts(Source("other.sqlite", database()))
    for data in (b"SQLite format 3\0", database("CREATE TABLE x (y)"), database()[:5000]):
        with pytest.raises(Unreadable, match="not a Zotero library"):
            ZoteroParser().parse(Source("zotero.sqlite", data))


def test_an_empty_library() -> None:
    parsed = ZoteroParser().parse(Source("zotero.sqlite", database(SCHEMA)))
    assert parsed.warnings == ("the library has no items",)


def test_damaged_files() -> None:
    check_survives(ZoteroParser(), "zotero.sqlite", database())


def test_notes_and_attachments_without_a_work() -> None:
    more = """
    INSERT INTO itemTypes VALUES (94, 'note'), (95, 'attachment'), (96, 'annotation');
    INSERT INTO items (itemID, itemTypeID, dateAdded, key) VALUES
        (910, 94, '2024-01-01', 'NOTE0001'), (912, 95, '2024-01-01', 'ATT00002'),
        (913, 94, '2024-01-01', 'NOTE0003'), (914, 94, '2024-01-01', 'NOTE0004'),
        (920, 96, '2024-01-01', 'ANNO0005');
    INSERT INTO itemNotes (itemID, parentItemID, note) VALUES
        (910, NULL, '<p>Ideas</p><p>a lighter keel</p>'), (913, 912, '<p>of the file</p>'),
        (914, NULL, '<p>thrown away</p>');
    INSERT INTO itemAttachments (itemID, parentItemID, path) VALUES (912, NULL, 'storage:scan.pdf');
    INSERT INTO itemAnnotations (itemID, parentItemID, type, text, comment, pageLabel, sortIndex)
        VALUES (920, 912, 1, 'marked', 'remark', '5', '1');
    INSERT INTO deletedItems VALUES (914);
    """
    parsed = ZoteroParser().parse(Source("zotero.sqlite", database(SCHEMA + ITEMS + more)))
    text = parsed.text or ""
    assert "# Ideas\n\na lighter keel" in text
    assert "# scan.pdf\n\nzotero://select/library/items/ATT00002\n\n> of the file" in text
    assert "p. 5: marked\n— remark" in text
    assert "thrown away" not in text


def test_views_are_not_read() -> None:
    """A view in place of a table can be an endless query."""
    view = "DROP TABLE tags; CREATE VIEW tags AS SELECT 1 AS tagID, 'x' AS name;"
    with pytest.raises(Unreadable, match="not a Zotero library"):
        ZoteroParser().parse(Source("zotero.sqlite", database(SCHEMA + ITEMS + view)))


@pytest.mark.parametrize("part", ["", "zotero.sqlite"])
def test_changes_in_a_log_are_reported(kb: KnowledgeBase, tmp_path: Path, part: str) -> None:
    folder = tmp_path / "Zotero"
    folder.mkdir()
    (folder / "zotero.sqlite").write_bytes(database())
    assert kb.ingest(folder / part).warnings == ()
    (folder / "zotero.sqlite-wal").write_bytes(b"")
    assert kb.ingest(folder / part).warnings == ()
    for suffix in ("-wal", "-journal"):
        (folder / f"zotero.sqlite{suffix}").write_bytes(b"new")
        (warning,) = kb.ingest(folder / part).warnings
        assert warning.path == "Zotero/zotero.sqlite"
        assert "close Zotero" in warning.reason
        (folder / f"zotero.sqlite{suffix}").unlink()
