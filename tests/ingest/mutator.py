"""Random mutations of files, for fuzz tests."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any
from xml.etree import ElementTree

from tests.ingest.parsers.archives import zipped

_NUMBERS = (b"0", b"-1", b"1", b"255", b"65536", b"2147483648", b"4294967295", b"9" * 20,
            b"9" * 5000, b"1e308", b"0.1", b"nan", b"")  # fmt: skip


class Mutator:
    """Random mutations. Each method takes bytes and returns mutated ones. `tokens` are those of the
    format; `inputs` returns the undamaged inputs of a format, and `parsers` are all formats."""

    def __init__(
        self,
        parser: str,
        chance: random.Random,
        tokens: Sequence[bytes],
        inputs: Callable[[str], Sequence[bytes]],
        parsers: Sequence[str],
    ) -> None:
        self._parser = parser
        self._chance = chance
        self._tokens = tokens
        self._inputs = inputs
        self._parsers = parsers
        self.done: list[str] = []

    def mutated(self, data: bytes) -> bytes:
        ways = (
            self.flip, self.delete, self.insert, self.duplicate, self.truncate, self.splice,
            self.tokens, self.tokens, self.repeat, self.number, self.shuffle,
        )  # fmt: skip
        for _ in range(self._chance.choice((1, 1, 1, 2, 3, 5))):
            way = self._chance.choice(ways)
            self.done.append(way.__name__)
            data = way(data)
        return data

    def _at(self, data: bytes) -> int:
        return self._chance.randint(0, len(data))

    def _range(self, data: bytes) -> tuple[int, int]:
        at = self._at(data)
        return at, at + self._chance.choice((1, 4, 40, 400, max(1, len(data) // 2)))

    def flip(self, data: bytes) -> bytes:
        broken = bytearray(data)
        for _ in range(self._chance.randint(1, 16) if data else 0):
            broken[self._chance.randrange(len(broken))] ^= 1 << self._chance.randrange(8)
        return bytes(broken)

    def delete(self, data: bytes) -> bytes:
        start, end = self._range(data)
        return data[:start] + data[end:]

    def insert(self, data: bytes) -> bytes:
        at = self._at(data)
        return data[:at] + self._chance.randbytes(self._chance.choice((1, 4, 64))) + data[at:]

    def duplicate(self, data: bytes) -> bytes:
        start, end = self._range(data)
        at = self._at(data)
        return data[:at] + data[start:end] + data[at:]

    def truncate(self, data: bytes) -> bytes:
        return data[: self._at(data)]

    def splice(self, data: bytes) -> bytes:
        """The beginning of this input and the end of another one, sometimes of another format."""
        own = self._chance.random() < 0.8
        parser = self._parser if own else self._chance.choice(self._parsers)
        other = self._chance.choice(self._inputs(parser))
        return data[: self._at(data)] + other[self._at(other) :]

    def tokens(self, data: bytes) -> bytes:
        for _ in range(self._chance.randint(1, 12)):
            at = self._at(data)
            token = self._chance.choice(self._tokens)
            data = data[:at] + token + self._chance.choice((b"", b" ", b"\n")) + data[at:]
        return data

    def repeat(self, data: bytes) -> bytes:
        """Repeat a part: usually a few thousand times, sometimes up to a megabyte."""
        start, end = self._range(data)
        picked = [self._chance.choice(self._tokens) for _ in range(3)]
        unit = self._chance.choice(
            (data[start:end], picked[0], b"".join(picked), picked[0] + b"\n")
        )
        size = self._chance.choice((*(1_000, 10_000, 10_000, 50_000) * 4, 1_000_000))
        return data[:start] + unit * (size // (len(unit) or 1)) + data[start:]

    def number(self, data: bytes) -> bytes:
        """Change one number, or all numbers from some position on."""
        places = [at for at, byte in enumerate(data) if byte in b"0123456789"]
        if not places:
            return data
        start = end = self._chance.choice(places)
        while data[end : end + 1].isdigit():
            end += 1
        return data[:start] + self._chance.choice(_NUMBERS) + data[end:]

    def shuffle(self, data: bytes) -> bytes:
        lines = data.split(b"\n")
        self._chance.shuffle(lines)
        return b"\n".join(lines)

    # --- inside a container -----------------------------------------------------------------------

    def inside(self, data: bytes) -> bytes:
        """Damage a part of a zip file, or a value of JSON; the rest stays valid."""
        if data.startswith(b"PK"):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                parts: dict[str, str | bytes] = {
                    name: archive.read(name) for name in archive.namelist()
                }
            name = self._chance.choice(list(parts))
            self.done.append(f"in {name}")
            whole = parts[name]
            assert isinstance(whole, bytes)
            by_element = self._chance.random() < 0.5
            return zipped(parts | {name: (self._in_xml if by_element else self.mutated)(whole)})
        if self._parser == "notebook":
            tree = json.loads(data)
            self._in_json(tree)
            return json.dumps(tree).encode()
        return self.mutated(data)

    def _in_xml(self, data: bytes) -> bytes:
        """Remove, repeat and move elements, and change their values."""
        try:
            root = ElementTree.fromstring(data)
        except ElementTree.ParseError:
            return self.mutated(data)
        self.done.append("elements")
        for _ in range(self._chance.randint(1, 12)):
            every = list(root.iter())
            one, other = self._chance.choice(every), self._chance.choice(every)
            match self._chance.randrange(6):
                case 0 if len(one):
                    one.remove(self._chance.choice(list(one)))
                case 1 if len(every) < 5000:
                    one.append(deepcopy(other))
                case 2 if one.attrib:
                    key = self._chance.choice(list(one.attrib))
                    values = [number.decode() for number in _NUMBERS] + list(other.attrib.values())
                    one.attrib[key] = self._chance.choice(values)
                case 3:
                    one.text = self._chance.choice(("", "x" * 3000, "\n\t", "é中\u2028", "#|`"))
                case 4:
                    one.tag = other.tag
                case _:
                    ElementTree.SubElement(one, other.tag, dict(other.attrib)).text = "deep"
        # Deep nesting is inserted as text, since the library that serializes XML is recursive.
        tag = str(self._chance.choice(list(root.iter())).tag).rpartition("}")[2].encode()
        depth = self._chance.choice((0, 1, 10, 3000))
        deep = b"<%b>" % tag * depth + b"x" + b"</%b>" % tag * depth
        return ElementTree.tostring(root).replace(b"deep", deep)

    def _in_json(self, tree: Any) -> None:
        for _ in range(self._chance.randint(1, 4)):
            node = tree
            while True:
                keys: Sequence[Any] = list(node) if isinstance(node, dict) else range(len(node))
                key = self._chance.choice(keys)
                if not isinstance(node[key], dict | list) or not node[key]:
                    break
                if self._chance.random() < 0.15:
                    break
                node = node[key]
            text = node[key] if isinstance(node[key], str) else "text"
            damaged = self.mutated(text.encode("utf-8", "replace")).decode("utf-8", "replace")
            others: tuple[Any, ...] = (None, True, -1, 1e308, "", [], {}, [[]], [{"source": [1]}],
                                       [None, "x"], {"name": []}, "\ud800", "#" * 3000)  # fmt: skip
            node[key] = damaged if self._chance.random() < 0.6 else self._chance.choice(others)
