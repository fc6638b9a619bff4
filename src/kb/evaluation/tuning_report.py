"""The result of tuning as `eval_tuning.v1` and as text."""

from __future__ import annotations

from collections.abc import Iterator

from kb.evaluation.profile_file import toml_line
from kb.evaluation.report import caveat_lines, to_dict, with_noun
from kb.evaluation.tuning import CURRENT, TUNED, Tuning
from kb.types import JsonDict

SCHEMA_VERSION = "eval_tuning.v1"


def tuning_to_dict(tuning: Tuning, written: str | None) -> JsonDict:
    return {
        "schema_version": SCHEMA_VERSION,
        "data": tuning.data,
        "split": tuning.split,
        "report_split": tuning.report_split,
        "folds": tuning.folds,
        "queries": tuning.queries,
        "left_out": tuning.left_out,
        "profile": tuning.profile,
        "rerank": tuning.rerank,
        "measure": str(tuning.measure),
        "gain": tuning.gain,
        "tried": tuning.tried,
        "fit": {
            CURRENT: round(tuning.fit_current, 6),
            TUNED: round(tuning.fit_tuned, 6),
        },
        "settings": dict(tuning.settings),
        "report": to_dict(tuning.report),
        "better": tuning.better,
        "written": written,
    }


def tuning_to_text(tuning: Tuning) -> str:
    """Format what was tried, the best settings, and their score on other queries."""
    blocks = [_title(tuning), _figures(tuning), _settings(tuning), verdict(tuning)]
    notes = [f"note: {line}" for line in (*_notes(tuning), *caveat_lines(tuning.report))]
    return "\n\n".join([*blocks, *(["\n".join(notes)] if notes else [])])


def _notes(tuning: Tuning) -> Iterator[str]:
    if tuning.rearranged:
        yield "literal matches and duplicates: fitted without these stages, measured with them"
    if tuning.rerank != "none":
        yield (f"reranking ({tuning.rerank}) is unchanged: fitted without it, measured with it")
    if tuning.folds is not None and tuning.better:
        fitted = with_noun(tuning.queries, "query", "queries")
        yield f"the written settings are fitted to all {fitted}; to measure them, use other queries"
    if tuning.left_out:
        left = with_noun(tuning.left_out, "query", "queries")
        yield f"{left} excluded from the fit, because they are also in {tuning.report_split}"


def _title(tuning: Tuning) -> str:
    fitted = f"{with_noun(tuning.queries, 'query', 'queries')} of split {tuning.split}"
    return (
        f"{tuning.data}: profile {tuning.profile}, {tuning.tried} settings tried on {fitted} by "
        f"{tuning.measure}, {tuning.gain} gain"
    )


def _figures(tuning: Tuning) -> str:
    count = len(tuning.report.query_ids)
    where = f"split {tuning.report_split}" if tuning.folds is None else f"{tuning.folds} folds"
    rows = [f"{'':9}  fitted  measured on {where}, {with_noun(count, 'query', 'queries')}"]
    for name, fitted in ((CURRENT, tuning.fit_current), (TUNED, tuning.fit_tuned)):
        score = tuning.report.methods[name].scores[tuning.measure]
        low, high = score.interval
        rows.append(f"  {name:7}   {fitted:.3f}  {score.mean:.3f}  {low:.3f} to {high:.3f}")
    low, high = tuning.comparison.interval
    change = tuning.comparison.difference
    rows.append(f"  {'change':7}  {'':6}  {change:+.3f}  {low:+.3f} to {high:+.3f}")
    return "\n".join(rows)


def _settings(tuning: Tuning) -> str:
    if not tuning.settings:
        return "no setting is better than the current profile"
    plain = {key: value for key, value in tuning.settings.items() if key != "weights"}
    lines = [f"  {toml_line(key, value)}" for key, value in plain.items()]
    weights = tuning.settings["weights"].items()
    lines += [f"  weights.{name} = {weight:g}" for name, weight in weights]
    return "\n".join(["best settings:", *lines])


def verdict(tuning: Tuning) -> str:
    """One sentence that recommends the fitted settings or advises against them."""
    if not tuning.settings:
        return "nothing to write"
    if tuning.better:
        return "better on other queries: the interval of the change is above zero"
    if tuning.comparison.interval.high < 0:
        return "worse on other queries, and not written: the settings are overfitted"
    return "not clearly better on other queries, and not written: the interval includes zero"
