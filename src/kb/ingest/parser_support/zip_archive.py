"""Zip files of unknown origin: office files and books. Bounded, whatever their index claims."""

from __future__ import annotations

import io
import lzma
import posixpath
import struct
import zipfile
import zlib
from urllib.parse import unquote
from xml.etree import ElementTree

from kb.ingest.decode import Unreadable, Unsupported

PART_BYTES = 64 * 1024 * 1024
TOTAL_BYTES = 256 * 1024 * 1024
# Text is packed to a tenth, seldom to a fiftieth. A bomb goes to a thousandth.
_RATIO = 200
_HARMLESS_BYTES = 1024 * 1024
_STEP_BYTES = 64 * 1024
_BROKEN = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, ValueError,
    NotImplementedError, RuntimeError, OverflowError,
)  # fmt: skip


class Archive:
    """The parts of a zip file, by name."""

    def __init__(self, data: bytes) -> None:
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            self._parts = {part.filename: part for part in self._zip.infolist()}
        except _BROKEN as error:
            raise Unreadable(f"not a valid zip file: {error}") from error
        self._left_bytes = TOTAL_BYTES

    def __contains__(self, name: str) -> bool:
        return name in self._parts

    def names(self) -> list[str]:
        return sorted(self._parts)

    def read(self, name: str) -> bytes | None:
        """The part, or None when there is none of this name."""
        part = self._parts.get(name)
        if part is None:
            return None
        if part.flag_bits & 1:
            raise Unsupported("encrypted: needs a password")
        if part.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Unreadable(f"{name} is packed in a way that office files and books do not use")
        limit = min(PART_BYTES, self._left_bytes, max(_HARMLESS_BYTES, _RATIO * part.compress_size))
        try:
            data = self._unpacked(part, limit)
        except _BROKEN as error:
            raise Unreadable(f"{name} cannot be unpacked: {error}") from error
        self._left_bytes -= len(data)
        return data

    def _unpacked(self, part: zipfile.ZipInfo, limit: int) -> bytes:
        """The part, unless it is longer than `limit`, whatever its index says: step by step, since
        the size that is said there is not what a decompressor gives."""
        steps: list[bytes] = []
        size = 0
        with self._zip.open(part) as stream:
            while step := stream.read(_STEP_BYTES):
                size += len(step)
                if size > limit or part.file_size > limit:
                    longest = max(size, part.file_size)
                    raise Unreadable(
                        f"{part.filename} is too large when unpacked: {longest:,} bytes"
                    )
                steps.append(step)
        return b"".join(steps)

    def xml(self, name: str) -> ElementTree.Element | None:
        """The part as XML. One that defines entities is refused: none of ours has a use for them,
        and a few lines of them can stand for gigabytes."""
        data = self.read(name)
        if data is None:
            return None
        if b"<!ENTITY" in data.replace(b"\0", b""):
            raise Unreadable(f"{name} defines entities")
        try:
            return ElementTree.fromstring(data)
        except (ElementTree.ParseError, ValueError, LookupError) as error:
            raise Unreadable(f"{name} is not valid XML: {error}") from error


def local(element: ElementTree.Element) -> str:
    """The element's name, whatever its namespace: there are several for the same."""
    return str(element.tag).rpartition("}")[2]


def named(root: ElementTree.Element | None, name: str) -> list[ElementTree.Element]:
    """All elements of this name in `root`."""
    return [one for one in root.iter() if local(one) == name] if root is not None else []


def resolved(base: str, href: str) -> str:
    """The name of the part that `href`, in the part `base`, refers to."""
    path = unquote(href.partition("#")[0])
    if path.startswith("/"):
        return path.lstrip("/")
    return posixpath.normpath(posixpath.join(posixpath.dirname(base), path))
