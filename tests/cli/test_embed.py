"""`kb embed`, with a tiny model in a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kb import KnowledgeBase
from tests.cli.conftest import Run
from tests.cli.test_contract import Valid
from tests.models import tiny
from tests.store.builders import fail_chunks, sqlite_store


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tiny.lay(tmp_path / "tiny")
    monkeypatch.setenv("KB_MODELS_ENCODER", str(folder))
    return folder


def test_pending_passages_are_embedded(here: Path, model: Path, run: Run, valid: Valid) -> None:
    first = run("embed", "--limit", "10", "--json")
    assert (first.status, first.err) == (0, "")
    valid("embed_report.v1", first.json)
    assert (first.json["model"], first.json["embedded"]) == ("tiny", 10)
    left = first.json["left"]
    rest = run("embed")
    assert rest.status == 0
    assert rest.out.startswith(f"embedded {left} passages with tiny 1 in ")
    assert "the model's input limit" in rest.err
    again = run("embed")
    assert (again.status, again.err) == (0, "")
    assert again.out == "nothing to do: all passages have vectors from tiny 1\n"


def test_without_a_store(model: Path, run: Run, tmp_path: Path) -> None:
    told = run("--store", tmp_path / "none.sqlite", "embed", "--json")
    assert (told.status, json.loads(told.err)["code"]) == (2, "store_missing")


def test_without_an_encoder(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, said in {"none": "disabled", "kb-maxi": "no encoder 'kb-maxi'"}.items():
        monkeypatch.setenv("KB_MODELS_ENCODER", name)
        told = run("embed")
        assert (told.status, told.out) == (2, "")
        assert said in told.err
        assert "hint: " in told.err


def test_a_damaged_model_stores_nothing(here: Path, model: Path, run: Run) -> None:
    graph = model / "model.onnx"
    graph.write_bytes(graph.read_bytes()[:-1])
    told = run("embed", "--json")
    assert (told.status, json.loads(told.err)["code"]) == (2, "model_broken")
    tiny.lay(model)
    assert run("embed", "--limit", "1", "--json").json["embedded"] == 1


def test_another_model_is_refused(here: Path, model: Path, run: Run) -> None:
    run("embed", "--limit", "1")
    tiny.write_manifest(model, tiny.read_manifest(model) | {"version": "2"})
    told = run("embed", "--json")
    error = json.loads(told.err)
    assert (told.status, error["code"]) == (2, "model_mismatch")
    assert error["hint"] == (
        "search uses words only until you compute all vectors again with tiny 2: kb embed --anew"
    )
    assert (
        "vectors of tiny 1, not tiny 2 (to replace the vectors, run: kb embed --anew"
        in run("search", "retry").err
    )
    assert "kb embed --anew" in run("doctor").out
    assert run("embed", "--anew", "--limit", "2", "--json").json["embedded"] == 2
    found = run("status", "--json").json["vectors"]
    assert [(one["version"], one["ready"]) for one in found["models"]] == [("2", 2)]
    assert found["state"] == "pending"


def test_a_broken_model_drops_no_vectors(here: Path, model: Path, run: Run) -> None:
    run("embed", "--limit", "1")
    graph = model / "model.onnx"
    graph.write_bytes(graph.read_bytes()[:-1])
    assert run("embed", "--anew").status == 2
    assert run("status", "--json").json["vectors"]["models"][0]["ready"] == 1


def test_failures_are_reported_and_retried(here: Path, model: Path, run: Run, valid: Valid) -> None:
    assert run("embed").status == 0
    with KnowledgeBase(".kb/kb.sqlite") as kb, sqlite_store(kb)._database.writing() as connection:
        connection.execute("DELETE FROM embeddings WHERE chunk_id = 1")
    for _ in range(3):
        fail_chunks(kb._store, 1, [1], "a strange text")
    kb.close()
    told = run("embed")
    assert (told.status, told.out) == (
        0, "nothing to do: all other passages have vectors from tiny 1\n",
    )  # fmt: skip
    assert "gave up on 1 passage after several failures: a strange text" in told.err
    assert "kb embed --retry" in told.err
    assert "kb embed --retry" in run("doctor").out
    shape = run("embed", "--json").json
    valid("embed_report.v1", shape)
    assert (shape["given_up"], shape["last_error"]) == (1, "a strange text")
    again = run("embed", "--retry", "--json")
    assert (again.status, again.err) == (0, "")
    assert (again.json["embedded"], again.json["given_up"]) == (1, 0)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_missing_and_truncated_model_files(here: Path, model: Path, run: Run, name: str) -> None:
    run("embed", "--limit", "1")
    for cut in (True, False):
        if cut:
            (model / name).write_bytes(b"short")
        else:
            (model / name).unlink()
        status = run("status", "--json").json
        assert status["vectors"]["state"] == "no_model"
        assert name in status["degraded"][0]["detail"]
        doctor = run("doctor")
        assert (doctor.status, name in doctor.out) == (3, True)


def test_no_encoder_is_not_an_error(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_MODELS_ENCODER", "none")
    told = run("doctor")
    assert "ok       model       disabled: search uses words only" in told.lines
    assert run("status", "--json").json["vectors"]["state"] == "off"
