"""`kb jobs` and `kb reindex` on the command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kb import KnowledgeBase
from tests.cli.conftest import Run
from tests.cli.test_contract import Valid
from tests.models import tiny
from tests.models.weightless import Weightless
from tests.store.builders import sqlite_store


@pytest.fixture
def encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Weightless:
    """The configured encoder, in a folder with three notes."""
    made = Weightless()
    monkeypatch.setattr("kb.models.encoder", lambda *_: made)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".kb").mkdir()
    with KnowledgeBase(".kb/kb.sqlite") as kb:
        for text in ("salt water", "poison", "fresh water"):
            kb.add(text)
    return made


def test_pending_and_failed_passages(encoder: Weightless, run: Run, valid: Valid) -> None:
    assert run("jobs").out == "nothing has been embedded yet\n"
    encoder.fails_on = frozenset({"poison"})
    run("embed")
    told = run("jobs")
    assert told.lines[0] == "weightless 1: 2 ready, 1 pending"
    assert told.lines[2].startswith(
        "  note:2, chunk 2: will be retried after 1 attempt: weightless fai"
    )
    for _ in range(2):
        run("embed")
    told = run("jobs")
    assert told.lines[0] == "weightless 1: 2 ready, 0 pending, 1 failed"
    assert "gave up after 3 attempts" in told.lines[2]
    shape = run("jobs", "--json").json
    valid("jobs.v1", shape)
    assert [one["given_up"] for one in shape["failures"]] == [True]
    assert "1 failed (weightless failed" in run("status").out

    again = run("jobs", "retry", "--json").json
    valid("retry_report.v1", again)
    assert again["retried"] == 1
    assert run("jobs", "retry").out == "0 passages will be retried\n"
    encoder.fails_on = frozenset()
    assert run("embed").out.startswith("embedded 1 passage with weightless 1")
    assert run("jobs").out == "weightless 1: 3 ready, 0 pending\n"


def test_workers_are_shown(encoder: Weightless, run: Run, valid: Valid) -> None:
    run("embed", "--limit", "1")
    with KnowledgeBase(".kb/kb.sqlite") as kb:
        job = kb._store.queue.start_job(1)
        kb._store.queue.lease(job, 1, limit=2)
        told = run("jobs")
        assert told.lines[0] == "weightless 1: 1 ready, 2 pending, 1 worker"
        assert told.lines[1].startswith("  running: ")
        assert told.lines[1].endswith("2 in progress")
        waiting = run("embed")
        assert waiting.out == "nothing to do: another kb process is embedding the rest\n"
        assert waiting.err == (
            "2 more passages are being embedded by another kb process; see: kb jobs\n"
        )
        with sqlite_store(kb)._database.writing() as connection:
            connection.execute("UPDATE jobs SET lease_until = 0")
        shape = run("jobs", "--json").json
        valid("jobs.v1", shape)
        assert [one["state"] for one in shape["jobs"]] == ["lost"]
        assert run("embed").out.startswith("embedded 2 passages with weightless 1")
        assert run("jobs", "--json").json["jobs"] == []


def test_missing_parts_are_shown(
    encoder: Weightless, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_MODELS_TOKENS", "none")
    run("embed")
    assert "3 ready (sparse 3, tokens 0)" in run("status").out
    monkeypatch.setenv("KB_MODELS_TOKENS", "1-bit")
    assert run("jobs").lines[0] == "weightless 1: 3 ready, 0 pending, 3 incomplete"
    assert run("embed").out.startswith("embedded 0 passages and completed 3 with weightless 1")
    assert "3 ready (sparse 3, tokens 3)" in run("status").out
    monkeypatch.setenv("KB_MODELS_TOKENS", "3-bit")
    assert "it must be one of: 2-bit, 1-bit, int8, none" in run("embed").err


def test_a_switch_to_another_model(
    here: Path, run: Run, valid: Valid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both models are folders. The store records where its model is, whatever the settings are."""
    old = tiny.lay(tmp_path / "old")
    new = tiny.lay(tmp_path / "new", name="other", version="7")
    monkeypatch.setenv("KB_MODELS_ENCODER", str(old))
    run("embed")
    monkeypatch.setattr("kb.embedding.reindex.GRACE_S", 0.0)
    told = run("reindex", "--model", os.path.relpath(new), "--keep-old")
    assert told.status == 0
    assert told.lines[-1] == "searches now use the vectors of other 7"
    monkeypatch.chdir(here / ".kb")  # the folder is found from anywhere
    monkeypatch.setenv("KB_MODELS_ENCODER", "/nowhere/else")
    found = run("search", "retry", "--mode", "vector", "--json").json
    assert {hit["embedding_model"] for hit in found["hits"]} == {"other"}
    status = run("status", "--json").json
    valid("status.v1", status)
    assert [(one["name"], one["role"]) for one in status["vectors"]["models"]] == [
        ("other", "search"), ("tiny", None),
    ]  # fmt: skip
    back = run("reindex", "--model", old, "--json")
    valid("reindex_report.v1", back.json)
    assert (back.json["switched"], back.json["report"]["embedded"]) == (True, 0)
    names = [one["name"] for one in run("status", "--json").json["vectors"]["models"]]
    assert names == ["tiny"]


def test_an_unfinished_switch(encoder: Weightless, run: Run) -> None:
    run("embed")
    with KnowledgeBase(".kb/kb.sqlite") as kb:
        kb._store.vectors.begin_switch(Weightless(8, name="second").spec, None)
    assert "3 ready (sparse 3, tokens 3); next second 1, 0 ready, 3 pending" in run("status").out
    assert run("jobs").lines[1] == "second 1 (next): 0 ready, 3 pending"


def test_a_switch_to_a_model_that_fails_the_exam(
    here: Path, run: Run, valid: Valid, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoders = {
        None: Weightless(), "bad": Weightless(8, name="bad", fails_on=["retry"]),
    }  # fmt: skip
    monkeypatch.setattr("kb.models.encoder", lambda _, name=None: encoders[name])
    monkeypatch.setattr("kb.models.absolute_name", lambda name: name)
    monkeypatch.setattr("kb.embedding.reindex.GRACE_S", 0.0)
    run("embed")
    told = run("reindex", "--model", "bad")
    assert (told.status, told.lines[-1]) == (1, "searches still use the old vectors")
    assert "bad 1 could not embed" in told.err
    assert "or add --force" in told.err
    shape = run("reindex", "--model", "bad", "--json").json
    valid("reindex_report.v1", shape)
    assert not shape["switched"]
    assert "bad 1 could not embed" in shape["held"]
    assert run("reindex", "--model", "bad", "--force").status == 0


@pytest.mark.parametrize(
    "command",
    [
        ["embed"],
        ["embed", "--anew"],
        ["reindex", "--model", "kb-mini"],
        ["jobs"],
        ["jobs", "retry"],
    ],
)
def test_a_missing_store(
    command: list[str], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_MODELS_ENCODER", str(tiny.lay(tmp_path / "tiny")))
    told = run("--store", tmp_path / "mistyped.sqlite", *command)
    assert (told.status, told.out) == (2, "")
    assert "no store at" in told.err
    assert not (tmp_path / "mistyped.sqlite").exists()


def test_a_missing_model(here: Path, run: Run) -> None:
    told = run("reindex", "--model", "kb-maxi")
    assert (told.status, told.out) == (2, "")
    assert "there is no encoder 'kb-maxi'" in told.err
