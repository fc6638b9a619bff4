"""Messages about degraded responses, shared by all interfaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kb.types import Degraded

GUESSES = "; its results here are guesses"  # ends the detail of a model that is used all the same

Cause = tuple[str, str | int | None]  # a reason and its detail


def degradation_messages(
    degraded: Iterable[Degraded], *, can_embed: Callable[[], bool]
) -> list[str]:
    """Return one line per cause. `can_embed` is called to find out if `kb embed` would help."""
    return [
        degradation_message(parts, *cause, can_embed=cause[0] == "pending" and can_embed())
        for cause, parts in group_by_cause(degraded).items()
    ]


def group_by_cause(degraded: Iterable[Degraded]) -> dict[Cause, list[str]]:
    """Map each cause to the parts it affects: one missing model is one problem, however many parts
    of the search use it."""
    causes: dict[Cause, dict[str, None]] = {}
    for one in degraded:
        causes.setdefault((one.reason, one.detail), {})[one.part] = None
    return {cause: list(parts) for cause, parts in causes.items()}


def degradation_message(
    parts: Sequence[str], reason: str, detail: str | int | None, *, can_embed: bool = True
) -> str:
    """Return a line that names the affected parts and the cause."""
    subject = _enumeration(parts)
    if reason == "pending":
        passages = "1 passage has" if detail == 1 else f"{detail} passages have"
        return f"{subject}: {passages} no vectors yet{' (run: kb embed)' if can_embed else ''}"
    if reason == "model_mismatch":
        return f"{subject}: {detail} (to replace the vectors, run: kb embed --anew)"
    if reason == "unfit" and not str(detail).endswith(GUESSES):
        return f"{subject} not used: {detail}"
    if reason in ("expression", "query_language", "unfit") and detail is not None:
        return f"{subject}: {detail}"
    cause = "the query is in another script" if reason == "language" else reason.replace("_", " ")
    return f"{subject}: {cause}" + ("" if detail is None else f" ({detail})")


def _enumeration(names: Sequence[str]) -> str:
    """Join names as in `dense, sparse and rerank`."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
