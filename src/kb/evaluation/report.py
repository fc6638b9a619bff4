"""An EvalReport as others read it: `eval_report.v1` for programs, a plain table for people.

The end of evaluation's flow; the doors print what this returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from kb.evaluation.bootstrap import CONFIDENCE
from kb.evaluation.metrics import Measure
from kb.evaluation.runs import Comparison, EvalReport, MethodResult
from kb.types import JsonDict

SCHEMA_VERSION = "eval_report.v1"

# Digits kept: well below what a few hundred queries can tell apart, and the same on every machine,
# where the last bits of a sum are not.
_VALUE_DIGITS = 6
_MS_DIGITS = 3
_PERCENT_DIGITS = 2


# --- for programs ---------------------------------------------------------------------------------


def to_dict(report: EvalReport) -> JsonDict:
    """`eval_report.v1`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "data": report.data,
        "split": report.split,
        "gain": report.gain,
        "queries": len(report.query_ids),
        "baseline": report.baseline,
        "methods": {name: _method(result) for name, result in report.methods.items()},
    }


def _method(result: MethodResult) -> JsonDict:
    latency, comparisons = result.latency, result.comparisons
    return {
        "metrics": {str(m): _value(score.mean) for m, score in result.scores.items()},
        "intervals": {str(m): _values(score.interval) for m, score in result.scores.items()},
        "latency_ms": {
            "mean": round(latency.mean_ms, _MS_DIGITS),
            "p50": round(latency.p50_ms, _MS_DIGITS),
            "p95": round(latency.p95_ms, _MS_DIGITS),
        },
        "gain_percent": None
        if comparisons is None
        else {str(m): _percent(each.gain_percent) for m, each in comparisons.items()},
        "difference": None
        if comparisons is None
        else {str(m): _values((c.difference, *c.interval)) for m, c in comparisons.items()},
    }


def _value(value: float) -> float:
    return round(value, _VALUE_DIGITS) + 0.0  # -0.0 becomes 0.0


def _values(values: Iterable[float]) -> list[float]:
    return [_value(value) for value in values]


def _percent(value: float | None) -> float | None:
    return None if value is None else round(value, _PERCENT_DIGITS)


# --- for people -----------------------------------------------------------------------------------

_Row = tuple[str, ...]


def to_table(report: EvalReport) -> str:
    """A section per measure and one for latency, a line per method; the baseline says so."""
    sections = [_measure_rows(report, measure) for measure in report.measures]
    sections.append(_latency_rows(report))
    widths = _widths([row for section in sections for row in section])
    blocks = ["\n".join(_line(row, widths) for row in section) for section in sections]
    return "\n\n".join([_title(report), *blocks])


def _title(report: EvalReport) -> str:
    count = len(report.query_ids)
    queries = "1 query" if count == 1 else f"{count} queries"
    return f"{report.data}, split {report.split}: {queries}, {report.gain} gain"


def _measure_rows(report: EvalReport, measure: Measure) -> list[_Row]:
    sure = f"{CONFIDENCE:.0%} interval"
    header: _Row = (str(measure), "mean", sure)
    rows = [header if report.baseline is None else (*header, "gain", "difference", sure)]
    for name, result in report.methods.items():
        score = result.scores[measure]
        low, high = score.interval
        cells: _Row = (f"  {name}", f"{score.mean:.3f}", f"{low:.3f} {high:.3f}")
        if name == report.baseline:
            cells = (*cells, "baseline")
        elif result.comparisons is not None:
            cells = (*cells, *_comparison_cells(result.comparisons[measure]))
        rows.append(cells)
    return rows


def _comparison_cells(comparison: Comparison) -> _Row:
    gain, (low, high) = comparison.gain_percent, comparison.interval
    return (
        "-" if gain is None else f"{gain:+.1f}%",
        f"{comparison.difference:+.3f}",
        f"{low:+.3f} {high:+.3f}",
    )


def _latency_rows(report: EvalReport) -> list[_Row]:
    rows: list[_Row] = [("latency in ms", "mean", "p50", "p95")]
    for name, result in report.methods.items():
        times = (result.latency.mean_ms, result.latency.p50_ms, result.latency.p95_ms)
        rows.append((f"  {name}", *(f"{time_ms:.1f}" for time_ms in times)))
    return rows


def _widths(rows: Sequence[_Row]) -> list[int]:
    return [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]


def _line(row: _Row, widths: Sequence[int]) -> str:
    """Names to the left, figures to the right."""
    cells = [row[0].ljust(widths[0])]
    cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=False)]
    return "  ".join(cells).rstrip()
