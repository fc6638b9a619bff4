"""An EvalReport as `eval_report.v1`, and as tables in plain text and Markdown. `html` has the same
tables with plots."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from unicodedata import east_asian_width

from kb.evaluation.bootstrap import CONFIDENCE
from kb.evaluation.metrics import Measure
from kb.evaluation.qrels import Caveats
from kb.evaluation.runs import Comparison, EvalReport, MethodResult
from kb.types import JsonDict

SCHEMA_VERSION = "eval_report.v1"
FEW_QUERIES = 30  # fewer make the intervals too narrow: see `bootstrap`

# Enough digits for a few hundred queries, and few enough to be the same on every machine.
_VALUE_DIGITS = 6
_MS_DIGITS = 3
_PERCENT_DIGITS = 2


# --- JSON -----------------------------------------------------------------------------------------


def to_dict(report: EvalReport, *, per_query: bool = False) -> JsonDict:
    """The report as `eval_report.v1`, optionally with the values of every query."""
    queries = range(len(report.query_ids))
    return {
        "schema_version": SCHEMA_VERSION,
        "data": report.data,
        "split": report.split,
        "gain": report.gain,
        "queries": len(report.query_ids),
        "documents": report.documents,
        "model": report.model,
        "baseline": report.baseline,
        "caveats": _caveats(report.caveats),
        "methods": {name: _method(result) for name, result in report.methods.items()},
        "per_query": [_query(report, at) for at in queries] if per_query else None,
    }


def _caveats(caveats: Caveats) -> JsonDict:
    return {
        "unjudged_queries": caveats.unjudged_queries,
        "unanswerable_queries": caveats.unanswerable_queries,
        "unknown_documents": list(caveats.unknown_documents),
        "lost_queries": caveats.lost_queries,
    }


def _query(report: EvalReport, at: int) -> JsonDict:
    query_id = report.query_ids[at]
    return {
        "query_id": query_id,
        "query": report.queries.get(query_id, ""),
        "values": {
            name: {str(m): _value(score.values[at]) for m, score in result.scores.items()}
            for name, result in report.methods.items()
        },
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
        "degraded": [
            {"part": part, "reason": reason, "queries": count}
            for (part, reason), count in result.degraded.items()
        ],
    }


def _value(value: float) -> float:
    return round(value, _VALUE_DIGITS) + 0.0  # -0.0 becomes 0.0


def _values(values: Iterable[float]) -> list[float]:
    return [_value(value) for value in values]


def _percent(value: float | None) -> float | None:
    return None if value is None else round(value, _PERCENT_DIGITS)


# --- text and Markdown ----------------------------------------------------------------------------

_Row = tuple[str, ...]
_QUERY_CHARS = 60  # longer queries are truncated


def to_table(report: EvalReport, *, per_query: bool = False) -> str:
    """Format the report as text: a section for each measure and one for latency, with a line per
    method; with `per_query`, a line per query; and the caveats."""
    sections = _sections(report)
    blocks = _align(sections)
    if per_query:
        blocks += _align([_query_rows(report)])
    if caveats := caveat_lines(report):
        blocks.append("\n".join(f"note: {line}" for line in caveats))
    head = "\n".join(filter(None, [title(report), search_target(report)]))
    return "\n\n".join([head, *blocks])


def to_markdown(report: EvalReport, *, per_query: bool = False) -> str:
    """Format the same tables as Markdown: one per measure, and one for latency."""
    sections = _sections(report)
    if per_query:
        sections.append(_query_rows(report))
    target = search_target(report)
    blocks = [f"### {_escape(title(report))}", *([_escape(target)] if target else [])]
    blocks += map(_markdown_table, sections)
    blocks += [f"- {_escape(line)}" for line in caveat_lines(report)]
    return "\n\n".join(blocks)


def title(report: EvalReport) -> str:
    queries = with_noun(len(report.query_ids), "query", "queries")
    return f"{report.data}, split {report.split}: {queries}, {report.gain} gain"


def compares(report: EvalReport) -> bool:
    """Whether the report compares any method with the baseline."""
    return any(result.comparisons is not None for result in report.methods.values())


def search_target(report: EvalReport) -> str:
    """A description of what was searched; empty if unknown."""
    if report.documents is None:
        return ""
    model = "words only" if report.model is None else f"model {report.model}"
    return f"searched: {with_noun(report.documents, 'document', 'documents')}, {model}"


def with_noun(count: int, one: str, many: str) -> str:
    return f"1 {one}" if count == 1 else f"{count:,} {many}"


def caveat_lines(report: EvalReport) -> list[str]:
    """The caveats of the results, one line each."""
    caveats, lines = report.caveats, _weak(report)
    if missing := caveats.unknown_documents:
        judged = with_noun(len(missing), "judged document is", "judged documents are")
        lines.append(f"{judged} missing, such as {missing[0]}; counted as not found")
    for count, why in (
        (caveats.lost_queries, "all relevant documents are missing; counted as 0"),
        (caveats.unanswerable_queries, "no judgment above 0; counted as 0"),
        (caveats.unjudged_queries, "no judgments in any split; not run"),
    ):
        if count:
            lines.append(f"{with_noun(count, 'query', 'queries')}: {why}")
    alike: dict[tuple[str, str, int], list[str]] = {}
    for name, result in report.methods.items():
        for (part, reason), count in result.degraded.items():
            alike.setdefault((part, reason, count), []).append(name)
    for (part, reason, count), names in alike.items():
        description = _REASONS.get(reason, reason.replace("_", " "))
        share = f"{count} of {len(report.query_ids)} queries"
        lines.append(f"{', '.join(names)}: {part} {description} in {share}")
    return lines


def _weak(report: EvalReport) -> list[str]:
    """Caveats about results that are weak evidence."""
    lines, queries = [], len(report.query_ids)
    if queries < FEW_QUERIES:
        number = with_noun(queries, "query is", "queries are")
        lines.append(f"{number} too few: the intervals are too narrow by an unknown amount")
    documents = report.documents
    deep = [str(m) for m in report.measures if m.name in ("Recall", "Success")
            and m.k is not None and documents is not None and m.k >= documents]  # fmt: skip
    if deep and documents is not None:
        size = with_noun(documents, "document", "documents")
        lines.append(f"{', '.join(deep)}: always 1 for a method that returns all {size}")
    return lines


# Reasons for degradation, to follow the name of a part; other reasons are shown as they are.
_REASONS = {
    "language": "did not support the script",
    "no_model": "had no model",
    "model_mismatch": "had vectors of another model",
    "pending": "lacked some vectors",
    "truncated": "read only a part of the query",
    "timeout": "ran out of time",
    "unfit": "failed the exam",
}


# --- rows -----------------------------------------------------------------------------------------


def _sections(report: EvalReport) -> list[list[_Row]]:
    return [*(_measure_rows(report, each) for each in report.measures), _latency_rows(report)]


def _measure_rows(report: EvalReport, measure: Measure) -> list[_Row]:
    sure = f"{CONFIDENCE:.0%} interval"
    header: _Row = (str(measure), "mean", sure)
    rows = [(*header, "gain", "difference", sure) if compares(report) else header]
    for name, result in report.methods.items():
        score = result.scores[measure]
        low, high = score.interval
        cells: _Row = (f"  {name}", f"{score.mean:.3f}", f"{low:.3f} {high:.3f}")
        if name == report.baseline and compares(report):
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


def _query_rows(report: EvalReport) -> list[_Row]:
    """A line per query with the first measure of every method."""
    measure = report.measures[0]
    rows: list[_Row] = [(f"{measure} by query", *report.methods)]
    for at, query_id in enumerate(report.query_ids):
        values = [result.scores[measure].values[at] for result in report.methods.values()]
        label = query_label(report, query_id, _QUERY_CHARS)
        rows.append((f"  {label}", *(f"{value:.3f}" for value in values)))
    return rows


def query_label(report: EvalReport, query_id: str, most_chars: int) -> str:
    """The id and text of a query on one line."""
    text = report.queries.get(query_id, "")
    label = " ".join((text if text in ("", query_id) else f"{query_id} {text}").split())
    label = label or query_id
    return label if len(label) <= most_chars else label[: most_chars - 1] + "…"


def _align(sections: Sequence[Sequence[_Row]]) -> list[str]:
    """Format sections that share their columns."""
    widths = _widths([row for section in sections for row in section])
    return ["\n".join(_line(row, widths) for row in section) for section in sections]


def _widths(rows: Sequence[_Row]) -> list[int]:
    return [max(map(_columns, column)) for column in zip_longest(*rows, fillvalue="")]


def _columns(text: str) -> int:
    """The width in terminal columns: queries may be in any script."""
    return len(text) + sum(east_asian_width(char) in "WF" for char in text)


def _line(row: _Row, widths: Sequence[int]) -> str:
    """Align names to the left and numbers to the right."""
    cells = [row[0] + " " * (widths[0] - _columns(row[0]))]
    cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=False)]
    return "  ".join(cells).rstrip()


def _markdown_table(rows: Sequence[_Row]) -> str:
    columns = max(map(len, rows))
    lines = []
    for name, *figures in rows:
        cells = [_escape(name.strip()), *map(_figure, figures)]
        lines.append("| " + " | ".join([*cells, *[""] * (columns - len(cells))]) + " |")
    lines.insert(1, "|" + "|".join(["---", *["---:"] * (columns - 1)]) + "|")
    return "\n".join(lines)


def _figure(text: str) -> str:
    """Write an interval as `low to high`."""
    return " to ".join(text.split(" ")) if _INTERVAL.fullmatch(text) else _escape(text)


_INTERVAL = re.compile(r"[+-]?[0-9.]+ [+-]?[0-9.]+")


_MARKDOWN = str.maketrans({sign: f"\\{sign}" for sign in "\\|*_`<>[]#"})


def _escape(text: str) -> str:
    """Escape Markdown in queries and names."""
    return text.translate(_MARKDOWN)
