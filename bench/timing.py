"""Timing and tables."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from statistics import median, quantiles
from typing import TypeVar

_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"  # would compile kb again in every process

T = TypeVar("T")


def seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def times_ms(action: Callable[[T], object], queries: Iterable[T]) -> list[float]:
    """The time of `action` for each query."""
    return [1000 * seconds(partial(action, query)) for query in queries]


def spread_ms(
    action: Callable[[T], object], queries: Sequence[T], *, warm_up: int = 10
) -> tuple[float, float]:
    """Median and 95th percentile of `action` over the queries, after some as a warm-up."""
    for query in queries[:warm_up]:
        action(query)
    return median_and_95th(times_ms(action, queries))


def median_and_95th(values: Sequence[float]) -> tuple[float, float]:
    return median(values), quantiles(values, n=20)[-1]


def process_ms(command: Sequence[str], runs: int = 15) -> float:
    """Median time of a whole process, from start to exit, after a warm-up."""
    environment = {name: os.environ[name] for name in os.environ if name != _NO_BYTECODE}

    def once() -> object:
        return subprocess.run(command, capture_output=True, check=True, env=environment)

    once()
    return median(1000 * seconds(once) for _ in range(runs))


def processor_ms(command: Sequence[str]) -> float:
    """Processor time of a whole process, which hardly depends on what else runs."""
    environment = {name: os.environ[name] for name in os.environ if name != _NO_BYTECODE}
    quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    pid = os.posix_spawn(command[0], list(command), environment, file_actions=quiet)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(command)} failed with the status {status}")
    return 1000 * (usage.ru_utime + usage.ru_stime)


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table under a heading."""
    lines = [f"### {title}", "", "| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
