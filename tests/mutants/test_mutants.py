"""The mutation runner itself: which changes it makes, and whether it distinguishes good tests from
bad ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.mutants import runner
from tests.mutants.__main__ import table
from tests.mutants.operators import mutants
from tests.mutants.runner import ROOT, Result, Target, chosen
from tests.mutants.seed_changes import CHANGES, Change
from tests.mutants.targets import TARGETS

SOURCE = '''\
"""A module."""

from dataclasses import dataclass

LIMIT = 3


@dataclass(frozen=True)
class Span:
    """A class."""

    start: int = 0


def cut(items: list[int], least: float | None = 0.5) -> list[int]:
    """A docstring is not code."""
    assert items, "so is this"
    if not items or least is None:
        raise ValueError(f"nothing in {items}")
    kept = [item for item in items if item > least]
    return sorted(kept, reverse=True)[: LIMIT + 1]
'''


def lines() -> dict[str, list[str]]:
    """The mutated lines of `SOURCE`."""
    found: dict[str, list[str]] = {}
    for mutant in mutants(SOURCE):
        found.setdefault(mutant.before, []).append(mutant.after)
    return found


def test_every_kind_of_change() -> None:
    assert lines() == {
        "LIMIT = 3": ["LIMIT = 2", "LIMIT = 4"],
        "start: int = 0": ["start: int = -1", "start: int = 1"],
        "def cut(items: list[int], least: float | None = 0.5) -> list[int]:": [
            "def cut(items: list[int], least: float | None = 0.45) -> list[int]:",
            "def cut(items: list[int], least: float | None = 0.55) -> list[int]:",
        ],
        "if not items or least is None:": [
            "if (not items and least is None):",
            "if not items or (least is not None):",
            "if (not (not items or least is None)):",
            "if items or least is None:",
        ],
        'raise ValueError(f"nothing in {items}")': ["pass"],
        "kept = [item for item in items if item > least]": [
            "kept = [item for item in items if (item >= least)]",
            "kept = [item for item in items if (not item > least)]",
            "pass",
        ],
        "return sorted(kept, reverse=True)[: LIMIT + 1]": [
            "return sorted(kept, reverse=True)[: (LIMIT - 1)]",
            "return sorted(kept, reverse=False)[: LIMIT + 1]",
            "return sorted(kept, reverse=True)[: LIMIT + 0]",
            "return sorted(kept, reverse=True)[: LIMIT + 2]",
            "return sorted(kept)[: LIMIT + 1]",
            "return None",
            "return (sorted(kept, reverse=True)[:])",
        ],
    }


def test_a_mutant_is_the_module_with_one_change() -> None:
    for mutant in mutants(SOURCE):
        before, after = SOURCE.splitlines(), mutant.source.splitlines()
        assert len(before) == len(after)
        (line,) = (at for at, pair in enumerate(zip(before, after, strict=True), start=1)
                   if pair[0] != pair[1])  # fmt: skip
        assert line == mutant.line
        compile(mutant.source, "mutant", "exec")


def test_a_sample_is_the_same_every_time() -> None:
    target = TARGETS[0]
    first, again, other = (chosen(target, 20, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert len(first) == 20


def test_targets_and_equivalent_mutants_are_there() -> None:
    """A mutant that is listed as equivalent but no longer generated must be removed from the
    list."""
    for target in TARGETS:
        for test in target.tests:
            assert (ROOT / test).is_file()
        if target.equivalent:
            made = {(mutant.before, mutant.after) for mutant in chosen(target, None, 1)}
            assert set(target.equivalent) <= made
            assert all(target.equivalent.values())


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.rule)
def test_changes_to_the_seeds_rules_can_be_made(change: Change) -> None:
    """Otherwise the code was rewritten: update the change, and check that its test notices it."""
    assert change.applies()
    compile(change.made(), change.module, "exec")
    path, *_, name = change.node.split("::")
    assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")


def test_a_table() -> None:
    result = Result(Target("search/ranking/fusion", ()), killed=18, timed_out=1, equivalent=2)
    result.survivors.append(mutants(SOURCE)[0])
    assert result.share == 0.95
    assert table([result]).splitlines()[2:] == [
        "| search/ranking/fusion | 22 | 18 | 1 | 1 | 2 | 95.0 % | 0 |",
        "| all | 22 | 18 | 1 | 1 | 2 | 95.0 % | 0 |",
    ]


# --- real runs ------------------------------------------------------------------------------------

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    """A copy of the boosts' tests that checks only the half-life."""
    tests = tmp_path / "test_half_life.py"
    tests.write_text(
        "from datetime import date\n"
        "from kb.search.ranking.boosts import decay\n"
        "def test_half_life():\n"
        "    assert decay('2026-01-01.md', date(2026, 1, 31)) == 0.5\n",
        encoding="utf-8",
    )
    return Target("search/ranking/boosts", (str(tests),))


@needs_fork
@pytest.mark.slow
def test_a_weak_test_lets_mutants_live_and_they_are_listed(target: Target) -> None:
    every = {mutant.before: mutant for mutant in chosen(target, None, 1)}
    decays, reads = (
        every["HALF_LIFE_DAYS = 30.0"],
        every["return 1.0 + log(1 + max(0, access_count))"],
    )
    result = runner.run(target, [decays, reads])
    assert (result.killed, result.survivors) == (1, [reads])
    assert result.share == 0.5


@needs_fork
@pytest.mark.slow
def test_tests_that_fail_anyhow_tell_nothing(target: Target) -> None:
    Path(target.tests[0]).write_text("def test_it():\n    assert False\n", encoding="utf-8")
    with pytest.raises(runner.BaselineFailed, match="boosts"):
        runner.run(target, chosen(target, 1, 1))


@needs_fork
@pytest.mark.slow
@pytest.mark.parametrize("module", ["search/ranking/fusion", "evaluation/metrics"])
def test_a_sample_of_mutants_is_noticed(module: str) -> None:
    """All of them are run by `make mutants`."""
    (target,) = (each for each in TARGETS if each.module == module)
    result = runner.run(target, chosen(target, 15, seed=7))
    assert result.share >= 0.9, "\n".join(map(str, result.survivors))
