"""`kb embed`, with a tiny model in a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.test_contract import Valid
from tests.models import tiny


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tiny.lay(tmp_path / "tiny")
    monkeypatch.setenv("KB_MODELS_ENCODER", str(folder))
    return folder


def test_what_is_pending_is_embedded(here: Path, model: Path, run: Run, valid: Valid) -> None:
    first = run("embed", "--limit", "10", "--json")
    assert (first.status, first.err) == (0, "")
    valid("embed_report.v1", first.json)
    assert (first.json["model"], first.json["embedded"]) == ("tiny", 10)
    left = first.json["left"]
    rest = run("embed")
    assert rest.status == 0
    assert rest.out.startswith(f"{left} embedded by tiny 1 in ")
    assert "longer than the model can see" in rest.err
    again = run("embed")
    assert (again.status, again.err) == (0, "")
    assert again.out == "nothing to do: every passage has its vectors by tiny 1\n"


def test_without_a_store(model: Path, run: Run, tmp_path: Path) -> None:
    told = run("--store", tmp_path / "none.sqlite", "embed", "--json")
    assert (told.status, json.loads(told.err)["code"]) == (2, "store_missing")


def test_without_an_encoder(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, said in {"none": "switched off", "kb-maxi": "no encoder 'kb-maxi'"}.items():
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
    assert (told.status, json.loads(told.err)["code"]) == (2, "model_mismatch")
