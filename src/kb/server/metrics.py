"""Counts and times, as Prometheus reads them: text, a figure a line."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kb.types import Response

_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 5.0, 10.0)
_Labels = tuple[tuple[str, str], ...]


class Figures:
    """What the server has done since it was started. Safe between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, defaultdict[_Labels, float]] = {}
        self._times: dict[_Labels, defaultdict[float, float]] = {}
        self._under_way = 0

    @contextmanager
    def under_way(self) -> Iterator[None]:
        with self._lock:
            self._under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """One that was answered; `route` is the pattern, so that there are few of them."""
        known = method if method in _METHODS else "other"
        self.count("kb_http_requests_total", method=known, route=route, status=str(status))
        with self._lock:
            times = self._times.setdefault((("route", route),), defaultdict(float))
            for edge in (*(edge for edge in _BUCKETS_S if seconds <= edge), _INFINITE):
                times[edge] += 1
            times[_SUM] += seconds

    def search(self, response: Response) -> None:
        """What a search took, stage by stage, and what did not do its work."""
        self.count("kb_searches_total", profile=response.profile, mode=response.mode)
        for stage, ms in response.timing_ms.items():
            self.count("kb_search_stage_seconds_total", ms / 1000, stage=stage)
        for part in response.degraded:
            self.count("kb_search_degraded_total", part=part.part, reason=part.reason)

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        with self._lock:
            counts = self._counts.setdefault(name, defaultdict(float))
            counts[tuple(labels.items())] += by

    def text(self, gauges: Mapping[str, float]) -> str:
        """Everything, and `gauges` as they stand now."""
        with self._lock:
            lines = [line for name in sorted(self._counts) for line in self._counted(name)]
            lines += self._timed()
            now = {"kb_http_requests_under_way": float(self._under_way), **gauges}
        for name, value in now.items():
            lines += [f"# TYPE {name} gauge", f"{name} {value:g}"]
        return "\n".join(lines) + "\n"

    def _counted(self, name: str) -> Iterator[str]:
        yield f"# TYPE {name} counter"
        for labels, value in self._counts[name].items():
            yield f"{name}{_shown(labels)} {value:.9g}"

    def _timed(self) -> Iterator[str]:
        name = "kb_http_request_seconds"
        yield f"# TYPE {name} histogram"
        for labels, times in self._times.items():
            for edge in (*_BUCKETS_S, _INFINITE):
                le = "+Inf" if edge == _INFINITE else f"{edge:g}"
                yield f"{name}_bucket{_shown((*labels, ('le', le)))} {times[edge]:g}"
            yield f"{name}_sum{_shown(labels)} {times[_SUM]:.9g}"
            yield f"{name}_count{_shown(labels)} {times[_INFINITE]:g}"


_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")
_INFINITE = float("inf")
_SUM = -1.0  # a key of its own beside the edges


def _shown(labels: _Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
