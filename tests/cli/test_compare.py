"""`kb compare`: six methods side by side, as text and as JSON."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kb.cli.compare_view import comparison_text, problem_lines, shared_letters
from kb.cli.output import Console, display_width
from kb.types import (
    COMPARED,
    Citation,
    Compared,
    Comparison,
    Degraded,
    Hit,
    Overlap,
    Retrieval,
    Span,
)
from tests.cli.conftest import Run
from tests.cli.test_contract import Valid
from tests.models.weightless import Weightless

Library = Callable[[dict[str, str]], Path]


@pytest.fixture
def harbour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: Library, run: Run) -> None:
    encoder = Weightless()
    monkeypatch.setattr("kb.models.encoder", lambda *_: encoder)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".kb").mkdir()
    (tmp_path / ".kb" / "config.toml").write_text('[profiles.research]\nrerank = "colbert"\n')
    library(
        {
            "keys.md": "# Keys\n\nThe harbour master keeps the keys.\n",
            "boat.md": "# Boat\n\nA boat lies in the harbour.\n",
            "bread.md": "# Bread\n\nFlour, water, salt.\n",
        }
    )
    assert run("ingest", "lib").status == 0


@pytest.mark.usefixtures("harbour")
def test_as_json(run: Run, valid: Valid) -> None:
    told = run("compare", "harbour", "keys", "--top", "2", "--json")
    assert (told.status, told.err) == (0, "")
    valid("compare.v1", told.json)
    assert (told.json["query"], told.json["top"]) == ("harbour keys", 2)
    assert all(method["count"] == 2 for method in told.json["methods"].values())
    filtered = run("compare", "harbour", "--path", "lib/k*", "--json").json
    assert all(method["count"] == 1 for method in filtered["methods"].values())


@pytest.mark.usefixtures("harbour")
def test_as_text(run: Run) -> None:
    told = run("compare", "harbour", "keys")
    assert (told.status, told.err) == (0, "")
    assert all(re.search(rf"^{name}  \d hits, ", told.out, re.M) for name in COMPARED)
    assert "A  6 methods  lib/keys.md#L1-L3  Keys" in told.out
    assert re.search(r"^three_way_reranked +2 +3 +2 +3 +3$", told.out, re.M)
    assert re.search(r"^\d+ ms in total, \d+ ms of it shared by all methods$", told.out, re.M)
    assert run("compare", "-").status == 0


def test_words_only(here: Path, run: Run) -> None:
    told = run("compare", "retry storm", "--top", "3")
    assert told.status == 0
    assert "dense_only  error: no model" in told.out
    (line,) = told.err.splitlines()  # one reason, reported once
    assert line.startswith("warning: dense_only, sparse_only")
    assert line.endswith(": the encoder is disabled")


def test_problems(here: Path, run: Run) -> None:
    assert run("compare").status == 2
    assert run("compare", "x", "--top", "0").status == 2
    assert run("compare", "'x AND'").status == 2


# --- layout ---------------------------------------------------------------------------------------


def hit(chunk_id: int, rank: int, uri: str = "") -> Hit:
    place = uri or f"lib/a/quite-a-long-name-{chunk_id}.md#L{chunk_id}-L{chunk_id + 9}"
    citation = Citation("line", "x", place, None, Span("line"))
    return Hit(rank, 1.0, "rrf", chunk_id, 1, "x", f"Title {chunk_id}", (), None, "", citation,
               Retrieval("hybrid"), (), (), "note", None, "1", None, "now")  # fmt: skip


def compared(*chunk_ids: int) -> Compared:
    hits = tuple(hit(chunk_id, rank) for rank, chunk_id in enumerate(chunk_ids, start=1))
    return Compared(hits, 12.34)


FOUND = Comparison(
    "q",
    3,
    {
        "fts5_only": compared(1, 2, 3),
        "dense_only": compared(2, 1, 4),
        "sparse_only": Compared(error={"code": "no_model", "message": "none", "hint": ""}),
        "two_way_hybrid": replace(compared(1), degraded=(Degraded("dense", "failed", "bang"),)),
        "three_way_hybrid": replace(compared(1), degraded=(Degraded("dense", "failed", "bang"),)),
        "three_way_reranked": compared(),
    },
    (Overlap("fts5_only", "dense_only", 2, 0.5),),
    10.0,
    99.9,
)
PLAIN = Console(color=False, width=None)


def test_letters_mark_shared_hits() -> None:
    assert shared_letters(FOUND) == {1: "A", 2: "B"}
    many = Comparison(
        "q", 30, {"a": compared(*range(1, 31)), "b": compared(*range(1, 31))}, (), 0, 0
    )
    assert list(shared_letters(many).values())[25:28] == ["Z", "AA", "AB"]


def test_columns_on_a_wide_terminal() -> None:
    lines = comparison_text(FOUND, Console(color=False, width=120), 160).splitlines()
    assert lines[0].split() == list(COMPARED)
    assert "error: no model" in lines[1]
    assert lines[2].startswith("1  A quite-a-long-n…#L1-L10")
    assert lines[4].split()[1:] == ["·", "quite-a-long-n…#L3-L12", "·", "quite-a-long-n…#L4-L13"]
    starts = [lines[0].index(name) for name in COMPARED]
    assert lines[2][starts[3]] == "A"
    assert all(display_width(line) <= 160 for line in lines)


@pytest.mark.parametrize("width", [None, 80, 100])
def test_blocks_on_a_narrow_terminal(width: int | None) -> None:
    lines = comparison_text(FOUND, Console(color=False, width=width), width).splitlines()
    assert lines[:2] == ["fts5_only  3 hits, 12.3 ms", "1.  A  lib/a/quite-a-long-name-1.md#L1-L10"]
    assert all(display_width(line) <= (width or 200) for line in lines)
    assert lines[-1] == "100 ms in total, 10 ms of it shared by all methods"


def test_wide_letters_and_controls_in_names() -> None:
    methods = {name: Compared((hit(1, 1, "库/数据库连接失败的时候请检查网络设置\x1b[2J.md#L1"),))
               for name in COMPARED}  # fmt: skip
    found = replace(FOUND, methods=methods)
    for width in (60, 150, 200):
        text = comparison_text(found, Console(color=False, width=min(width, 120)), width)
        assert "\x1b" not in text
        assert all(display_width(line) <= width for line in text.splitlines()[:3])


def test_colors_show_how_many_methods_found_a_hit() -> None:
    text = comparison_text(FOUND, Console(color=True, width=120), 160)
    assert "\x1b[33m" in text  # by some
    assert "\x1b[2m· quite" in text  # by one
    everywhere = replace(FOUND, methods={name: compared(1) for name in COMPARED})
    assert "\x1b[32m\x1b[1mA quite" in comparison_text(everywhere, Console(True, 120), 160)


def test_a_problem_is_reported_once() -> None:
    assert list(problem_lines(FOUND)) == [
        "sparse_only: none",
        "two_way_hybrid, three_way_hybrid: dense: failed (bang)",
    ]


def test_one_cause_is_reported_once_for_all_methods_and_parts() -> None:
    dense, sparse = (Degraded(part, "no_model", "no encoder") for part in ("dense", "sparse"))
    error = {"code": "no_model", "message": "no encoder", "hint": ""}
    methods = {
        "sparse_only": Compared(error=error),
        "two_way_hybrid": replace(compared(1), degraded=(dense,)),
        "three_way_hybrid": replace(compared(1), degraded=(dense, sparse)),
    }
    assert list(problem_lines(replace(FOUND, methods=methods))) == [
        "sparse_only, two_way_hybrid, three_way_hybrid: dense and sparse: no model (no encoder)"
    ]


def test_nothing_shared() -> None:
    none = Comparison("q", 3, {name: compared() for name in COMPARED}, (), 0.0, 1.0)
    text = comparison_text(none, PLAIN, None)
    assert "Shared hits" not in text
    assert "Hits in common" not in text


def test_on_a_terminal(harbour: None, on_terminal: Callable[..., str]) -> None:
    """Uses the terminal's full width: columns may be wider than text."""
    wide = on_terminal("compare", "harbour", columns=160, NO_COLOR="1")
    assert wide.splitlines()[0].split() == list(COMPARED)
    narrow = on_terminal("compare", "harbour", columns=80, NO_COLOR="1")
    assert narrow.startswith("fts5_only  2 hits")
