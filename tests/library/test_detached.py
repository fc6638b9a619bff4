"""Imported folders: none of their files is read before the user attaches them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase
from kb.errors import BrokenImport, InvalidRequest, NotFound, PathMissing
from kb.watch.watcher import Watcher
from tests.conftest import Clock
from tests.schemas import validate
from tests.store.builders import sqlite_store
from tests.test_regular_files import posix

Library = Callable[[dict[str, str]], Path]
Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def other(tmp_path: Path, clock: Clock) -> Iterator[KnowledgeBase]:
    """The store that archives are imported into."""
    with KnowledgeBase(tmp_path / "other" / "kb.sqlite", clock=clock) as opened:
        yield opened


def archive(kb: KnowledgeBase, change: Change = lambda record: None) -> io.BytesIO:
    """An export of `kb` with changed records."""
    stream = io.BytesIO()
    kb.export(stream)
    records = [json.loads(line) for line in stream.getvalue().splitlines()]
    for record in records:
        change(record)
    return io.BytesIO("".join(json.dumps(record) + "\n" for record in records).encode())


def pointing(root: Path, path: str) -> Change:
    """An archive that claims that its only document is another file."""

    def change(record: dict[str, Any]) -> None:
        if record.get("record") == "root":
            record["path"] = str(root)
        if record.get("record") == "document":
            record |= {"path": path, "doc_path": f"lib/{path}"}

    return change


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A folder with a file that nobody has ingested."""
    folder = tmp_path / "private"
    folder.mkdir()
    (folder / "diary.md").write_text("# Diary\n\nhunter2\n")
    return folder


@pytest.fixture
def imported(
    kb: KnowledgeBase, other: KnowledgeBase, library: Library, secret: Path
) -> KnowledgeBase:
    """A store with an imported archive that claims that its document is that file."""
    kb.ingest(library({"a.md": "# A\n\nwhat was exported\n"}))
    other.import_(archive(kb, pointing(secret, "diary.md")))
    return other


def test_no_file_of_an_imported_document_is_read(imported: KnowledgeBase, secret: Path) -> None:
    for uri in ("lib/diary.md", "lib/diary.md#L3", str(secret / "diary.md")):
        passage = imported.get(uri)
        assert passage.state == "stale"
        assert passage.text.endswith("what was exported")
        assert passage.reason is not None
        assert "kb attach lib FOLDER" in passage.reason
        assert (passage.citation.file, passage.citation.link) == (None, None)
    report = imported.ingest()
    assert (report.added, report.changed, report.removed, report.unchanged) == ((), (), (), 0)
    (note,) = report.warnings
    assert note.path == "lib/"
    assert note.reason.startswith("detached; ")
    assert imported.search("hunter2").returned == 0
    (hit,) = imported.search("exported").hits
    assert (hit.citation.file, hit.citation.line, hit.citation.link) == (None, None, None)


def test_status_and_doctor_name_it(imported: KnowledgeBase, secret: Path) -> None:
    status = imported.status()
    validate(status)
    (root,) = status["roots"]
    assert (root["path"], root["detached"], root["missing"]) == (str(secret), True, False)
    findings = {finding.part: finding for finding in imported.doctor().findings}
    assert findings["roots"].what == "0 folders, none missing; detached: lib"
    assert "kb attach" in findings["roots"].to_do
    assert findings["files"].what.startswith("0 files checked")


def test_a_watcher_does_not_look_at_it(imported: KnowledgeBase) -> None:
    with pytest.raises(InvalidRequest):
        Watcher(imported)._paths_to_watch()


def test_what_lies_around_a_folder_was_not_decided_here(
    kb: KnowledgeBase, other: KnowledgeBase, library: Library, tmp_path: Path
) -> None:
    """A folder is independent of an archive that names a folder around it, or its content."""
    root = library({"a.md": "# A\n\ntext\n"})
    kb.ingest(root)
    other.import_(archive(kb, pointing(tmp_path, "a.md")))
    library({"sub/b.md": "# B\n\ntext\n"})
    report = other.ingest(root)
    assert report.added == ("lib-2/a.md", "lib-2/sub/b.md")
    around, own = other.roots()
    assert (around.path, around.detached) == (str(tmp_path), True)
    assert (own.path, own.detached) == (str(root), False)


def test_an_ingest_of_its_folder_attaches_it(
    kb: KnowledgeBase, other: KnowledgeBase, library: Library
) -> None:
    root = library({"a.md": "# A\n\ntext\n", "b.md": "# B\n\nmore\n"})
    kb.ingest(root)
    other.import_(archive(kb))
    assert other.get("lib/a.md").state == "stale"
    (root / "b.md").unlink()
    report = other.ingest(root)
    assert (report.unchanged, report.removed, report.added) == (1, (), ())
    assert not other.roots()[0].detached
    assert other.get("lib/a.md").state == "exact"
    # Its text may exist nowhere else.
    assert other.get("lib/b.md").text.endswith("more")
    assert other.ingest().removed == ()
    assert other.remove("lib/b.md") == ["lib/b.md"]


def test_one_file_of_it_attaches_that_file_alone(
    kb: KnowledgeBase, other: KnowledgeBase, library: Library
) -> None:
    root = library({"a.md": "# A\n\ntext\n", "b.md": "# B\n\ntext\n", "c.md": "# C\n\ntext\n"})
    kb.ingest(root / "a.md", root / "b.md")
    other.import_(archive(kb))
    other.ingest(root / "a.md")
    (root / "b.md").write_text("# B\n\nhunter2\n")
    other.ingest()
    assert [other.get(f"lib/{name}.md").state for name in "ab"] == ["exact", "stale"]
    assert other.search("hunter2").returned == 0
    assert not other.roots()[0].whole


def test_a_library_that_moves_to_another_machine(
    kb: KnowledgeBase, other: KnowledgeBase, library: Library, tmp_path: Path
) -> None:
    root = library({"a.md": "# A\n\ntext\n", "sub/b.md": "# B\n\ntext\n"})
    kb.ingest(root)
    kb.tag("lib/a.md", add=["mine"])
    other.import_(archive(kb))
    moved = tmp_path / "elsewhere"
    root.rename(moved)
    (moved / "c.md").write_text("# C\n\ntext\n")
    with pytest.raises(PathMissing):
        other.attach("lib")
    report = other.attach("lib", moved)
    assert (report.unchanged, report.added, report.notes) == (2, ("lib/c.md",), ())
    assert other.document("lib/a.md").tags == ("mine",)
    assert [other.get(f"lib/{name}").state for name in ("a.md", "sub/b.md")] == ["exact", "exact"]
    assert [(one.name, one.path) for one in other.roots()] == [("lib", str(moved))]
    assert other.ingest().unchanged == 3


def test_a_folder_that_has_moved_is_attached_again(
    kb: KnowledgeBase, library: Library, tmp_path: Path
) -> None:
    root = library({"a.md": "# A\n\ntext\n"})
    kb.ingest(root)
    root.rename(tmp_path / "elsewhere")
    assert kb.ingest().missing_roots == (str(root),)
    assert kb.attach("lib", tmp_path / "elsewhere").unchanged == 1
    assert kb.get("lib/a.md").state == "exact"


def test_documents_without_a_file_keep_their_text_and_are_counted(
    kb: KnowledgeBase, other: KnowledgeBase, library: Library
) -> None:
    root = library({"a.md": "# A\n\ntext\n", "b.md": "# B\n\nmore\n"})
    kb.ingest(root)
    other.import_(archive(kb))
    (root / "b.md").unlink()
    report = other.attach("lib", root)
    assert (report.unchanged, report.removed) == (1, ())
    (note,) = report.notes
    assert note.startswith("1 document has no file there")
    assert other.get("lib/b.md").text.endswith("more")


def test_single_files_are_attached_as_single_files(
    kb: KnowledgeBase, other: KnowledgeBase, library: Library
) -> None:
    root = library({"a.md": "# A\n\ntext\n", "b.md": "# B\n\ntext\n"})
    kb.ingest(root / "a.md")
    other.import_(archive(kb))
    report = other.attach("lib/")
    assert (report.unchanged, report.added) == (1, ())
    assert not other.roots()[0].whole


def test_what_cannot_be_attached(
    imported: KnowledgeBase, library: Library, tmp_path: Path, secret: Path
) -> None:
    with pytest.raises(NotFound, match="nope"):
        imported.attach("nope")
    with pytest.raises(InvalidRequest, match="none of the 1 files of lib"):
        imported.attach("lib", library({"x.md": "x"}))
    (tmp_path / ".ssh").mkdir()
    with pytest.raises(InvalidRequest, match="may hold secrets"):
        imported.attach("lib", tmp_path / ".ssh")
    imported.ingest(library({"x.md": "x"}))
    with pytest.raises(InvalidRequest, match="already in the store"):
        imported.attach("lib", tmp_path / "lib")
    assert imported.get("lib/diary.md").state == "stale"
    assert imported.roots()[-1].detached


def test_a_folder_inside_another_one_is_not_attached(
    kb: KnowledgeBase, other: KnowledgeBase, library: Library, tmp_path: Path
) -> None:
    """The documents of the outer folder would be removed, with their tags."""
    root = library({"notes/a.md": "# A\n\ntext\n", "top.md": "# Top\n\ntext\n"})
    other.ingest(root / "notes")
    kb.ingest(root)
    kb.tag("lib/notes/a.md", add=["mine"])
    kb.import_(archive(other), merge=True)
    with pytest.raises(InvalidRequest, match="belongs to the folder lib"):
        kb.attach("notes", root / "notes")
    assert kb.ingest().removed == ()
    assert kb.document("lib/notes/a.md").tags == ("mine",)
    assert kb.document("notes/a.md")


def test_a_merge_into_an_attached_folder_opens_none_of_its_other_files(
    kb: KnowledgeBase, other: KnowledgeBase, library: Library
) -> None:
    """The other files include those that its owner ignores."""
    root = library({"a.md": "# A\n\ntext\n", "diary.md": "# D\n\nhunter2\n", ".kbignore": "diary*"})
    other.ingest(root)
    kb.ingest(root / "a.md")
    other.import_(archive(kb, pointing(root, "diary.md")), merge=True)
    assert not other.roots()[0].detached
    passage = other.get("lib/diary.md")
    assert (passage.state, "hunter2" in passage.text) == ("stale", False)
    other.ingest()
    assert other.search("hunter2").returned == 0
    assert other.get("lib/a.md").state == "exact"


# --- values that no export contains ---------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["../x.md", "/etc/passwd", "a/../../x.md", "", "a//b", "a\0b", "."]
)
@pytest.mark.parametrize("name", ["path", "os_path"])
def test_a_document_outside_of_its_root_is_refused(
    kb: KnowledgeBase, other: KnowledgeBase, library: Library, path: str, name: str
) -> None:
    import base64

    kb.ingest(library({"a.md": "# A\n\ntext\n"}))

    def change(record: dict[str, Any]) -> None:
        if record.get("record") == "document":
            packed = {"base64": base64.b64encode(path.encode()).decode()}
            record |= (
                {name: packed} if name == "os_path" else {name: path, "doc_path": f"lib/{path}"}
            )

    with pytest.raises(BrokenImport, match=f"line 3: '{name}' cannot be"):
        other.import_(archive(kb, change))
    assert not other.path.exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [("path", ""), ("path", "lib"), ("path", "../lib"), ("path", "/a\0b"), ("name", ""),
     ("name", "a/b"), ("name", "note:7")],
)  # fmt: skip
def test_a_root_that_cannot_be_is_refused(
    kb: KnowledgeBase, other: KnowledgeBase, library: Library, name: str, value: str
) -> None:
    kb.ingest(library({"a.md": "# A\n\ntext\n"}))

    def change(record: dict[str, Any]) -> None:
        if record.get("record") == "root":
            record[name] = value

    with pytest.raises(BrokenImport, match=f"line 2: '{name}' (of a root )?cannot be"):
        other.import_(archive(kb, change))


def test_a_document_of_another_root_s_name_is_refused(
    kb: KnowledgeBase, other: KnowledgeBase, library: Library
) -> None:
    kb.ingest(library({"a.md": "# A\n\ntext\n"}))

    def change(record: dict[str, Any]) -> None:
        if record.get("record") == "document":
            record["doc_path"] = "elsewhere/a.md"

    with pytest.raises(BrokenImport, match="not in its root"):
        other.import_(archive(kb, change))


# --- a store file from someone else ---------------------------------------------------------------


@posix
@pytest.mark.parametrize("path", ["../private/diary.md", ".ssh/id_rsa", "server.key", "link.md"])
def test_rules_hold_whatever_a_store_s_file_says(
    kb: KnowledgeBase, library: Library, secret: Path, path: str
) -> None:
    """Its roots are attached: the store may come from somebody else."""
    root = library({"a.md": "# A\n\ntext\n"})
    kb.ingest(root)
    for place in (".ssh/id_rsa", "server.key"):
        (root / place).parent.mkdir(exist_ok=True)
        (root / place).write_text("hunter2\n")
    (root / "link.md").symlink_to(secret / "diary.md")
    with sqlite_store(kb)._database.writing() as connection:
        connection.execute("UPDATE documents SET path = ?, doc_path = ?", (path, "lib/x.md"))
    passage = kb.get("lib/x.md")
    assert passage.state == "stale"
    assert "hunter2" not in passage.text
    kb.ingest()
    assert kb.search("hunter2").returned == 0
