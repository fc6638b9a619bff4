from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from kb.ingest import ignore
from kb.ingest.file_entry import find_file, is_within
from kb.ingest.secret_files import BY_NAME
from kb.ingest.walk import WalkResult, is_hidden, walk
from kb.regular_files import open_folder
from kb.types import FileNote
from tests.ingest.conftest import any_bytes_in_names


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def put(root: Path, *paths: str, text: str = "text") -> None:
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def paths(walked: WalkResult) -> list[str]:
    return [found.path for found in walked.files]


def seen(root: Path, **options: object) -> list[str]:
    return paths(walk(str(root), **options))  # type: ignore[arg-type]


# --- listing --------------------------------------------------------------------------------------


def test_files_in_order(root: Path) -> None:
    put(root, "b.md", "a/z.md", "a.md", "a/b/c.md", "Z.md")
    assert seen(root) == ["Z.md", "a.md", "a/b/c.md", "a/z.md", "b.md"]


def test_size_and_time(root: Path) -> None:
    put(root, "a.md", text="12345")
    os.utime(root / "a.md", ns=(1, 1_700_000_000_123_456_789))
    (found,) = walk(str(root)).files
    assert (found.path, found.size) == ("a.md", 5)
    assert found.mtime_ns == 1_700_000_000_123_456_789
    assert found.device == root.stat().st_dev


def test_an_empty_root(root: Path) -> None:
    assert walk(str(root)) == WalkResult(())


@pytest.mark.parametrize("folder", [".git", ".hg", ".svn", ".kb", "node_modules", "__pycache__"])
def test_tool_folders_are_never_read(root: Path, folder: str) -> None:
    put(root, f"{folder}/a.md", f"deep/{folder}/a.md", "b.md")
    assert seen(root, hidden=True) == ["b.md"]


def test_virtual_environments_are_not_read(root: Path) -> None:
    put(root, "env/pyvenv.cfg", "env/lib/a.md", "b.md")
    assert seen(root) == ["b.md"]


def test_hidden_files_only_if_asked_for(root: Path) -> None:
    put(root, ".hidden.md", ".folder/a.md", "b.md")
    assert seen(root) == ["b.md"]
    assert seen(root, hidden=True) == [".folder/a.md", ".hidden.md", "b.md"]


def test_the_folders_of_a_maildir_are_not_hidden(root: Path) -> None:
    """Only the inbox has no dot in its name."""
    mail = ("cur/1:2,S", ".Sent/cur/2:2,S", ".Sent.2025/new/3")
    put(root, *(f"Maildir/{path}" for path in mail))
    put(root, "Maildir/.Sent/maildirfolder", "Maildir/.Sent/.uids", ".other/cur/a.md")
    for folder in ("Maildir/.Sent", "Maildir/.Sent.2025"):
        for name in ("cur", "new", "tmp"):
            (root / folder / name).mkdir(exist_ok=True)
    assert seen(root) == sorted(f"Maildir/{path}" for path in mail)
    assert seen(root, part="Maildir/.Sent/cur") == ["Maildir/.Sent/cur/2:2,S"]
    assert not is_hidden(str(root), os.path.join("Maildir", ".Sent", "cur", "2:2,S"))
    for path in (".other/cur/a.md", "Maildir/.Sent/maildirfolder", "Maildir/.Sent/.uids"):
        assert is_hidden(str(root), path.replace("/", os.sep))


def test_secrets_are_noted_and_not_read(root: Path) -> None:
    put(root, "server.key", ".env", ".ssh/config", "a.md")
    walked = walk(str(root), hidden=True)
    assert paths(walked) == ["a.md"]
    assert [note.path for note in walked.skipped] == [".env", ".ssh", "server.key"]


def test_ignore_files(root: Path) -> None:
    put(root, "a.log", "keep.log", "deep/a.log", "deep/b.md", "build/a.md", "deep/c.tmp", "a.md")
    (root / ".gitignore").write_text("*.log\n!keep.log\nbuild/\n")
    (root / "deep" / ".gitignore").write_text("!a.log\n*.tmp\n/b.md\n")
    (root / "deep" / ".kbignore").write_text("!b.md\n")
    assert seen(root) == ["a.md", "deep/a.log", "deep/b.md", "keep.log"]


def test_ignore_files_above_the_root(tmp_path: Path, root: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("*.log\n")
    put(root, "a.log", "a.md")
    assert seen(root) == ["a.md"]


def test_a_line_of_an_ignore_file_that_makes_no_sense_is_a_warning(root: Path) -> None:
    (root / ".kbignore").write_text("!\n")
    put(root, "a.md")
    walked = walk(str(root))
    assert paths(walked) == ["a.md"]
    assert [note.path for note in walked.warnings] == [".kbignore"]


def _large(file: Path) -> None:
    file.write_bytes(b"#" * (ignore.MAX_BYTES + 1))


def _many(file: Path) -> None:
    file.write_text("".join(f"{number}*x\n" for number in range(ignore.MAX_COST + 1)))


def _complex(file: Path) -> None:
    file.write_text("".join(f"**/{number}/**/x\n" for number in range(100)))


BAD_IGNORE_FILES: dict[str, Callable[[Path], object]] = {
    "folder": Path.mkdir,
    "endless": lambda file: file.symlink_to("/dev/zero"),
    "outside": lambda file: file.symlink_to("/etc/hostname"),
    "pipe": lambda file: os.mkfifo(file),
    "large": _large,
    "many patterns": _many,
    "slow patterns": _complex,
    "long line": lambda file: file.write_text("*a" * ignore.MAX_LINE_CHARS),
}


@pytest.mark.skipif(os.name != "posix", reason="no such files there")
@pytest.mark.parametrize("kind", BAD_IGNORE_FILES)
@pytest.mark.parametrize("name", ignore.IGNORE_FILES)
def test_a_folder_whose_ignore_file_cannot_be_read_is_not_read(
    root: Path, kind: str, name: str
) -> None:
    """Runs in a separate process, so that a hang or unbounded memory fails the test."""
    put(root, "a.md", "sub/hidden.md", "sub/deep/hidden.md")
    BAD_IGNORE_FILES[kind](root / "sub" / name)
    code = (
        "import json, resource, sys; from kb.ingest.walk import walk\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000, 2_000_000_000))\n"
        "walked = walk(sys.argv[1])\n"
        "print(json.dumps([[each.path for each in walked.files], walked.unseen,"
        " [[note.path, note.reason] for note in walked.skipped]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(root)], capture_output=True, timeout=60, check=True
    )
    files, unseen, ((path, reason),) = json.loads(done.stdout)
    assert (files, unseen, path) == (["a.md"], ["sub"], f"sub/{name}")
    assert "so its folder is skipped" in reason


@pytest.mark.skipif(os.name != "posix", reason="no such files there")
def test_nothing_is_read_below_an_ignore_file_that_cannot_be_read(
    tmp_path: Path, root: Path
) -> None:
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".gitignore")
    put(root, "a.md")
    walked = walk(str(root))
    assert (walked.files, walked.unseen) == ((), ("",))
    assert walked.skipped[0].path == str(tmp_path / ".gitignore")


def test_a_link_to_an_ignore_file_inside(root: Path) -> None:
    put(root, "sub/a.md", "sub/b.log", "a.log")
    (root / ".gitignore").write_text("*.log\n")
    (root / "sub" / ".kbignore").symlink_to("../.gitignore")
    (root / "sub" / ".gitignore").symlink_to("nowhere")
    assert walk(str(root)).skipped == ()
    assert seen(root) == ["sub/a.md"]


def test_patterns_add_up_from_folder_to_folder(root: Path) -> None:
    half = "".join(f"{number}*x\n" for number in range(ignore.MAX_COST * 2 // 3))
    put(root, "a.md", "sub/a.md")
    (root / ".gitignore").write_text(half)
    (root / "sub" / ".gitignore").write_text(half)
    walked = walk(str(root))
    assert paths(walked) == ["a.md"]
    assert "too many patterns" in walked.skipped[0].reason


def test_other_roots_are_not_entered(root: Path) -> None:
    put(root, "a.md", "inner/b.md")
    assert seen(root, stop_at=[str(root / "inner")]) == ["a.md"]


# --- parts ----------------------------------------------------------------------------------------


def test_a_part(root: Path) -> None:
    put(root, "a.md", "sub/b.md", "sub/deep/c.md", "subway/d.md")
    assert seen(root, part="sub") == ["sub/b.md", "sub/deep/c.md"]
    assert seen(root, part="sub/deep/c.md") == ["sub/deep/c.md"]
    assert seen(root, part="gone") == []


@pytest.mark.parametrize("part", ["sub", "sub/b.md"])
def test_a_part_that_is_ignored_is_told(root: Path, part: str) -> None:
    put(root, "sub/b.md", "other/c.md")
    (root / ".gitignore").write_text("sub/\nother/\n")
    walked = walk(str(root), part=part)
    assert walked == WalkResult((), (FileNote("sub", "ignored by .gitignore"),))


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["a#b.md", "100%.md", "with space.md", "中文.md", "a?b.md", "a\nb.md"]
)
def test_a_name_that_is_text(root: Path, name: str) -> None:
    put(root, f"{name}/{name}")
    (found,) = walk(str(root)).files
    assert (found.path, found.os_path) == (f"{name}/{name}", None)
    assert find_file(str(root), found.path) == found


@any_bytes_in_names
def test_a_name_that_is_not_utf_8(root: Path) -> None:
    name = os.fsdecode(b"caf\xe9.md")
    (root / name).write_text("text")
    (found,) = walk(str(root)).files
    assert (found.path, found.os_path) == ("caf\\xe9.md", b"caf\xe9.md")
    assert found.disk_path == name
    assert find_file(str(root), found.path) == found


@any_bytes_in_names
def test_a_folder_that_is_not_utf_8(root: Path) -> None:
    folder = root / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "a.md").write_text("text")
    (found,) = walk(str(root)).files
    assert (found.path, found.os_path) == ("caf\\xe9/a.md", b"caf\xe9/a.md")
    assert find_file(str(root), found.path) == found


@any_bytes_in_names
def test_a_name_that_is_not_composed(root: Path) -> None:
    put(root, "cafe\u0301.md")
    (found,) = walk(str(root)).files
    assert (found.path, found.os_path) == ("café.md", "cafe\u0301.md".encode())
    assert find_file(str(root), found.path) == found


@any_bytes_in_names
def test_two_spellings_of_one_name(root: Path) -> None:
    put(root, "cafe\u0301.md", "caf\u00e9.md", "caf\\xe9.md")
    walked = walk(str(root))
    assert len(set(paths(walked))) == 3
    for found in walked.files:
        assert find_file(str(root), found.path) == found


# --- links and special files ----------------------------------------------------------------------


def test_links_are_not_followed(tmp_path: Path, root: Path) -> None:
    put(tmp_path, "outside/a.md")
    (root / "folder").symlink_to(tmp_path / "outside")
    (root / "file.md").symlink_to(tmp_path / "outside" / "a.md")
    walked = walk(str(root))
    assert walked.files == ()
    assert walked.skipped == (
        FileNote("file.md", "symbolic link"),
        FileNote("folder", "symbolic link"),
    )


def test_links_are_followed_when_asked_to(tmp_path: Path, root: Path) -> None:
    put(tmp_path, "outside/a.md")
    (root / "folder").symlink_to(tmp_path / "outside")
    (root / "file.md").symlink_to(tmp_path / "outside" / "a.md")
    assert seen(root, follow_links=True) == ["file.md", "folder/a.md"]
    assert seen(root, follow_links=True, part="folder") == ["folder/a.md"]


def test_symlink_cycle(root: Path) -> None:
    put(root, "a/b/c.md")
    (root / "a" / "b" / "up").symlink_to(root)
    (root / "a" / "b" / "self").symlink_to(root / "a" / "b")
    walked = walk(str(root), follow_links=True)
    assert paths(walked) == ["a/b/c.md"]
    assert [note.path for note in walked.skipped] == ["a/b/self", "a/b/up"]


def test_a_folder_is_read_under_its_own_name(root: Path) -> None:
    put(root, "z/a.md")
    (root / "a-link").symlink_to(root / "z")
    assert seen(root, follow_links=True) == ["z/a.md"]


def test_many_links_to_many_folders_stay_few(root: Path) -> None:
    for number in range(12):
        put(root, f"{number}/a.md")
        for other in range(12):
            (root / str(number) / f"to-{other}").symlink_to(root / str(other))
    assert len(seen(root, follow_links=True)) == 12


@pytest.mark.parametrize("target", ["missing", "link"])
def test_a_broken_link_is_noted(root: Path, target: str) -> None:
    (root / "link").symlink_to(target)
    walked = walk(str(root), follow_links=True)
    assert walked == WalkResult((), (FileNote("link", "broken link"),))


def test_a_link_does_not_lead_to_a_secret(tmp_path: Path, root: Path) -> None:
    put(tmp_path, ".ssh/config", "server.key")
    (root / "notes.txt").symlink_to(tmp_path / "server.key")
    (root / "config.txt").symlink_to(tmp_path / ".ssh" / "config")
    (root / "folder").symlink_to(tmp_path / ".ssh")
    walked = walk(str(root), follow_links=True)
    assert walked.files == ()
    assert {note.reason for note in walked.skipped} == {BY_NAME}


def test_a_link_does_not_lead_into_another_root(tmp_path: Path, root: Path) -> None:
    put(tmp_path, "other/sub/a.md", "other/b.md")
    (root / "link").symlink_to(tmp_path / "other")
    assert seen(root, follow_links=True, stop_at=[str(tmp_path / "other")]) == []
    inner = [str(tmp_path / "other" / "sub")]
    assert seen(root, follow_links=True, stop_at=inner) == ["link/b.md"]


def test_sockets_and_pipes_are_noted(root: Path) -> None:
    os.mkfifo(root / "pipe.md")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(root / "socket.md"))
        walked = walk(str(root))
    assert walked.files == ()
    assert {note.reason for note in walked.skipped} == {"not a regular file"}


# --- unreadable folders ---------------------------------------------------------------------------


def fail_on(monkeypatch: pytest.MonkeyPatch, folder: Path, error: OSError) -> None:
    def failing(root: str, inside: str, **options: bool) -> AbstractContextManager[int | str]:
        if Path(root, inside) == folder:
            raise error
        return open_folder(root, inside, **options)

    monkeypatch.setattr("kb.ingest.walk.open_folder", failing)


def test_a_folder_that_vanishes_mid_walk(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, "a.md", "sub/b.md")
    fail_on(monkeypatch, root / "sub", FileNotFoundError(2, "No such file or directory"))
    walked = walk(str(root))
    assert paths(walked) == ["a.md"]
    assert walked.unseen == ("sub",)
    assert walked.skipped == (FileNote("sub", "No such file or directory"),)


def test_a_folder_that_may_not_be_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, "sub/b.md")
    fail_on(monkeypatch, root / "sub", PermissionError(13, "Permission denied"))
    assert walk(str(root)).unseen == ("sub",)


def test_a_root_that_may_not_be_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_on(monkeypatch, root, PermissionError(13, "Permission denied"))
    assert walk(str(root)) == WalkResult((), (FileNote(".", "Permission denied"),), ("",))


@contextmanager
def deep_folder(root: Path, name: str, depth: int) -> Iterator[None]:
    """`depth` nested folders with a file in the last one. They are removed one by one afterwards,
    since `rmtree` cannot remove that many."""
    here = os.getcwd()
    os.chdir(root)
    for _ in range(depth):
        os.mkdir(name)
        os.chdir(name)
    Path("a.md").write_text("text")
    os.chdir(here)
    try:
        yield
    finally:
        os.chdir(root)
        for _ in range(depth):
            os.chdir(name)
        os.remove("a.md")
        for _ in range(depth):
            os.chdir("..")
            os.rmdir(name)
        os.chdir(here)


def test_a_very_deep_folder(root: Path) -> None:
    with deep_folder(root, "d", 1200):
        assert len(seen(root)) == 1


def test_a_path_too_long_for_the_system_is_noted(root: Path) -> None:
    with deep_folder(root, "d" * 200, 25):
        walked = walk(str(root))
    assert len(walked.unseen) == len(walked.skipped) == 1


# --- finding a file again -------------------------------------------------------------------------


def test_find(root: Path) -> None:
    put(root, "sub/a.md")
    (root / "link.md").symlink_to(root / "sub" / "a.md")
    found = find_file(str(root), "sub/a.md")
    assert found is not None
    assert found.path == "sub/a.md"
    for path in ("sub", "link.md", "gone.md", "gone/a.md", "sub/a.md/b.md"):
        assert find_file(str(root), path) is None


def test_within() -> None:
    assert is_within("a/b", "")
    assert is_within("a/b", "a")
    assert is_within("a", "a")
    assert not is_within("ab", "a")
    assert not is_within("a", "a/b")
