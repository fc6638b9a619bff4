"""Files that are replaced between the walk and the read are not followed, waited for or read
completely."""

from __future__ import annotations

import os
import random
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kb.ingest import ignore
from kb.ingest.indexer import Progress
from kb.ingest.plan import make_plan
from kb.ingest.secret_files import BY_NAME
from kb.ingest.walk import walk
from kb.types import FileNote, Root
from tests.ingest.conftest import Library
from tests.test_regular_files import watchdog

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX links and pipes")

TEXT = "# Ours\n\nwhat was there when the folder was listed\n"
SECRET = "# Theirs\n\nnobody asked for this\n"


@pytest.fixture
def outside(library: Library) -> Path:
    folder = library.folder.parent / "outside"
    folder.mkdir()
    (folder / "a.md").write_text(SECRET)
    return folder


def before_the_read(swap: Callable[[], None]) -> Callable[[Progress], None]:
    """Call `swap` once, after everything is listed and before anything is read."""
    pending = [swap]

    def on_event(now: Progress) -> None:
        if now.stage == "read" and pending:
            pending.pop()()

    return on_event


def replaced(path: Path, make: Callable[[Path], object]) -> Callable[[], None]:
    def swap() -> None:
        path.rename(path.with_name(f"{path.name}.aside"))
        make(path)

    return swap


def sparse(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(3 << 30)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.symlink_to(path.parents[2] / "outside" / "a.md"), "is a link"),
        (lambda path: path.symlink_to("/dev/zero"), "is a link"),
        (lambda path: path.symlink_to("nowhere"), "is a link"),
        (os.mkfifo, "not a regular file"),
        (os.mkdir, "not a regular file"),
    ],
    ids=["link", "device", "dangling", "pipe", "folder"],
)
def test_a_file_that_is_replaced_is_skipped_and_its_document_stays(
    library: Library, outside: Path, make: Callable[[Path], object], reason: str, known: bool
) -> None:
    file = library.put("sub/a.md", TEXT)
    if known:
        library.ingest("")
        library.put("sub/a.md", TEXT + "more\n")
    with watchdog():
        report = library.ingest("", on_event=before_the_read(replaced(file, make)))
    assert report.skipped == (FileNote("library/sub/a.md", reason),)
    assert (report.failed, report.added, report.changed, report.removed) == ((), (), (), ())
    assert list(library.documents()) == (["library/sub/a.md"] if known else [])
    if known:
        assert "nobody" not in library.text("library/sub/a.md")


@pytest.mark.parametrize("place", ["top", "top/sub"])
def test_a_folder_that_is_replaced_by_a_link_is_not_read(
    library: Library, outside: Path, place: str
) -> None:
    library.put("top/sub/a.md", TEXT)
    (outside / "sub").mkdir()
    (outside / "sub" / "a.md").write_text(SECRET)
    target = outside if place == "top" else outside / "sub"
    swap = replaced(library.folder / place, lambda path: path.symlink_to(target))
    report = library.ingest("", on_event=before_the_read(swap))
    assert report.skipped == (FileNote("library/top/sub/a.md", "is a link"),)
    assert library.documents() == {}


def test_a_root_that_is_replaced_by_a_link_is_not_read(library: Library, outside: Path) -> None:
    library.put("a.md", TEXT)
    swap = replaced(library.folder, lambda path: path.symlink_to(outside))
    report = library.ingest("", on_event=before_the_read(swap))
    assert report.skipped == (FileNote("library/a.md", "is a link"),)
    assert library.documents() == {}


def test_a_root_behind_a_link_keeps_its_documents_and_is_named(
    library: Library, outside: Path
) -> None:
    library.put("a.md", TEXT)
    library.ingest("")
    replaced(library.folder, lambda path: path.symlink_to(outside))()
    report = library.ingest()
    assert report.missing_roots == (str(library.folder),)
    assert (report.changed, report.removed) == ((), ())
    assert "when the folder was listed" in library.text("library/a.md")


def test_a_huge_file_in_its_place_is_not_read(library: Library) -> None:
    file = library.put("a.md", TEXT)
    library.ingest("")
    library.put("a.md", TEXT + "more\n")
    report = library.ingest("", on_event=before_the_read(replaced(file, sparse)))
    (note,) = report.skipped
    assert note.reason.startswith("too large: 3,221,225,472 bytes")


def test_a_file_that_was_saved_anew_is_read_as_it_is_now(library: Library) -> None:
    """Editors write another file and rename it."""
    file = library.put("a.md", TEXT)
    report = library.ingest(
        "", on_event=before_the_read(replaced(file, lambda path: path.write_text("new text")))
    )
    assert report.added == ("library/a.md",)
    assert library.text("library/a.md") == "new text"
    assert library.ingest("").failed == ()


def test_a_link_that_is_followed_and_leads_to_a_secret_by_then(
    library: Library, outside: Path
) -> None:
    library.configure(follow_links=True)
    (outside / ".ssh").mkdir()
    (outside / ".ssh" / "a.md").write_text(SECRET)
    link = library.folder / "a.md"
    link.symlink_to(outside / "a.md")

    def swap() -> None:
        link.unlink()
        link.symlink_to(outside / ".ssh" / "a.md")

    report = library.ingest("", on_event=before_the_read(swap))
    assert report.skipped == (FileNote("library/a.md", BY_NAME),)
    assert library.documents() == {}


def test_a_folder_that_is_replaced_during_the_walk_is_not_listed(
    library: Library, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder above it was listed already."""
    library.put("top/sub/a.md", TEXT)
    library.put("top/.gitignore", "none\n")
    read_rules = ignore.read_rules

    def swapping(folder: str, name: str, **options: Any) -> object:
        replaced(library.folder / "top" / "sub", lambda path: path.symlink_to(outside))()
        return read_rules(folder, name, **options)

    monkeypatch.setattr(ignore, "read_rules", swapping)
    walked = walk(str(library.folder))
    assert walked.files == ()
    assert walked.unseen == ("top/sub",)


def test_a_path_that_was_resolved_before_is_not_resolved_again(
    library: Library, outside: Path
) -> None:
    """A server has checked that it may be read, or a watcher has resolved it."""
    library.put("sub/a.md", TEXT)
    library.ingest("")
    (root,) = library.store.catalog.roots()
    replaced(library.folder / "sub", lambda path: path.symlink_to(outside))()

    def knows(root: Root, path: str) -> bool:
        return True

    plan = make_plan([library.folder / "sub"], [root], knows, resolve_links=False)
    assert plan.targets == ()
    assert plan.skipped == (FileNote(str(library.folder / "sub"), "is a link"),)
    assert make_plan([library.folder / "sub"], [root], knows).targets[0].path == str(outside)


@pytest.mark.slow
def test_nothing_from_outside_is_read_whatever_is_swapped_when(
    library: Library, outside: Path
) -> None:
    """A thread swaps files and folders for links, pipes and back while folders are ingested."""
    for number in range(12):
        library.put(f"d{number % 3}/e/{number}.md", TEXT)
        (outside / f"{number}.md").write_text(SECRET)
    (outside / "e").mkdir()
    for number in range(12):
        (outside / "e" / f"{number}.md").write_text(SECRET)
    stop = threading.Event()
    chance = random.Random(16)

    def swap_all_the_time() -> None:
        while not stop.is_set():
            _swap_one(library.folder, outside, chance)

    swapper = threading.Thread(target=swap_all_the_time)
    swapper.start()
    try:
        with watchdog(300):
            for _ in range(60):
                library.ingest("", force=True)
    finally:
        stop.set()
        swapper.join()
    for doc_path in library.documents():
        assert "nobody asked" not in library.text(doc_path)


def _swap_one(folder: Path, outside: Path, chance: random.Random) -> None:
    number = chance.randrange(12)
    top = folder / f"d{number % 3}"
    place = chance.choice([top, top / "e", top / "e" / f"{number}.md"])
    aside = folder.parent / "aside"
    try:
        place.rename(aside)
    except OSError:
        return
    try:
        if chance.random() < 0.3:
            os.mkfifo(place)
        else:
            place.symlink_to(outside / "e" / f"{number}.md" if place.suffix else outside)
        place.unlink()
    finally:
        if place.is_symlink() or not place.exists():
            place.unlink(missing_ok=True)
            shutil.move(aside, place)
