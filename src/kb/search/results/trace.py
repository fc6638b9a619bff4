"""The trace of one search: the time and the details of every stage. `--explain`, the latency log
and the response's `timing_ms` read it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from kb.values import Any, dataclass, field


@dataclass(slots=True)
class Stage:
    """One stage with its duration and its details."""

    name: str
    ms: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)


class Trace:
    """Collects the stages of a search."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self._started = time.perf_counter()

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, Any]]:
        """Time the block. `--explain` shows what the block adds to the yielded dict."""
        stage = Stage(name)
        self.stages.append(stage)
        started = time.perf_counter()
        try:
            yield stage.facts
        finally:
            stage.ms = round((time.perf_counter() - started) * 1000, 3)

    def add(self, name: str, ms: float, facts: dict[str, Any]) -> None:
        """Add a stage that was timed elsewhere, for example in another thread."""
        self.stages.append(Stage(name, round(ms, 3), facts))

    def elapsed_ms(self) -> float:
        """The time since the search began."""
        return (time.perf_counter() - self._started) * 1000

    def timing_ms(self) -> dict[str, float]:
        """The time of each stage and the total. Parallel stages add up to more than the total."""
        spent: dict[str, float] = {}
        for stage in self.stages:
            spent[stage.name] = round(spent.get(stage.name, 0.0) + stage.ms, 3)
        return spent | {"total": round(self.elapsed_ms(), 3)}

    def explain(self) -> list[dict[str, Any]]:
        """The stages as JSON."""
        return [{"stage": stage.name, "ms": stage.ms, **stage.facts} for stage in self.stages]
