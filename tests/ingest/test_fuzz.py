"""More than 20,000 damaged files through every parser, each in a separate process: it must not
hang, take all memory, crash, or raise anything but `Unreadable` and `Unsupported`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kb.ingest.parse import Parsers, Unreadable
from kb.ingest.parsers.html.parser import HtmlParser
from kb.ingest.parsers.table import TableParser
from kb.ports import Source
from tests.ingest.fuzz import COMMAND, COUNTS, SEEDS, TOKENS, WATCHDOG_S, case

REPOSITORY = Path(__file__).parents[2]
BATCH = 250
GRACE_S = 60  # so that the inner watchdog reports first
MOST = 10  # failures reported for one parser


def test_every_parser_is_fuzzed() -> None:
    registered = {parser.name for parser in Parsers(1800, plug_ins=())}
    assert registered == set(SEEDS) == set(TOKENS) == set(COUNTS)
    assert sum(COUNTS.values()) >= 20_000


@pytest.mark.parametrize("parser", SEEDS)
def test_an_input_is_known_by_its_number(parser: str) -> None:
    assert case(parser, 7) == case(parser, 7)
    assert len({case(parser, seed).data for seed in range(20)}) > 10


# --- earlier findings -----------------------------------------------------------------------------


@pytest.mark.parametrize("tag", ["<pre><dl>", "<td<pre>", "<unheard-of>", "<x/>", "<svg><p><x/>"])
def test_html_nested_by_any_element_is_refused_at_once(tag: str) -> None:
    """This took minutes when only the depth of some elements was checked."""
    with pytest.raises(Unreadable, match="levels deep"):
        HtmlParser().parse(Source("a.html", tag.encode() * 100_000))


@pytest.mark.parametrize(
    "page",
    [
        "<svg>" + "<path d='M0 0'/>" * 40_000 + "</svg><p>text",
        "<script>" + "i<n;" * 40_000 + "</script><p>text",
        "<!--" + "<div>" * 40_000 + "--><p>text",
        "<div><p>text</p><br/></div>" * 40_000,
        "<ul>" + "<li>text" * 40_000,
    ],
)
def test_much_html_is_not_deep_html(page: str) -> None:
    assert "text" in (HtmlParser().parse(Source("a.html", page.encode())).text or "")


def test_a_table_that_says_a_quote_parts_its_cells() -> None:
    """`csv` of Python 3.13 and later refuses that with a ValueError."""
    parsed = TableParser(1).parse(Source("a.csv", b'sep="\na"b\n1"2\n'))
    assert "".join(block.text for block in parsed.blocks) == 'sep="a"b1"2'


def test_damaged_files_through_parser_processes() -> None:
    """A few of each format; a campaign of 100,000 is run by hand."""
    command = [sys.executable, "-m", "tests.ingest.fuzz", "--through-workers"]
    ended = subprocess.run(
        [*command, "--count", str(4 * len(SEEDS))],
        cwd=REPOSITORY, capture_output=True, timeout=WATCHDOG_S + GRACE_S,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr.decode()
    done = json.loads(ended.stdout.splitlines()[-1])["done"]
    assert sum(done.values()) == 4 * len(SEEDS)
    assert set(done) <= {"read", "unreadable", "unsupported"}


# --- the campaign ---------------------------------------------------------------------------------


class Ran(NamedTuple):
    done: dict[str, int] | None  # None: it did not finish
    last: int | str | None
    failures: list[str]


def run(parser: str, start: int, stop: int) -> Ran:
    command = [sys.executable, "-W", "error", "-m", "tests.ingest.fuzz", "--parser", parser]
    try:
        ended = subprocess.run(
            [*command, "--from", str(start), "--to", str(stop)],
            cwd=REPOSITORY, capture_output=True, timeout=WATCHDOG_S + GRACE_S,
        )  # fmt: skip
        out, how = ended.stdout, f"ended with {ended.returncode}\n{ended.stderr.decode()[-4000:]}"
    except subprocess.TimeoutExpired as expired:
        out, how = expired.stdout or b"", f"killed after {expired.timeout} s"
    said: list[dict[str, Any]] = [
        json.loads(line) for line in out.splitlines() if line[-1:] == b"}"
    ]
    last = next((one["seed"] for one in reversed(said) if "seed" in one), None)
    done = next((one["done"] for one in said if "done" in one), None)
    failures = [
        f"{COMMAND.format(parser=parser, seed=one['failed'])}\n({one['mutation']})\n{one['why']}"
        for one in said
        if "failed" in one
    ]
    if done is None:
        known = f"({case(parser, last).mutation})" if isinstance(last, int) else ""
        failures.append(f"{COMMAND.format(parser=parser, seed=last)}\n{known}\n{how}")
    return Ran(done, last, failures)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits")
@pytest.mark.parametrize("parser", SEEDS)
def test_damaged_files(parser: str) -> None:
    counted: Counter[str] = Counter()
    failures: list[str] = []
    at = 0
    while at < COUNTS[parser] and len(failures) < MOST:
        stop = min(at + BATCH, COUNTS[parser])
        ran = run(parser, at, stop)
        failures += ran.failures
        counted.update(ran.done or {})
        # The inputs after the one that ended it are tried as well.
        at = ran.last + 1 if ran.done is None and isinstance(ran.last, int) else stop
        if ran.last is None:
            break
    assert not failures, "\n\n".join(failures[:MOST])
    assert sum(counted.values()) == COUNTS[parser]
    if parser == "image":
        return  # without the extra `ocr`, nothing is read
    # Most damage breaks a SQLite file, and the checksum of a compressed one.
    least = 25 if parser in ("zotero", "gzip") else 10
    assert counted["read"] * least >= COUNTS[parser], f"hardly anything gets through: {counted}"
