"""Search by words and meaning on the command line: when passages are embedded, and the messages
about it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase
from kb.cli import socket_client
from kb.cli.socket_server import serve_socket
from kb.embedding.embedder import EmbedProgress
from kb.errors import ModelMissing
from kb.types import Encoding
from tests.cli.conftest import Run
from tests.cli.test_contract import Valid
from tests.models.weightless import Weightless

Library = Callable[[dict[str, str]], Path]


class Stoppable(Weightless):
    """An encoder that is interrupted after a number of texts."""

    left = 10**9

    def encode(self, texts: Sequence[str], **asked: Any) -> list[Encoding]:
        self.left -= len(texts)
        if self.left < 0:
            raise KeyboardInterrupt
        return super().encode(texts, **asked)


@pytest.fixture
def encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: Library) -> Stoppable:
    """The configured encoder, in an empty folder beside a library."""
    made = Stoppable()
    monkeypatch.setattr("kb.models.encoder", lambda *_: made)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".kb").mkdir()
    library(
        {
            "keys.md": "# Keys\n\nThe harbour master keeps the keys.\n",
            "boat.md": "# Boat\n\nA boat lies in the harbour.\n",
            "bread.md": "# Bread\n\nFlour, water, salt.\n",
        }
    )
    return made


def ready(run: Run) -> int:
    models = run("status", "--json").json["vectors"]["models"]
    return int(models[0]["ready"]) if models else 0


def test_ingest_embeds_new_passages(encoder: Stoppable, run: Run, valid: Valid) -> None:
    told = run("ingest", "lib")
    assert told.lines[0].startswith("3 added")
    assert told.lines[1].startswith("embedded 3 passages with weightless 1 in ")
    found = run("search", "harbour", "keys", "--json")
    valid("search_response.v1", found.json)
    assert (found.json["mode"], found.json["degraded"]) == ("hybrid", [])
    assert found.json["hits"][0]["doc_path"] == "lib/keys.md"
    assert found.json["hits"][0]["sources"] == ["fts", "vec", "sparse"]
    status = run("status", "--json").json
    valid("status.v1", status)
    assert status["vectors"]["state"] == "ready"
    assert "ready: weightless 1, 3 ready" in run("status").out
    encoder.calls.clear()
    assert len(run("ingest").lines) == 1  # nothing new, so no further message
    assert encoder.calls == []


def test_no_embed(encoder: Stoppable, run: Run) -> None:
    assert len(run("ingest", "lib", "--no-embed").lines) == 1
    assert run("add", "a note", "--no-embed").status == 0
    assert encoder.calls == []
    found = run("search", "harbour")
    assert found.status == 0
    assert "lib/boat.md" in found.out
    told = "4 passages have no vectors yet (run: kb embed)\n"
    assert found.err == f"warning: dense and sparse: {told}"
    status = run("status")
    assert (status.err, status.status) == (f"warning: dense: {told}", 0)
    assert run("embed").status == 0
    assert run("search", "harbour").err == ""


def test_a_note_is_embedded_without_the_backlog(encoder: Stoppable, run: Run) -> None:
    run("ingest", "lib", "--no-embed")
    told = run("add", "the harbour at night")
    assert (told.out, told.status) == ("note:4\n", 0)
    assert ready(run) == 1
    assert run("ingest").lines[1].startswith("embedded 3 passages")


def test_progress_of_a_note_ignores_the_backlog(encoder: Stoppable, run: Run) -> None:
    run("ingest", "lib", "--no-embed")
    told: list[EmbedProgress] = []
    with KnowledgeBase() as kb:
        note = kb.add("the harbour at night")
        kb.add("a boat that came later")
        report = kb.embed(document=note.doc_path, on_progress=told.append)
    assert [(now.done, now.total) for now in told] == [(1, 1)]
    assert (report.embedded, report.left) == (1, 4)


def test_an_interruption_loses_nothing(encoder: Stoppable, run: Run) -> None:
    encoder.left = 2
    told = run("ingest", "lib")
    assert told.status == 130
    assert told.lines[0].startswith("3 added")
    assert "to create the missing vectors, run: kb embed" in told.err
    assert "lib/boat.md" in run("search", "--fts-only", "harbour").out
    encoder.left = 10**9
    assert run("embed").status == 0
    assert ready(run) == 3


def test_a_model_that_cannot_be_used_is_a_warning(
    encoder: Stoppable, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise ModelMissing("there is no encoder 'x'", "name another")

    monkeypatch.setattr("kb.models.encoder", missing)
    told = run("ingest", "lib")
    assert told.status == 0
    assert "found only by their words: there is no encoder 'x' (name another)" in told.err
    assert run("add", "a note").status == 0
    found = run("search", "harbour")
    assert (found.status, "lib/boat.md" in found.out) == (0, True)
    assert "warning: dense and sparse: no model (there is no encoder 'x')" in found.err


def test_a_failing_model_leaves_search_by_words(encoder: Stoppable, run: Run) -> None:
    run("ingest", "lib")
    encoder.fails_on = frozenset({"harbour"})
    found = run("search", "harbour", "-v")
    assert (found.status, "lib/boat.md" in found.out) == (0, True)
    assert "WARNING kb.search: search degraded: dense failed" in found.err
    assert "warning: dense and sparse: failed (RuntimeError" in found.err


def test_a_cause_is_reported_once_with_all_affected_parts(
    encoder: Stoppable, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON lists every part."""
    run("add", "港口的鑰匙")
    monkeypatch.setattr("kb.models.reader", lambda *_: None)
    monkeypatch.setattr(encoder, "spec", replace(encoder.spec, scripts=("Latin",)))
    asked = ("search", "港口", "--profile", "research")
    why = "weightless reads Latin script"
    (line,) = run(*asked).err.splitlines()
    assert line.startswith("warning: dense, sparse and rerank: ")
    assert why in line
    assert run(*asked, "--json").json["degraded"] == [
        {"part": part, "reason": "language", "detail": why}
        for part in ("dense", "sparse", "rerank")
    ]


def test_modes(encoder: Stoppable, run: Run) -> None:
    run("ingest", "lib")
    for flags, mode, sources in (
        (("--vec-only",), "vector", {"vec"}),
        (("--mode", "vector"), "vector", {"vec"}),
        (("--fts-only",), "lexical", {"fts"}),
        (("--profile", "memory"), "hybrid", {"fts", "vec"}),
    ):
        found = run("search", "harbour", "--json", *flags).json
        assert found["mode"] == mode
        assert {source for hit in found["hits"] for source in hit["sources"]} == sources


def test_settings_and_groups(encoder: Stoppable, run: Run, library: Library) -> None:
    library({"long.md": "# Long\n\n" + "".join(f"## {n}\n\nharbour\n\n" for n in range(30))})
    run("ingest", "lib")
    plain = run("search", "harbour", "--json").json["hits"]
    grouped = run("search", "harbour", "--group", "--json").json["hits"]
    assert len({hit["doc_path"] for hit in plain}) < len(plain)
    assert len({hit["doc_path"] for hit in grouped}) == len(grouped) == 4
    first = run("search", "harbour", "--profile", "notes", "--set", "k=1", "--json").json["hits"][0]
    assert first["score"] > 0.5
    for bad in ("weights.dense=-1", "weights.fame=1", "fusion=none", "boosts=fame"):
        refused = run("search", "harbour", "--set", bad)
        assert (refused.status, "hint: " in refused.err) == (2, True)


def test_explain_shows_both_retrievers_and_every_factor(encoder: Stoppable, run: Run) -> None:
    run("add", "the harbour keys", "--kind", "decision")
    told = run("search", "keys", "--profile", "knowledge", "--explain").out
    assert "    lexical  rank 1    score 0." in told
    assert "    vector   rank 1    score 0." in told
    assert "    fused              score 0.032787" in told
    assert "    type               times 2.000000" in told
    assert "[lexical(match=any) | dense(weightless)] -> rrf(k=60) -> boost(type, access)" in told
    assert "weights: lexical 1 dense 1" in told


def test_similar(encoder: Stoppable, run: Run, valid: Valid) -> None:
    run("ingest", "lib")
    found = run("similar", "lib/keys.md", "--json")
    valid("search_response.v1", found.json)
    assert found.json["hits"][0]["doc_path"] == "lib/boat.md"
    chunk = run("search", "keys", "--json").json["hits"][0]
    by_uri = run("similar", chunk["citation"]["uri"], "--json").json["hits"]
    by_id = run("similar", str(chunk["chunk_id"]), "--json").json["hits"]
    assert [hit["chunk_id"] for hit in by_uri] == [hit["chunk_id"] for hit in by_id]
    assert "lib/boat.md" in run("similar", "lib/keys.md", "-n", "1").out
    assert run("similar", "lib/keys.md", "--jsonl", "--explain").status == 0
    assert run("similar", "lib/nosuch.md").status == 2


def test_one_passage_is_one(encoder: Stoppable, run: Run) -> None:
    run("add", "the harbour keys", "--no-embed")
    warning = "warning: dense and sparse: 1 passage has no vectors yet (run: kb embed)\n"
    assert run("search", "harbour").err == warning
    assert run("search", "harbour", "--jsonl").err == warning


def test_a_disabled_encoder_is_not_recommended(
    encoder: Stoppable, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("ingest", "lib")
    run("add", "the harbour at night", "--no-embed")
    monkeypatch.setattr("kb.models.encoder", lambda *_: None)
    told = run("similar", "lib/keys.md")
    assert told.err == "warning: dense: 1 passage has no vectors yet\n"
    told = run("similar", "note:4")
    assert told.err == "warning: dense: no model (the encoder is disabled)\n"

    def missing(*_: object) -> None:
        raise ModelMissing("there is no encoder 'x'", "name another")

    monkeypatch.setattr("kb.models.encoder", missing)
    assert "kb embed" not in run("similar", "lib/keys.md").err
    assert "no model (there is no encoder 'x')" in run("similar", "note:4").err


def test_invalid_settings(encoder: Stoppable, run: Run, valid: Valid) -> None:
    run("add", "the harbour keys", "--kind", "decision")
    told = run("search", "harbour", "--profile", "notes", "--set", "foo=1")
    assert told.err.startswith("error: unknown setting foo of profile notes\nhint: settings: ")
    for bad in ("weights.dense=1e308", "type_weights.decision=1e308", "top=１０", "k=１０"):
        refused = run("search", "harbour", "--profile", "knowledge", "--set", bad)
        assert (refused.status, "hint: " in refused.err) == (2, True)
    most = ("--set", "weights.dense=1e6", "--set", "weights.lexical=1e6")
    for profile in ("default", "notes", "memory", "knowledge"):
        found = run("search", "harbour", "--json", "--profile", profile, *most)
        valid("search_response.v1", found.json)
        assert "Infinity" not in found.out


@pytest.mark.skipif(os.name != "posix", reason="sockets of this kind are for POSIX")
def test_through_a_process_that_runs_already(
    encoder: Stoppable, run: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The hits are the same, computed with the vectors that the other process has in memory."""
    run("ingest", "lib")
    alone = run("search", "--jsonl", "harbour", "keys")
    with KnowledgeBase(tmp_path / ".kb") as kb, serve_socket(kb):
        capsys.readouterr()
        assert socket_client.forward(["search", "--jsonl", "harbour", "keys"]) == 0
    assert capsys.readouterr() == (alone.out, alone.err)
    assert '"sources": ["fts", "vec"' in alone.out


def test_ingest_says_when_words_are_searchable(encoder: Stoppable, run: Run) -> None:
    told = run("ingest", "lib")
    assert "searchable by words now; embedding 3 passages" in told.err
    assert ready(run) == 3
    assert "searchable" not in run("ingest", "lib").err


def test_a_running_server_embeds_what_was_ingested(
    encoder: Stoppable, run: Run, tmp_path: Path
) -> None:
    run("ingest", "lib", "--no-embed")
    with KnowledgeBase(tmp_path / ".kb" / "kb.sqlite") as kb, serve_socket(kb):
        told = run("ingest")
        run("add", "a note")
        assert "the running kb serve or kb watch is embedding 3 passages" in told.err
        assert ready(run) == 0
    assert run("ingest").status == 0
    assert ready(run) == 4
