"""Counters and latencies in the Prometheus text format."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kb.types import Response

_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 5.0, 10.0)
_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")
_INFINITY = float("inf")
_SUM = -1.0  # a key beside the buckets
_Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Everything counted since the server started. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: dict[str, defaultdict[_Labels, float]] = {}
        self._latencies: dict[_Labels, defaultdict[float, float]] = {}
        self._requests_in_progress = 0

    @contextmanager
    def request_in_progress(self) -> Iterator[None]:
        with self._lock:
            self._requests_in_progress += 1
        try:
            yield
        finally:
            with self._lock:
                self._requests_in_progress -= 1

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request. `route` is a path pattern, so that there are few of them."""
        label = method if method in _METHODS else "other"
        self.count("kb_http_requests_total", method=label, route=route, status=str(status))
        with self._lock:
            buckets = self._latencies.setdefault((("route", route),), defaultdict(float))
            for limit_s in (*(each for each in _BUCKETS_S if seconds <= each), _INFINITY):
                buckets[limit_s] += 1
            buckets[_SUM] += seconds

    def search(self, response: Response) -> None:
        """Count a search, the time of its stages, and the parts that were degraded."""
        self.count("kb_searches_total", profile=response.profile, mode=response.mode)
        for stage, ms in response.timing_ms.items():
            self.count("kb_search_stage_seconds_total", ms / 1000, stage=stage)
        for part in response.degraded:
            self.count("kb_search_degraded_total", part=part.part, reason=part.reason)

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        with self._lock:
            counter = self._counters.setdefault(name, defaultdict(float))
            counter[tuple(labels.items())] += by

    def text(self, gauges: Mapping[str, float]) -> str:
        """All metrics, together with the current values of `gauges`."""
        with self._lock:
            lines = [line for name in sorted(self._counters) for line in self._counter(name)]
            lines += self._histogram()
            all_gauges = {
                "kb_http_requests_under_way": float(self._requests_in_progress),
                **gauges,
            }
        for name, value in all_gauges.items():
            lines += [f"# TYPE {name} gauge", f"{name} {value:g}"]
        return "\n".join(lines) + "\n"

    def _counter(self, name: str) -> Iterator[str]:
        yield f"# TYPE {name} counter"
        for labels, value in self._counters[name].items():
            yield f"{name}{_format(labels)} {value:.9g}"

    def _histogram(self) -> Iterator[str]:
        name = "kb_http_request_seconds"
        yield f"# TYPE {name} histogram"
        for labels, buckets in self._latencies.items():
            for limit_s in (*_BUCKETS_S, _INFINITY):
                le = "+Inf" if limit_s == _INFINITY else f"{limit_s:g}"
                yield f"{name}_bucket{_format((*labels, ('le', le)))} {buckets[limit_s]:g}"
            yield f"{name}_sum{_format(labels)} {buckets[_SUM]:.9g}"
            yield f"{name}_count{_format(labels)} {buckets[_INFINITY]:g}"


def _format(labels: _Labels) -> str:
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
