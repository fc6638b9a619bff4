"""The trace of one search: every stage reports its time and its counts here, and `--explain`, the
latency log and the response's `timing_ms` read it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Stage:
    name: str
    ms: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)


class Trace:
    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self._submit_all = time.perf_counter()

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, Any]]:
        """Times the block; what it puts into the yielded dict is shown by `--explain`."""
        stage = Stage(name)
        self.stages.append(stage)
        started = time.perf_counter()
        try:
            yield stage.facts
        finally:
            stage.ms = round((time.perf_counter() - started) * 1000, 3)

    def add(self, name: str, ms: float, facts: dict[str, Any]) -> None:
        """A stage that was timed elsewhere: in a thread of its own."""
        self.stages.append(Stage(name, round(ms, 3), facts))

    def elapsed_ms(self) -> float:
        """Since the search began."""
        return (time.perf_counter() - self._submit_all) * 1000

    def timing_ms(self) -> dict[str, float]:
        """By stage and in total. Stages that ran side by side sum up to more than the total."""
        spent: dict[str, float] = {}
        for stage in self.stages:
            spent[stage.name] = round(spent.get(stage.name, 0.0) + stage.ms, 3)
        return spent | {"total": round(self.elapsed_ms(), 3)}

    def explain(self) -> list[dict[str, Any]]:
        return [{"stage": stage.name, "ms": stage.ms, **stage.facts} for stage in self.stages]
