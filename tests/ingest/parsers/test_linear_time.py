"""Texts that once took quadratic time or worse. Each is read in a separate process with a limit of
a minute, which it would exceed."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SCRIPT = """
import sys
from kb.ingest.chunk import chunk
from kb.ingest.parse import Parsers
from kb.ports import Source

name, before, unit, after = sys.argv[1:]
source = Source(name, (before + unit * (1_000_000 // len(unit)) + after).encode())
parser = Parsers(1800, plug_ins=()).detect(source)
print(len(chunk(parser.parse(source).blocks, 1800)))
"""


@pytest.mark.parametrize(
    ("name", "before", "unit", "after"),
    [
        ("a.html", "<pre>x", "\n", "x</pre>"),
        ("a.html", "<h1>x", "#", "x</h1>"),
        ("a.html", "<h1>x</h1><meta property='og:title' content='x", " | y", "'>"),
    ],
)
def test_texts_that_are_long_and_odd(name: str, before: str, unit: str, after: str) -> None:
    command = [sys.executable, "-c", _SCRIPT, name, before, unit, after]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert int(ended.stdout) > 0
