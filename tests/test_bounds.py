"""When a bound of `make bench` is exceeded, tested with plain numbers."""

from __future__ import annotations

import pytest
from bench import bounds
from bench.bounds import Bound, Measurement, Reference, print_report, report

SCAN = Reference("a scan", 10.0)
SEARCH = Bound("R0.0", "a search", 150, SCAN)


def test_the_ratio_is_that_of_the_reference_machine() -> None:
    assert SEARCH.most == 15.0


@pytest.mark.parametrize(
    ("time_ms", "reference_time_ms", "faults"),
    [
        (150, 10, []),  # exactly at the bound, on the reference machine
        (149, 10, []),
        (300, 20, []),  # half as fast a machine, twice the time
        (75, 5, []),  # twice as fast, half the time
        (301, 20, ["15.1 times a scan, at most 15.0"]),  # twice the time is not enough
        (80, 5, ["16.0 times a scan, at most 15.0"]),  # below 150 ms, and still too slow for it
        (151, 10, ["15.1 times a scan, at most 15.0", "151.0 ms, at most 150 ms"]),
        (1000, 100, []),  # ten times slower than the reference: no figure in ms holds there
    ],
)
def test_faults(time_ms: float, reference_time_ms: float, faults: list[str]) -> None:
    measured = Measurement(SEARCH, time_ms, reference_time_ms)
    assert measured.faults() == [f"R0.0, a search: {fault}" for fault in faults]


def test_an_exceeded_bound_is_named_in_the_report() -> None:
    within, exceeded = (Measurement(SEARCH, time_ms, 10) for time_ms in (30, 300))
    lines = report([within, exceeded]).splitlines()
    assert lines[-2] == "| R0.0 | a search | 30.0 | 150 | a scan, 10.00 | 3.0 | 15.0 | ok |"
    assert lines[-1] == "| R0.0 | a search | 300.0 | 150 | a scan, 10.00 | 30.0 | 15.0 | exceeded |"


def test_it_fails_if_one_is_exceeded(capsys: pytest.CaptureFixture[str]) -> None:
    within, exceeded = (Measurement(SEARCH, time_ms, 20) for time_ms in (30, 400))
    assert print_report([within])
    assert "exceeded" not in capsys.readouterr().out
    assert not print_report([within, exceeded])
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "exceeded: R0.0, a search: 20.0 times a scan, at most 15.0"


def test_the_figures_are_those_of_the_contract() -> None:
    """Seed 002 and section 14 of the contract, at 10,000 chunks."""
    figures = {
        "three retrievers together, 100 each": 150,
        "fusion": 5,
        "three-way search, 95th percentile": 200,
        "compare, all six": 1000,
        "rerank of 100, colbert": 1000,
        "rerank of 100, cross-encoder": 1000,
        "sparse embedding of one chunk": 1000,
        "kb search --mode lexical, whole process": 150,
    }
    named = [each for each in vars(bounds).values() if isinstance(each, Bound)]
    recorded = {bounds.START}  # not part of the contract
    assert {bound.what: bound.limit_ms for bound in named if bound not in recorded} == figures
    assert bounds.START.most == 5.5
    assert bounds.PROCESS.most == 12
    assert bounds.COUNT == 10_000
