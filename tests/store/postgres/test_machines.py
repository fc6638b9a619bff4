"""A folder belongs to the machine that ingested it: another one may have a folder with its path."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.server.upload_folder import Upload
from tests.conftest import Clock
from tests.postgres import Server


class Team:
    """A store, and folders that have the same path on each machine."""

    def __init__(self, url: str, folder: Path, clock: Clock, stack: ExitStack) -> None:
        self.url = url
        self.folder = folder
        self._clock = clock
        self._stack = stack

    def on(self, machine: str, files: dict[str, str]) -> KnowledgeBase:
        """The store as this machine sees it, with its own files at the common path."""
        for file in self.folder.glob("*"):
            file.unlink()
        for name, text in files.items():
            (self.folder / name).write_text(text)
        kb = KnowledgeBase(f"{self.url}&machine={machine}", clock=self._clock)
        return self._stack.enter_context(kb)


@pytest.fixture
def team(postgres: Server, schema: str, clock: Clock, tmp_path: Path) -> Iterator[Team]:
    folder = tmp_path / "notes"
    folder.mkdir()
    with ExitStack() as stack:
        yield Team(postgres.url(schema=schema), folder, clock, stack)


def test_another_machine_neither_removes_nor_adds_nor_reads(team: Team) -> None:
    ada = team.on("ada", {"a.md": "the text of Ada\n", "b.md": "more\n"})
    ada.ingest(team.folder)
    ada.tag("notes/a.md", add=["precious"])
    bob = team.on("bob", {"a.md": "private text of Bob\n", "c.md": "a diary\n"})
    report = bob.ingest()
    assert (report.added, report.changed, report.removed) == ((), (), ())
    assert [note.path for note in report.warnings] == ["notes/"]
    assert {one.doc_path: one.tags for one in bob.documents()} == {
        "notes/a.md": ("precious",), "notes/b.md": (),
    }  # fmt: skip
    assert "Ada" in bob.get("notes/a.md").text
    assert bob.search("Ada").hits[0].citation.file is None
    (root,) = bob.roots()
    assert root.detached
    assert not ada.roots()[0].detached


def test_a_folder_that_is_named_is_taken_over_and_nothing_is_removed(team: Team) -> None:
    ada = team.on("ada", {"a.md": "the text of Ada\n", "b.md": "more\n"})
    ada.ingest(team.folder)
    ada.tag("notes/b.md", add=["precious"])
    bob = team.on("bob", {"a.md": "text of Bob\n"})
    report = bob.ingest(team.folder)
    assert report.removed == ()
    (warning,) = report.warnings
    assert warning.path == "notes/"
    assert "belonged to the machine ada" in warning.reason
    assert {one.doc_path for one in bob.documents()} == {"notes/a.md", "notes/b.md"}
    assert "Bob" in bob.get("notes/a.md").text
    assert bob.document("notes/b.md").tags == ("precious",)
    assert not bob.roots()[0].detached
    assert ada.roots()[0].detached
    assert ada.ingest().removed == ()
    assert bob.ingest(team.folder).warnings == ()


def test_a_file_in_a_folder_of_another_machine_takes_it_over_with_a_warning(team: Team) -> None:
    team.on("ada", {"a.md": "the text of Ada\n"}).ingest(team.folder)
    bob = team.on("bob", {"a.md": "text of Bob\n"})
    (warning,) = bob.ingest(team.folder / "a.md", dry_run=True).warnings
    assert "belonged to the machine ada" in warning.reason
    assert bob.ingest(team.folder / "a.md").warnings == (warning,)


def test_machines_with_one_name_share_their_folders(team: Team) -> None:
    team.on("nfs", {"a.md": "one\n", "b.md": "two\n"}).ingest(team.folder)
    report = team.on("nfs", {"a.md": "one\n", "c.md": "three\n"}).ingest()
    assert (report.added, report.removed) == (("notes/c.md",), ("notes/b.md",))


def test_uploads_of_a_store_in_a_database_are_private(team: Team) -> None:
    kb = team.on("ada", {})
    kb.create()
    upload = Upload(kb, "a.md")
    upload.write(b"# Uploaded\n\ntext\n")
    upload.commit()
    (path,) = kb.path.parent.rglob("a.md")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(kb.documents()) == 1
