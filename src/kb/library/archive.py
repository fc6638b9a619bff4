"""Exports to files and streams, imports from them, and attaching folders to imported roots."""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any, cast

from kb import atomic
from kb.config import IngestConfig
from kb.errors import BrokenImport, InvalidRequest, NotFound, PathMissing, check_path
from kb.ingest.secret_files import (
    HOW_TO_INCLUDE,
    SECRET,
    included_paths,
    is_included,
    leads_to_secret,
)
from kb.ports import Store
from kb.text.normalize import nfc
from kb.types import ImportReport, JsonDict, Root

OnProgress = Callable[[int, int], None]  # done, total

# A line holds one chunk, or a note with its text.
_HEADER_BYTES = 1 << 20
_LINE_BYTES = 64 << 20
# Text compresses to about a tenth. A file that expands more was made to fill the disk.
_MAX_EXPANSION = 200
_UNCHECKED_BYTES = 64 << 20  # any file may expand to this size


def export(
    store: Store,
    target: IO[bytes] | str | os.PathLike[str],
    *,
    overwrite: bool,
    on_progress: OnProgress,
    vectors: bool = False,
) -> JsonDict:
    """Write the store to a stream or a file, and return the header. The file is as private as the
    store. Pipes and devices are written to, not replaced."""
    if hasattr(target, "write"):
        return _write(store, cast(IO[bytes], target), on_progress, vectors)
    path = check_path("an export", target)
    atomic.check_not_store(path, store.path)
    with atomic.open_stream(path) as device:
        if device is not None:
            with _compress(device, path) as stream:
                return _write(store, stream, on_progress, vectors)
    mode = stat.S_IMODE(store.path.stat().st_mode) if store.path.exists() else 0o600
    with (
        atomic.atomic_path(path, overwrite=overwrite, mode=mode, follow_links=True) as part,
        open(part, "wb") as file,
        _compress(file, path) as stream,
    ):
        return _write(store, stream, on_progress, vectors)


def import_(
    store: Store,
    source: IO[bytes] | str | os.PathLike[str],
    *,
    merge: bool,
    on_progress: OnProgress,
) -> ImportReport:
    """Import an export, compressed or not, from a stream or a file."""
    if not hasattr(source, "read"):
        with _open(check_path("an import", source)) as file:
            return import_(store, file, merge=merge, on_progress=on_progress)
    with _peekable(cast(IO[bytes], source)) as reader:
        report = store.maintenance.load(
            _lines(_decompress(reader)), merge=merge, on_progress=on_progress
        )
    store.fulltext.build_index()
    return report


def attach(
    store: Store, name: str, folder: str | os.PathLike[str] | None, ingest: IngestConfig
) -> tuple[list[str], Root]:
    """Set the folder of the root `name` to `folder`, or confirm the folder that it has. Returns the
    paths to ingest, and the root."""
    root = next(
        (each for each in store.catalog.roots() if each.name == nfc(name).rstrip("/")), None
    )
    if root is None:
        raise NotFound(f"the store has no folder {name!r}", "kb status lists its folders")
    given = root.path if folder is None else os.path.expanduser(os.fspath(folder))
    if "\0" in given or not os.path.isdir(path := os.path.realpath(given)):
        raise PathMissing(f"{given!r} is not a folder", f"give its folder: kb attach {name} FOLDER")
    included = included_paths(ingest.include_secrets)
    if leads_to_secret(path, folder=True) and not is_included(path, included):
        raise InvalidRequest(f"{path} {SECRET}", HOW_TO_INCLUDE)
    if any(each.path == path for each in store.catalog.roots() if each.root_id != root.root_id):
        raise InvalidRequest(f"{path} is already in the store", "kb status lists its folders")
    _check_not_inside(store, root, path)
    states = store.catalog.file_states(root.root_id).values()
    files = [os.path.join(path, os.fsdecode(each.os_path or each.path)) for each in states]
    present = [file for file in files if os.path.lexists(file)]
    if files and not present:
        raise InvalidRequest(
            f"{path} contains none of the {len(files)} files of {root.name}",
            f"give the folder that contains them: kb attach {root.name} FOLDER",
        )
    store.catalog.attach_root(root.root_id, path)
    return [path] if root.whole else present, root


def _check_not_inside(store: Store, root: Root, path: str) -> None:
    """Raise `InvalidRequest` if documents of another root are below `path`. A file belongs to its
    innermost root, so the next ingest would remove them, with the tags that only the store has."""
    for each in store.catalog.roots():
        folder = os.path.join(each.path, "")
        if each.root_id == root.root_id or each.detached or not path.startswith(folder):
            continue
        inner = os.path.join(path.removeprefix(folder), "").replace(os.sep, "/")
        if any(name.startswith(inner) for name in store.catalog.file_states(each.root_id)):
            raise InvalidRequest(
                f"{path} belongs to the folder {each.name}, which has documents from it",
                f"keep the imported text of {root.name} as it is, or first remove the "
                f"documents of one of them: kb rm {each.name}/{inner} or kb rm {root.name}/",
            )


def missing_files_note(store: Store, root: Root) -> list[str]:
    """A note about the documents of a root whose files are missing, if there are any."""
    count = sum(state.detached for state in store.catalog.file_states(root.root_id).values())
    if not count:
        return []
    if count == 1:
        return ["1 document has no file there and keeps its imported text; to remove it: kb rm"]
    return [f"{count} documents have no file there and keep their text; to remove one: kb rm"]


def _open(path: Path) -> IO[bytes]:
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise PathMissing(f"there is no file {path}", "give an export file") from None
    except OSError as error:
        raise InvalidRequest(
            f"cannot read {path}: {error.strerror}", "give an export file"
        ) from error


def _write(store: Store, stream: IO[bytes], on_progress: OnProgress, vectors: bool) -> JsonDict:
    with closing(store.maintenance.export(vectors=vectors)) as lines:  # ends its snapshot
        first = next(lines)
        header: JsonDict = json.loads(first)
        total = sum(header["counts"].values())
        stream.write(first)
        for done, line in enumerate(lines, start=1):
            stream.write(line)
            on_progress(done, total)
    return header


@contextmanager
def _compress(file: IO[bytes], target: Path) -> Iterator[IO[bytes]]:
    """Compress what is written to `file` if the target ends in `.gz`. The result contains neither
    name nor time, so that equal stores produce equal files."""
    if target.suffix != ".gz":
        yield file
        return
    with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed:
        yield cast(IO[bytes], compressed)


@contextmanager
def _peekable(stream: IO[bytes]) -> Iterator[io.BufferedReader]:
    """Add `peek` to a stream that lacks it. The stream stays open: the caller owns it."""
    if hasattr(stream, "peek"):
        yield cast(io.BufferedReader, stream)
        return
    reader: io.BufferedReader = io.BufferedReader(cast(Any, stream))
    try:
        yield reader
    finally:
        reader.detach()


def _decompress(reader: io.BufferedReader) -> IO[bytes]:
    """Decompress the stream if it starts with the magic number of gzip."""
    if reader.peek(2)[:2] != b"\x1f\x8b":
        return reader
    counter = _ByteCounter(reader)
    decompressed = gzip.GzipFile(fileobj=cast(IO[bytes], counter))
    return cast(IO[bytes], _BoundedReader(decompressed, counter))


class _ByteCounter:
    """Counts the bytes that are read from a stream."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.count += len(data)
        return data


class _BoundedReader:
    """Reads the lines of a compressed stream, and refuses a decompression bomb."""

    def __init__(self, stream: gzip.GzipFile, compressed: _ByteCounter) -> None:
        self._stream = stream
        self._compress = compressed
        self._count = 0

    def readline(self, limit: int) -> bytes:
        line = self._stream.readline(limit)
        self._count += len(line)
        if self._count > max(_UNCHECKED_BYTES, _MAX_EXPANSION * self._compress.count):
            raise BrokenImport(
                f"it expands to more than {_MAX_EXPANSION} times its size",
                "if this really is an export of kb, decompress it with gunzip and import "
                "the result",
            )
        return line


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    """The lines of a stream, none longer than the limits."""
    limit, number = _HEADER_BYTES, 1
    while line := _read(stream, limit, number):
        if len(line) > limit:
            raise BrokenImport(
                f"line {number}: longer than {limit:,} bytes", "this is not an export of kb"
            )
        yield line
        limit, number = _LINE_BYTES, number + 1


def _read(stream: IO[bytes], limit: int, number: int) -> bytes:
    try:
        line = stream.readline(limit + 1)
        if isinstance(line, bytes):
            return line
        raise InvalidRequest("an import needs a binary stream", "open the file with mode 'rb'")
    except OSError as error:
        if not isinstance(error, gzip.BadGzipFile):
            raise InvalidRequest(f"cannot read the import: {error}", "try again") from error
        raise BrokenImport(
            f"line {number}: damaged compression ({error})", "nothing was imported; export again"
        ) from error
    except (EOFError, zlib.error) as error:
        raise BrokenImport(
            f"line {number}: damaged compression ({error})", "nothing was imported; export again"
        ) from error
