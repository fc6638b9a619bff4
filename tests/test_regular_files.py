from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.errors import ModelBroken
from kb.models import checksums, inferred_manifest, onnx_file
from kb.open_stores import hold_store, release_store
from kb.regular_files import (
    FileChanged,
    FileIdentity,
    FileTooLarge,
    IsLink,
    Links,
    OutsideRoot,
    ReadRefused,
    StoreFile,
    open_file,
    open_folder,
    read_file,
)
from kb.store.sqlite import matrix_file

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")
LIMIT = 1_000


@contextmanager
def watchdog(seconds: int = 60) -> Iterator[None]:
    """Fail a call that waits forever."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"still at work after {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "note.md").write_bytes(b"inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "note.md").write_bytes(b"outside")
    return folder


def refused(path: str | Path, root: Path | None = None, links: Links = "refuse") -> str:
    with pytest.raises(ReadRefused) as error:
        read_file(path, LIMIT, root=root, links=links)
    assert error.value.strerror == error.value.reason
    return error.value.reason


def test_a_regular_file_is_read(root: Path) -> None:
    assert read_file(root / "a" / "b" / "note.md", LIMIT) == b"inside"
    assert read_file("a/b/note.md", LIMIT, root=root) == b"inside"
    (root / "empty").write_bytes(b"")
    assert read_file("empty", LIMIT, root=root) == b""


def test_a_file_that_is_not_there_is_the_systems_error(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_file("a/x/note.md", LIMIT, root=root)
    with pytest.raises((NotADirectoryError, FileNotFoundError)):
        read_file("a/b/note.md/x", LIMIT, root=root)


# --- files that are not regular -------------------------------------------------------------------


@posix
@pytest.mark.parametrize("links", ["refuse", "inside", "follow"])
def test_a_pipe_a_socket_a_folder_and_a_device_are_refused_at_once(
    root: Path, links: Links, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as server, watchdog():
        server.bind("socket")
        for name in ("pipe", "socket", "a"):
            assert refused(name, root, links) == "not a regular file"
            assert refused(root / name, None, links) == "not a regular file"
        assert refused("/dev/zero", None, links) == "not a regular file"


@posix
def test_a_link_to_a_pipe_or_a_device_is_refused_also_where_links_are_followed(root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "to_pipe").symlink_to("pipe")
    (root / "to_zero").symlink_to("/dev/zero")
    with watchdog():
        for name in ("to_pipe", "to_zero"):
            assert refused(name, root) == "is a link"
            assert refused(name, root, "follow") == "not a regular file"


@posix
def test_a_path_with_a_nul_is_refused(root: Path) -> None:
    assert refused("a\0b", root) == "leads out of its folder"
    assert refused("/a\0b") == "not a regular file"


# --- links ----------------------------------------------------------------------------------------


@posix
def test_no_link_is_followed_at_the_end_or_on_the_way(root: Path) -> None:
    (root / "link.md").symlink_to(root / "a" / "b" / "note.md")
    (root / "folder").symlink_to(root.parent / "outside", target_is_directory=True)
    (root / "dangling").symlink_to("nowhere")
    for name in ("link.md", "folder/note.md", "dangling"):
        assert refused(name, root) == "is a link"
    assert refused(root / "link.md") == "is a link"


@posix
def test_links_may_be_followed_inside_the_root_or_everywhere(root: Path) -> None:
    (root / "near.md").symlink_to("a/b/note.md")
    (root / "far.md").symlink_to(root.parent / "outside" / "note.md")
    (root / "folder").symlink_to(root.parent / "outside", target_is_directory=True)
    assert read_file("near.md", LIMIT, root=root, links="inside") == b"inside"
    assert refused("far.md", root, "inside") == "leads out of its folder"
    assert refused("folder/note.md", root, "inside") == "leads out of its folder"
    assert read_file("folder/note.md", LIMIT, root=root, links="follow") == b"outside"
    with open_file("far.md", root=root, links="follow") as file:
        assert file.real_path() == os.path.realpath(root.parent / "outside" / "note.md")


@posix
@pytest.mark.parametrize("inside", ["", "/a"])
def test_no_link_leads_to_the_root_either(root: Path, inside: str) -> None:
    other = root.parent / "other"
    other.symlink_to(root, target_is_directory=True)
    path, place = ("b/note.md" if inside else "a/b/note.md"), Path(f"{other}{inside}")
    assert refused(path, place) == "is a link"
    assert refused(path, place, "inside") == "is a link"
    assert read_file(path, LIMIT, root=place, links="follow") == b"inside"


@posix
@pytest.mark.parametrize("place", ["a", "a/b", "a/b/note.md"])
def test_a_link_that_is_swapped_in_after_the_walk_is_refused(root: Path, place: str) -> None:
    (root.parent / "outside" / "b").mkdir()
    (root.parent / "outside" / "b" / "note.md").write_bytes(b"outside")
    targets = {"a": "outside", "a/b": "outside/b", "a/b/note.md": "outside/note.md"}
    os.rename(root / place, root.parent / "aside")
    (root / place).symlink_to(root.parent / targets[place])
    with pytest.raises(IsLink):
        read_file("a/b/note.md", LIMIT, root=root)


@pytest.mark.parametrize("path", ["../outside/note.md", "a/../../outside/note.md", "a//b", "", "."])
def test_a_path_that_leads_out_is_refused(root: Path, path: str) -> None:
    with pytest.raises(OutsideRoot):
        read_file(path, LIMIT, root=root)


def test_an_absolute_path_is_not_inside(root: Path) -> None:
    with pytest.raises(OutsideRoot):
        read_file(str(root.parent / "outside" / "note.md"), LIMIT, root=root)


# --- size -----------------------------------------------------------------------------------------


def test_a_file_above_the_limit_is_refused_and_one_at_it_is_read(root: Path) -> None:
    (root / "fits").write_bytes(b"x" * LIMIT)
    (root / "larger").write_bytes(b"x" * (LIMIT + 1))
    assert len(read_file("fits", LIMIT, root=root)) == LIMIT
    assert refused("larger", root) == "larger than 1,000 bytes"


def test_a_huge_sparse_file_is_not_read(root: Path) -> None:
    with open(root / "huge", "wb") as file:
        file.truncate(3 << 30)
    with open_file("huge", root=root) as opened:
        assert opened.head(5) == b"\0" * 5
        with pytest.raises(FileTooLarge):
            opened.read(LIMIT)


@pytest.mark.parametrize("more", [1, LIMIT, 3_000_000])
def test_a_file_that_grows_meanwhile_is_still_bounded(root: Path, more: int) -> None:
    path = root / "a" / "b" / "note.md"
    with open_file("a/b/note.md", root=root) as file:
        with open(path, "ab") as writer:
            writer.write(b"x" * more)
        with pytest.raises(FileTooLarge):
            file.read(6)
        assert len(file.read(10_000_000)) == 6 + more  # within the limit, all of it is read


def test_a_file_that_shrinks_meanwhile_returns_the_rest(root: Path) -> None:
    with open_file("a/b/note.md", root=root) as file:
        os.truncate(root / "a" / "b" / "note.md", 2)
        assert file.read(LIMIT) == b"in"


def test_the_head_and_then_all_of_it(root: Path) -> None:
    with open_file("a/b/note.md", root=root) as file:
        assert (file.head(2), file.head(100), file.read(LIMIT)) == (b"in", b"inside", b"inside")


# --- the same file --------------------------------------------------------------------------------


def test_another_file_in_its_place_is_refused(root: Path) -> None:
    path = root / "a" / "b" / "note.md"
    seen = FileIdentity.of(os.stat(path))
    assert read_file("a/b/note.md", LIMIT, root=root, expected=seen) == b"inside"
    os.replace(root.parent / "outside" / "note.md", path)
    with pytest.raises(FileChanged):
        read_file("a/b/note.md", LIMIT, root=root, expected=seen)


def test_other_content_is_refused_only_on_request(root: Path) -> None:
    path = root / "a" / "b" / "note.md"
    loose, exact = FileIdentity.of(os.stat(path)), FileIdentity.of(os.stat(path), content=True)
    path.write_bytes(b"longer than it was")
    assert read_file("a/b/note.md", LIMIT, root=root, expected=loose) == b"longer than it was"
    with pytest.raises(FileChanged):
        read_file("a/b/note.md", LIMIT, root=root, expected=exact)


# --- folders --------------------------------------------------------------------------------------


def listed(root: Path, inside: str) -> list[str]:
    with open_folder(str(root), inside) as folder, os.scandir(folder) as entries:
        return [os.fsdecode(entry.name) for entry in entries]


@posix
def test_a_folder_is_listed_through_no_link(root: Path) -> None:
    assert listed(root, "") == ["a"]
    assert listed(root, "a/b") == ["note.md"]
    os.rename(root / "a" / "b", root / "a" / "c")
    (root / "a" / "b").symlink_to(root.parent / "outside", target_is_directory=True)
    with pytest.raises(IsLink):
        listed(root, "a/b")
    with pytest.raises(OutsideRoot):
        listed(root, "../outside")
    with open_folder(str(root), "a/b", follow_links=True) as folder:
        assert os.listdir(folder) == ["note.md"]


@posix
def test_no_descriptor_is_left_open(root: Path) -> None:
    (root / "folder").symlink_to(root.parent / "outside", target_is_directory=True)
    lowest = os.dup(0)
    os.close(lowest)
    for path in ("a/b/note.md", "a/b/none", "folder/note.md", "a/b", "../x"):
        for links in ("refuse", "inside", "follow"):
            with pytest.raises((OSError, AssertionError)):
                assert not read_file(path, LIMIT, root=root, links=links)
    with pytest.raises(IsLink):
        listed(root, "folder")
    after = os.dup(0)
    os.close(after)
    assert after == lowest


# --- random trees ---------------------------------------------------------------------------------

_names = st.sampled_from(["a", "b", "c", ".", "..", ""])
_paths = st.lists(_names, min_size=1, max_size=4).map("/".join)
_targets = st.one_of(_paths, st.sampled_from(["/etc/hostname", "../secret", "../../secret"]))
_entries = st.lists(st.tuples(_paths, st.sampled_from(["file", "folder", "link"]), _targets))


@posix
@given(_entries, st.lists(_paths, min_size=1, max_size=5))
def test_exactly_the_files_reached_without_a_link_are_read(
    entries: list[tuple[str, str, str]], asked: list[str]
) -> None:
    """This holds for any path in any tree of files, folders and links."""
    with TemporaryDirectory() as folder:
        top = Path(os.path.realpath(folder))
        (top / "secret").write_bytes(b"secret")
        root = top / "root"
        root.mkdir()
        for path, kind, target in entries:
            _make(root, path, kind, target)
        for path in asked:
            plain = os.path.join(root, path)
            expected = (
                os.path.realpath(plain) == plain and os.path.isfile(plain) and path[:1] != "/"
            )
            try:
                data = read_file(path, LIMIT, root=root)
            except OSError:
                assert not expected, path
            else:
                assert expected, path
                assert data == b"inside"


def _make(root: Path, path: str, kind: str, target: str) -> None:
    place = os.path.normpath(os.path.join(root, path))
    if not place.startswith(f"{root}/") or not os.path.realpath(place).startswith(f"{root}/"):
        return
    try:
        if kind == "file":
            Path(place).write_bytes(b"inside")
        elif kind == "folder":
            os.makedirs(place, exist_ok=True)
        elif not os.path.lexists(place):
            os.symlink(target or "a", place)
    except OSError:
        return


# --- files beside a store, and of a model ---------------------------------------------------------


@posix
def test_no_other_reader_waits_for_a_pipe(tmp_path: Path) -> None:
    """A folder from elsewhere may contain a store or a model."""
    os.mkfifo(tmp_path / "kb.sqlite-vectors")
    os.mkfifo(tmp_path / "config.json")
    with watchdog():
        assert matrix_file.read(tmp_path / "kb.sqlite", matrix_file.Owner("id", 1, 8)) is None
        for read in (checksums.sha256_of, onnx_file.read):
            with pytest.raises(ReadRefused):
                read(tmp_path / "config.json")
        with pytest.raises(ModelBroken, match="not a regular file"):
            inferred_manifest._config(tmp_path)


@posix
def test_the_files_of_an_open_store_are_refused_under_every_name(tmp_path: Path) -> None:
    store = tmp_path / "kb.sqlite"
    for name in ("kb.sqlite", "kb.sqlite-wal", "kb.sqlite-shm", "other.sqlite"):
        (tmp_path / name).write_bytes(b"data")
    os.link(store, tmp_path / "hard")
    (tmp_path / "soft").symlink_to(store)
    hold_store(store)
    hold_store(store)
    try:
        for name in ("kb.sqlite", "kb.sqlite-wal", "kb.sqlite-shm", "hard", "soft"):
            with pytest.raises(StoreFile, match="belongs to an open store"):
                read_file(tmp_path / name, 100, links="follow")
        with pytest.raises(StoreFile):
            read_file("kb.sqlite", 100, root=os.path.realpath(tmp_path))
        assert read_file(tmp_path / "other.sqlite", 100) == b"data"
        release_store(store)
        with pytest.raises(StoreFile):
            read_file(store, 100)
    finally:
        release_store(store)
    assert read_file(store, 100) == b"data"
