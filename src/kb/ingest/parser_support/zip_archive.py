"""Bounded access to zip files of unknown origin: office files and books."""

from __future__ import annotations

import io
import lzma
import posixpath
import struct
import zipfile
import zlib
from collections import Counter
from urllib.parse import unquote
from xml.etree import ElementTree

from kb.ingest.decode import Unreadable, Unsupported

PART_BYTES = 64 * 1024 * 1024
TOTAL_BYTES = 256 * 1024 * 1024
# Text shrinks to a tenth, rarely to a fiftieth; a zip bomb to a thousandth.
_RATIO = 200
_HARMLESS_BYTES = 1024 * 1024
_STEP_BYTES = 64 * 1024
_ZIP_ERRORS = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, ValueError,
    NotImplementedError, RuntimeError, OverflowError,
)  # fmt: skip


class Archive:
    """The parts of a zip file, by name. Raises `Unreadable` for an invalid file."""

    def __init__(self, data: bytes) -> None:
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            parts = self._zip.infolist()
        except _ZIP_ERRORS as error:
            raise Unreadable(f"not a valid zip file: {error}") from error
        self._parts = {part.filename: part for part in parts}
        self._names = [part.filename for part in parts]
        self._by_lower = {
            name.lower().replace("\\", "/"): part for name, part in self._parts.items()
        }
        self._remaining_bytes = TOTAL_BYTES

    def __contains__(self, name: str) -> bool:
        return name in self._parts

    def names(self) -> list[str]:
        return sorted(self._parts)

    def replaced_names(self) -> list[str]:
        """The names that several parts have; only the last of these parts is read."""
        return sorted(name for name, count in Counter(self._names).items() if count > 1)

    def read(self, name: str) -> bytes | None:
        """Return the part, or None if no part has this name.

        Raises `Unsupported` if it is encrypted, `Unreadable` if it is damaged or too large.
        """
        # If no name is the same, names are compared without case, and some programs write "\".
        part = self._parts.get(name) or self._by_lower.get(name.lower())
        if part is None:
            return None
        if part.flag_bits & 1:
            raise Unsupported("encrypted: save a copy without a password")
        if part.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Unreadable(f"{name} uses a compression that office files and books do not use")
        limit = min(
            PART_BYTES, self._remaining_bytes, max(_HARMLESS_BYTES, _RATIO * part.compress_size)
        )
        try:
            data = self._decompress(part, limit)
        except _ZIP_ERRORS as error:
            raise Unreadable(f"{name} cannot be unpacked: {error}") from error
        self._remaining_bytes -= len(data)
        return data

    def _decompress(self, part: zipfile.ZipInfo, limit: int) -> bytes:
        """Decompress at most `limit` bytes, in steps, since the declared size may be false."""
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
        """Parse the part as XML; None if it does not exist.

        Raises `Unreadable` if it is not valid or defines entities, which these formats do not need
        and with which a few lines can expand to gigabytes.
        """
        data = self.read(name)
        if data is None:
            return None
        if b"<!ENTITY" in data.replace(b"\0", b""):
            raise Unreadable(f"{name} defines XML entities, which are not allowed")
        try:
            return ElementTree.fromstring(data)
        except (ElementTree.ParseError, ValueError, LookupError) as error:
            raise Unreadable(f"{name} is not valid XML: {error}") from error


def local_name(element: ElementTree.Element) -> str:
    """The name of an element without its namespace, of which several are in use."""
    return str(element.tag).rpartition("}")[2]


def find_all(root: ElementTree.Element | None, name: str) -> list[ElementTree.Element]:
    """All elements in `root` with this local name."""
    return (
        [element for element in root.iter() if local_name(element) == name]
        if root is not None
        else []
    )


def resolve_href(base: str, href: str) -> str:
    """The name of the part to which `href` in the part `base` refers."""
    path = unquote(href.partition("#")[0])
    if path.startswith("/"):
        return path.lstrip("/")
    return posixpath.normpath(posixpath.join(posixpath.dirname(base), path))
