"""Messages about degraded responses, shared by all interfaces."""

from __future__ import annotations

from kb.degradation import degradation_messages
from kb.types import Degraded


def test_one_cause_is_one_line() -> None:
    told = [
        Degraded("query", "truncated", "44 words left out"),
        Degraded("dense", "pending", 3),
        Degraded("sparse", "pending", 3),
        Degraded("dense", "failed", "1 passage could not be embedded"),
        Degraded("rerank", "pending", 2),
    ]
    assert degradation_messages(told, can_embed=lambda: False) == [
        "query: truncated (44 words left out)",
        "dense and sparse: 3 passages have no vectors yet",
        "dense: failed (1 passage could not be embedded)",
        "rerank: 2 passages have no vectors yet",
    ]


def test_states_that_are_not_failures_are_not_reported_as_such() -> None:
    told = [
        Degraded("query", "expression", "an FTS5 expression is searched by words only"),
        Degraded("dense", "language", "kb-mini reads Latin script; its results here are guesses"),
    ]
    assert degradation_messages(told, can_embed=lambda: True) == [
        "query: an FTS5 expression is searched by words only",
        "dense: the query is in another script (kb-mini reads Latin script; its results here "
        "are guesses)",
    ]
