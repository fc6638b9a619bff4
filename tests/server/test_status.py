"""Routes: status, jobs, health, metrics."""

from __future__ import annotations

import re

from kb.server.metrics import Metrics
from tests.schemas import validate
from tests.server.conftest import Running, Serve, taken

LABEL = r'[a-z_]+="[^"\n]*"'
LINE = re.compile(
    r"# TYPE [a-z_]+ (counter|gauge|histogram)"
    rf"|[a-z_]+(\{{{LABEL}(,{LABEL})*\}})? [0-9.e+-]+"
)


def test_status_and_jobs(filled: Running) -> None:
    for path in ("/status", "/jobs"):
        validate(filled.client.get(path).json())
    assert filled.client.get("/status").json()["documents"] == 3


def test_healthy_means_that_searches_are_answered(filled: Running) -> None:
    assert filled.client.get("/health").json() == {"status": "ok"}


def test_an_unusable_store_is_not_healthy(serve: Serve) -> None:
    running = serve()
    running.kb.close()
    running.kb.path.write_bytes(b"no database" * 1000)
    answer = running.client.get("/health")
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unusable")
    assert str(running.kb.path.parent) not in answer.text  # it needs no token


def test_health_waits_for_no_reads(serve: Serve) -> None:
    running = serve(max_waiting=1)
    with taken(running.app.state.context.reads, 5):
        assert running.client.get("/status").status_code == 503
        assert running.client.get("/health").status_code == 200


def test_metrics_are_text_that_prometheus_reads(filled: Running) -> None:
    filled.search("retry")
    filled.client.get("/documents/lib/notes/retry.md")
    filled.client.get("/nothing/like/that")
    answer = filled.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    assert 'kb_http_requests_total{method="POST",route="/search",status="200"} 1' in lines
    assert "kb_documents 3" in lines
    assert any(line.startswith('kb_search_stage_seconds_total{stage="lexical"}') for line in lines)
    assert "retry.md" not in answer.text  # metrics count routes, not their parameters


def test_a_histogram_counts_upwards() -> None:
    metrics = Metrics()
    for seconds in (0.001, 0.03, 99.0):
        metrics.request("GET", "/x", 200, seconds)
    buckets = [float(line.rsplit(" ", 1)[1]) for line in metrics.text({}).splitlines()
               if "_bucket" in line]  # fmt: skip
    assert buckets == sorted(buckets)
    assert (buckets[0], buckets[-1]) == (1, 3)
    assert 'kb_http_request_seconds_count{route="/x"} 3' in metrics.text({})


def test_labels_are_escaped() -> None:
    metrics = Metrics()
    metrics.count("x_total", a='"\n\\')
    assert r'x_total{a="\"\n\\"} 1' in metrics.text({})


def test_unknown_methods_make_no_new_series(filled: Running) -> None:
    for method in ("BREW", "WHEN"):
        filled.client.request(method, "/status", headers={"X-KB-Request": "1"})
    text = filled.client.get("/metrics").text
    assert 'method="other"' in text
    assert "BREW" not in text
