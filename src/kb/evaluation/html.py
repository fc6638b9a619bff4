"""An EvalReport as one HTML file: plots, tables and caveats.

The file loads nothing: style and plots are inline, there is no script, and the policy in its head
forbids scripts and requests. It follows the browser's light or dark mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TypeVar

from kb.evaluation import plots
from kb.evaluation.metrics import Measure
from kb.evaluation.report import (
    caveat_lines,
    compares,
    query_label,
    search_target,
    title,
    with_noun,
)
from kb.evaluation.runs import Comparison, EvalReport, MethodResult

HARDEST = 15
_EXTREMES = 5  # wins and losses shown
_LABEL_CHARS = 90
_Drawn = TypeVar("_Drawn")


def to_html(report: EvalReport) -> str:
    """Return the whole page."""
    parts = [
        f"<h1>{escape(report.data)}</h1>",
        f'<p class="sub">{escape(_subtitle(report))}</p>',
        _caveats(report),
        _quality(report),
        _latency(report),
        _changes(report),
        _hardest(report),
        _every_query(report),
    ]
    body = "\n".join(part for part in parts if part)
    return _PAGE.format(title=escape(title(report)), style=_STYLE, body=body)


def _subtitle(report: EvalReport) -> str:
    queries = with_noun(len(report.query_ids), "query", "queries")
    pieces = [f"split {report.split}, {queries}, {report.gain} gain", search_target(report)]
    if compares(report):
        pieces.append(f"compared with {report.baseline}")
    return "; ".join(filter(None, pieces))


def _caveats(report: EvalReport) -> str:
    lines = caveat_lines(report)
    if not lines:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<section class="caveats"><h2>Caveats</h2><ul>{items}</ul></section>'


# --- sections -------------------------------------------------------------------------------------


def _quality(report: EvalReport) -> str:
    blocks = []
    for measure in report.measures:
        shown = _for_each_frame(plots.intervals, _estimates(report, measure), measure)
        blocks.append(f"<h3>{measure}</h3>{shown}{_table(report, measure)}")
    about = (
        "The dot is the mean over these queries, and the bar its 95 % confidence interval: about "
        "nineteen of twenty such bars contain the mean over all queries of this kind."
    )
    if compares(report):
        about += (
            f" The ring and the dashed line are {report.baseline}. Bars may overlap even if "
            "methods differ; the interval of the paired difference decides. Better and worse mean "
            "that this interval excludes zero."
        )
    return _section("Quality", about, "".join(blocks))


def _for_each_frame(
    draw: Callable[[Sequence[_Drawn], str, plots.Frame], str],
    what: Sequence[_Drawn],
    measure: Measure,
) -> str:
    """A wide and a narrow plot; the page shows the one that fits the screen."""
    return "".join(
        f'<div class="{kind}">{draw(what, str(measure), frame)}</div>'
        for kind, frame in (("on-screen", plots.WIDE), ("on-phone", plots.NARROW))
    )


def _estimates(report: EvalReport, measure: Measure) -> list[plots.Estimate]:
    return [
        plots.Estimate(
            name, one.scores[measure].mean, *one.scores[measure].interval, name == report.baseline
        )
        for name, one in report.methods.items()
    ]


def _table(report: EvalReport, measure: Measure) -> str:
    header = ["method", "mean", "95 % interval"]
    if compares(report):
        header += ["gain", "difference", "95 % interval"]
    rows = [
        _cells(name, result, measure, is_baseline=compares(report) and name == report.baseline)
        for name, result in report.methods.items()
    ]
    return _html_table(header, rows, kind="compared" if compares(report) else "")


def _cells(name: str, result: MethodResult, measure: Measure, *, is_baseline: bool) -> list[str]:
    score = result.scores[measure]
    low, high = score.interval
    cells = [escape(name), f"{score.mean:.3f}", f"{low:.3f} to {high:.3f}"]
    if is_baseline:
        return [*cells, "baseline", "", ""]
    if result.comparisons is None:
        return cells
    return [*cells, *_comparison_cells(result.comparisons[measure])]


def _comparison_cells(one: Comparison) -> list[str]:
    low, high = one.interval
    verdict = "better" if low > 0 else "worse" if high < 0 else "unsure"
    if low == high == 0:
        verdict = "equal"
    gain = "" if one.gain_percent is None else f"{one.gain_percent:+.1f} %"
    return [
        gain,
        f"{one.difference:+.3f}",
        f'{low:+.3f} to {high:+.3f} <span class="{verdict}">{verdict}</span>',
    ]


def _latency(report: EvalReport) -> str:
    measure = report.measures[0]
    points = [
        plots.Point(estimate, result.latency.p50_ms, result.latency.p95_ms)
        for estimate, result in zip(
            _estimates(report, measure), report.methods.values(), strict=True
        )
    ]
    rows = [
        [escape(name), *(f"{each:.1f}" for each in
                         (one.latency.mean_ms, one.latency.p50_ms, one.latency.p95_ms))]
        for name, one in report.methods.items()
    ]  # fmt: skip
    about = (
        f"Higher is better in {measure}, further left is faster. A dot marks the median latency; "
        "the line to its right ends at the 95th percentile, and the vertical line is the interval."
    )
    table = _html_table(["method", "mean ms", "p50 ms", "p95 ms"], rows)
    shown = _for_each_frame(plots.scatter, points, measure)
    return _section("Time against quality", about, shown + table)


def _changes(report: EvalReport) -> str:
    base = report.baseline
    others = [name for name in report.methods if name != base]
    if base is None or not others:
        return ""
    measure = report.measures[0]
    of_method = {name: _differences(report, name, base, measure) for name in others}
    most = plots.reach(change for each in of_method.values() for change in each)
    blocks = []
    for name, each in of_method.items():
        won, lost = sum(c.difference > 1e-9 for c in each), sum(c.difference < -1e-9 for c in each)
        counts = f"{won} better, {lost} worse, {len(each) - won - lost} equal"
        blocks.append(
            f'<h3>{escape(name)} <span class="sub">{counts}</span></h3>'
            + plots.changes(each, name, base, most)
            + _extremes(each)
        )
    about = (
        f"The difference in {measure} from {base}, one bar per query, from the largest gain to the "
        "largest loss; all plots have the same scale."
    )
    return _section("Wins and losses", about, "".join(blocks))


def _differences(report: EvalReport, name: str, base: str, measure: Measure) -> list[plots.Change]:
    ours, theirs = (report.methods[each].scores[measure].values for each in (name, base))
    return [
        plots.Change(query_label(report, query_id, _LABEL_CHARS), mine - other)
        for query_id, mine, other in zip(report.query_ids, ours, theirs, strict=True)
    ]


def _extremes(changes: Sequence[plots.Change]) -> str:
    ordered = sorted(changes, key=lambda each: -each.difference)
    wins = [each for each in ordered[:_EXTREMES] if each.difference > 1e-9]
    losses = [each for each in ordered[::-1][:_EXTREMES] if each.difference < -1e-9]
    rows = [
        [escape(each.label), f'<span class="{kind}">{each.difference:+.3f}</span>']
        for kind, some in (("better", wins), ("worse", losses))
        for each in some
    ]
    if not rows:
        return ""
    table = _html_table(["query", "difference"], rows)
    return f"<details><summary>Largest gains and losses</summary>{table}</details>"


def _hardest(report: EvalReport) -> str:
    """The queries with the lowest scores of all methods, worst first."""
    measure = report.measures[0]
    series = [one.scores[measure].values for one in report.methods.values()]
    order = sorted(
        range(len(report.query_ids)),
        key=lambda at: (max(values[at] for values in series), sum(values[at] for values in series)),
    )
    rows = [_query_cells(report, measure, at) for at in order[:HARDEST]]
    about = (
        f"The {len(rows)} queries on which every method has a low {measure}. Look at them first: "
        "a relevant document may be unjudged, a term may be in no document, or search is weak here."
    )
    table = _html_table(["query", *map(escape, report.methods)], rows, kind="heat")
    return _section("Hardest queries", about, table)


def _every_query(report: EvalReport) -> str:
    measure = report.measures[0]
    rows = [_query_cells(report, measure, at) for at in range(len(report.query_ids))]
    table = _html_table(["query", *map(escape, report.methods)], rows, kind="heat")
    summary = f"All {with_noun(len(rows), 'query', 'queries')}, {measure}"
    return f"<section><details><summary>{escape(summary)}</summary>{table}</details></section>"


def _query_cells(report: EvalReport, measure: Measure, at: int) -> list[str]:
    cells = [escape(query_label(report, report.query_ids[at], _LABEL_CHARS))]
    for result in report.methods.values():
        value = result.scores[measure].values[at]
        cells.append(f'<span class="cell" style="--share:{value:.3f}">{value:.3f}</span>')
    return cells


# --- markup ---------------------------------------------------------------------------------------


def _section(heading: str, about: str, inside: str) -> str:
    return f"<section><h2>{heading}</h2><p>{escape(about)}</p>{inside}</section>"


def _html_table(header: Iterable[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """Format a table; the cells are HTML."""
    head = "".join(f'<th scope="col">{cell}</th>' for cell in header)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
    # A scrollable area must be reachable by keyboard.
    return f'<div class="wide {kind}" tabindex="0" role="group" aria-label="table">{table}</div>'


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="kb eval">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""

_STYLE = """
:root { --ground: #fcfcfa; --ink: #1d2329; --soft: #5b6570; --grid: #dfe3e6; --panel: #ffffff;
  --method: #1f6fb2; --baseline: #6b7680; --win: #1f6fb2; --loss: #b04a12; --warn: #fff4d6;
  --heat: 31, 111, 178; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #14181c; --ink: #e4e8eb; --soft: #9aa5af; --grid: #2e363d; --panel: #1b2126;
    --method: #6cb4f0; --baseline: #a3adb6; --win: #6cb4f0; --loss: #f0965a; --warn: #3a3014;
    --heat: 108, 180, 240; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1rem 4rem; }
h1 { margin: 0; font-size: 1.8rem; }
h2 { margin: 0 0 .4rem; font-size: 1.25rem; }
h3 { margin: 1.4rem 0 .2rem; font-size: 1rem; }
p { margin: 0 0 .8rem; max-width: 44rem; color: var(--soft); }
.sub { color: var(--soft); font-weight: normal; font-size: .95rem; }
section { margin: 1.6rem 0; padding: 1.2rem 1.4rem; background: var(--panel);
  border: 1px solid var(--grid); border-radius: 8px; }
.caveats { background: var(--warn); border-color: transparent; }
.caveats ul { margin: 0; padding-left: 1.2rem; }
svg { display: block; width: 100%; height: auto; margin: .4rem 0 .8rem; }
.on-phone { display: none; }
svg text { font-size: 13px; fill: var(--ink); }
svg .tick { font-size: 12px; fill: var(--soft); }
svg .end { text-anchor: end; }
svg .middle { text-anchor: middle; }
svg .figure { font-variant-numeric: tabular-nums; }
svg .leader { fill: none; stroke: var(--soft); stroke-width: .8; stroke-dasharray: 1 3; }
svg .grid { stroke: var(--grid); }
svg .axis { stroke: var(--soft); }
svg .reference { stroke: var(--baseline); stroke-dasharray: 3 3; }
svg .bar { stroke-width: 6; stroke-linecap: round; opacity: .45; }
svg .whisker { stroke-width: 1.5; opacity: .6; }
svg line.method { stroke: var(--method); }
svg line.baseline { stroke: var(--baseline); }
svg .dot.method { fill: var(--method); }
svg .dot.baseline { fill: var(--panel); stroke: var(--baseline); stroke-width: 3; }
svg .win { fill: var(--win); }
svg .loss { fill: var(--loss); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .875rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--grid); }
th { color: var(--soft); font-weight: 600; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
.heat td:first-child { white-space: normal; overflow-wrap: anywhere; min-width: 16rem; }
.cell { display: inline-block; min-width: 3.6rem; padding: 0 .4rem; border-radius: 4px;
  background: rgba(var(--heat), calc(var(--share) * .4)); }
.better { color: var(--win); font-weight: 600; }
.worse { color: var(--loss); font-weight: 600; }
.unsure, .equal { color: var(--soft); }
details { margin-top: .4rem; }
summary { cursor: pointer; color: var(--soft); }
@media (max-width: 40rem) {
  main { padding: 1rem .5rem 3rem; }
  section { padding: .9rem .8rem; }
  .on-screen { display: none; }
  .on-phone { display: block; }
  section > svg .tick { font-size: 24px; }
  .compared th:nth-child(3), .compared td:nth-child(3) { display: none; } /* the plot shows it */
  table { font-size: .75rem; }
  th, td { padding: .3rem .2rem; white-space: normal; }
  .heat td:first-child { min-width: 9rem; }
  .cell { min-width: 2.6rem; padding: 0 .2rem; } }
@media print { section { break-inside: avoid; border: 0; padding: 0; } }
"""
