"""Good and bad parsers of another package, which parser processes load by name."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kb.ingest.decode import Unavailable
from kb.ingest.parsers import text
from kb.ports import Parsed, Source
from kb.types import Attributes, Block, Span

if TYPE_CHECKING:
    import pytest


def plug_in(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Install parsers of this module."""
    from importlib.metadata import EntryPoint

    from kb.ingest import parse

    points = [EntryPoint(name, f"{__name__}:{name}", parse.GROUP) for name in names]
    monkeypatch.setattr(parse, "entry_points", lambda group: points)


class ShortWindows(text.TextParser):
    """Reads a text of a few kilobytes as if it were a long one."""

    name = "short"

    def parse(self, source: Source) -> Parsed:
        usual = text.WINDOW_BYTES
        text.WINDOW_BYTES = max(1000, len(source.data) // 12)
        try:
            return super().parse(source)
        finally:
            text.WINDOW_BYTES = usual


class WithoutItsLibrary:
    name = "html"
    version = "2"

    def accepts(self, source: Source) -> bool:
        return source.name.endswith(".html")

    def parse(self, source: Source) -> Parsed:
        raise Unavailable("to read it, run: pip install 'kb-search[html]'")


class Misbehaving:
    """Runs the method that the first word of a file named `*.bad` names."""

    name = "bad"
    version = "1"

    def accepts(self, source: Source) -> bool:
        return source.name.endswith(".bad")

    def parse(self, source: Source) -> Parsed:
        word = source.data.decode().split()[0]
        return Parsed(
            "bad", getattr(self, word)(), attributes=Attributes(metadata={"pid": os.getpid()})
        )

    def behave(self) -> list[Block]:
        return [_block("good words")]

    def sleep(self) -> list[Block]:
        time.sleep(600)
        return []

    def spin(self) -> list[Block]:
        while True:
            pass

    def sleep_later(self) -> Iterator[Block]:
        """Sleep in a later window; the store already has the first one."""
        for number in range(2000):
            yield _block(f"words {number} " * 30)
        time.sleep(600)

    def fill_memory(self) -> list[Block]:
        held = []
        while True:
            held.append(bytearray(1024 * 1024))

    def fill_memory_later(self) -> Iterator[Block]:
        for number in range(2000):
            yield _block(f"words {number} " * 30)
        self.fill_memory()

    def keep_memory(self) -> list[Block]:
        _KEPT.append(bytearray(200 * 1024 * 1024))
        return [_block("good words")]

    def flood(self) -> Iterator[Block]:
        while True:
            yield _block("all the same " * 1000)

    def raise_much(self) -> list[Block]:
        raise ValueError("long " * 10_000_000)

    def leave(self) -> list[Block]:
        sys.exit("had enough")

    def crash(self) -> list[Block]:
        os.kill(os.getpid(), signal.SIGSEGV)
        return []

    def vanish(self) -> list[Block]:
        os._exit(0)

    def print_much(self) -> list[Block]:
        sys.stdout.write("printed " * 1000)
        sys.stdout.flush()
        os.write(1, b"written " * 1000)
        return [_block("good words")]

    def read_input(self) -> list[Block]:
        return [_block(f"read {sys.stdin.read()!r}")]

    def show_secrets(self) -> list[Block]:
        return [_block(" ".join(name for name, value in os.environ.items() if value == "secret"))]

    def surrogate(self) -> list[Block]:
        return [_block("half \ud800 of a character")]


_KEPT: list[bytearray] = []


def _block(words: str) -> Block:
    return Block(words, Span("verse", extra={"verse": 1}), boundary=True)
