"""What an answer had to do without, in words: the same for every door."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kb.types import Degraded

Cause = tuple[str, str | int | None]  # a reason and its detail


def degraded_texts(degraded: Iterable[Degraded], *, can_embed: Callable[[], bool]) -> list[str]:
    """Each cause in a line. `can_embed` tells whether there is an encoder to make what waits."""
    return [
        degraded_text(parts, *cause, can_embed=cause[0] == "pending" and can_embed())
        for cause, parts in by_cause(degraded).items()
    ]


def by_cause(degraded: Iterable[Degraded]) -> dict[Cause, list[str]]:
    """Each cause once with the parts that it concerns: to a person, one model that is missing is
    one thing, however many parts would have asked it."""
    causes: dict[Cause, dict[str, None]] = {}
    for one in degraded:
        causes.setdefault((one.reason, one.detail), {})[one.part] = None
    return {cause: list(parts) for cause, parts in causes.items()}


def degraded_text(
    parts: Sequence[str], reason: str, detail: str | int | None, *, can_embed: bool = True
) -> str:
    """Parts that did not do their work, and why."""
    part = _listed(parts)
    if reason == "pending":
        told = "1 passage has" if detail == 1 else f"{detail} passages have"
        mend = (" (kb embed makes it)" if detail == 1 else " (kb embed makes them)") * can_embed
        return f"{part}: {told} no vectors yet{mend}"
    if reason == "model_mismatch":
        return f"{part}: {detail} (kb embed --anew makes them again)"
    if reason in ("expression", "unfit") and detail is not None:
        return f"{part}: {detail}"
    told = "" if detail is None else f" ({detail})"
    said = "the query is in another script" if reason == "language" else reason.replace("_", " ")
    return f"{part}: {said}{told}"


def _listed(names: Sequence[str]) -> str:
    """dense, sparse and rerank"""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
