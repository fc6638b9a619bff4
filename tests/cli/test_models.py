"""`kb models` and `kb embed-text`, with a tiny model in a folder."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from kb.config import Config
from kb.models import manifest
from kb.models.onnx_encoder import OnnxEncoder
from tests.cli.conftest import Run
from tests.cli.test_contract import ESCAPE, Valid
from tests.models import tiny

TEXT = "the retry storm, and the radio slots"


@pytest.fixture(scope="session")
def laid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.lay(tmp_path_factory.mktemp("laid") / "tiny")


@pytest.fixture
def model(laid: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configured encoder, in a folder without a store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KB_MODELS_ENCODER", str(laid))
    return laid


# --- kb models ------------------------------------------------------------------------------------


def test_the_list(model: Path, run: Run, valid: Valid) -> None:
    told = run("models", "list")
    assert (told.status, told.err) == (0, "")
    assert f"* tiny 1  from folder {model}, dense 32 + sparse + tokens 8, 0.0 MB, MIT" in told.lines
    assert run("models").out == told.out
    shape = run("models", "list", "--json").json
    valid("models.v1", shape)
    (used,) = (each for each in shape["models"] if each["in_use"])
    assert (used["name"], used["gives"]) == ("tiny", ["dense", "sparse", "tokens"])


def test_a_missing_model_is_listed_as_missing(
    run: Run, valid: Valid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_MODELS_ENCODER", str(tmp_path / "nowhere"))
    assert "it has no model.json" in run("models").out
    valid("models.v1", run("models", "--json").json)


def test_everything_about_one(model: Path, run: Run, valid: Valid) -> None:
    told = run("models", "info", model)
    assert (told.status, told.err) == (0, "")
    assert "input    48 tokens" in told.lines
    assert f"path     {model}" in told.lines
    shape = run("models", "info", model, "--json").json
    valid("models.v1", shape)
    (one,) = shape["models"]
    assert (one["max_tokens"], one["query_prefix"]) == (48, tiny.PREFIX)


def test_the_languages_of_a_model(run: Run) -> None:
    lines = {name: value for name, _, value in (line.partition("  ") for line in
             run("models", "info", "kb-mini").lines)}  # fmt: skip
    assert {"en", "de", "zh"} <= set(lines["languages"].split(", "))


def test_an_unknown_one(model: Path, run: Run, valid: Valid) -> None:
    for command in ("info", "verify"):
        told = run("models", command, "kb-maxi", "--json")
        assert (told.status, told.out) == (2, "")
        error = json.loads(told.err)
        valid("error.v1", error)
        assert error["code"] == "model_missing"


def test_verifying(model: Path, run: Run, valid: Valid) -> None:
    assert f"ok      tiny in {model}" in run("models", "verify").lines
    named = run("models", "verify", model)
    assert (named.status, named.out, named.err) == (0, f"ok      tiny in {model}\n", "")
    valid("models.v1", run("models", "verify", "--json").json)


def test_verifying_a_changed_file(
    run: Run, valid: Valid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny.lay(tmp_path / "changed")
    (folder / "tokenizer.json").write_bytes(b"{}")
    monkeypatch.setenv("KB_MODELS_ENCODER", str(folder))
    for args in (("models", "verify"), ("models", "verify", str(folder))):
        told = run(*args)
        assert told.status == 1
        assert f"broken  tiny in {folder}: " in told.out
        assert "has 2 bytes instead of" in told.out
        shape = run(*args, "--json")
        assert shape.status == 1
        valid("models.v1", shape.json)
        assert [each["problem"] for each in shape.json["models"] if each["in_use"]] != [None]


# --- kb embed-text --------------------------------------------------------------------------------


def test_a_text(model: Path, run: Run) -> None:
    told = run("embed-text", TEXT)
    assert (told.status, told.err) == (0, "")
    names = [line.partition(" ")[0] for line in told.lines]
    assert names == ["model", "dense", "sparse", "tokens"]
    assert told.lines[0] == "model   tiny 1, as passage"
    assert told.lines[1].startswith("dense   32 dimensions: ")
    assert told.lines[3] == "tokens  8 vectors of 8 dimensions"


@pytest.mark.parametrize("side", ["query", "passage"])
def test_a_text_for_programs(model: Path, run: Run, valid: Valid, side: str) -> None:
    shape = run("embed-text", "--as", side, "--json", *TEXT.split()).json
    valid("embedding.v1", shape)
    assert (shape["model"], shape["as"], shape["truncated"]) == ("tiny", side, 0)
    assert math.isclose(math.hypot(*shape["dense"]), 1, abs_tol=1e-6)
    assert len(shape["tokens"]) == 8


def test_the_library_returns_the_same_bits(model: Path, run: Run) -> None:
    shape = run("embed-text", "--json", TEXT).json
    encoder = OnnxEncoder(manifest.read(model))
    (encoding,) = encoder.encode([TEXT], want=encoder.spec.gives)
    assert encoding.dense is not None
    assert encoding.tokens is not None
    single = encoding.dense.__class__("f", shape["dense"])
    assert single == encoding.dense
    flat = [value for row in shape["tokens"] for value in row]
    assert encoding.dense.__class__("f", flat) == encoding.tokens.data
    assert shape["sparse"] == pytest.approx(dict(encoding.sparse or {}), rel=1e-8)


def test_the_side_is_one_of_two(model: Path, run: Run) -> None:
    told = run("embed-text", "--as", "document", "x", "--json")
    assert (told.status, json.loads(told.err)["code"]) == (2, "invalid_request")


def test_from_stdin_and_truncated(model: Path, run: Run) -> None:
    told = run("embed-text", "-", stdin=b"buoy " * 50)
    assert "truncated  the last 4 tokens exceed the limit of 48" in told.lines


def test_no_words(model: Path, run: Run, valid: Valid) -> None:
    assert "sparse  no terms" in run("embed-text", "?!").lines
    valid("embedding.v1", run("embed-text", "?!", "--json").json)


def test_switched_off(model: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_MODELS_ENCODER", "none")
    told = run("embed-text", "x")
    assert told.status == 2
    assert "disabled" in told.err
    assert run("embed-text", "x", "--model", str(model)).status == 0


def test_a_damaged_model(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tiny.lay(tmp_path / "damaged")
    graph = folder / "model.onnx"
    graph.write_bytes(graph.read_bytes()[:5000])
    monkeypatch.setenv("KB_MODELS_ENCODER", str(folder))
    told = run("embed-text", "x", "--json")
    assert (told.status, told.out) == (2, "")
    error = json.loads(told.err)
    assert error["code"] == "model_broken"
    assert error["hint"]


def test_a_process_prints_nothing_else(
    model: Path, process: Run, on_terminal: Callable[..., str]
) -> None:
    told = process("embed-text", TEXT)
    assert (told.status, told.err) == (0, "")
    assert ESCAPE not in told.out
    logged = process("embed-text", "-v", TEXT)
    assert "tiny runs on CPUExecutionProvider" in logged.err
    assert ESCAPE in on_terminal("models")


def test_the_setting_names_the_bundled_model() -> None:
    assert Config().models.encoder == "kb-mini"


# --- kb models pull, remove -----------------------------------------------------------------------


def test_pulled_listed_used_and_removed(
    laid: Path, run: Run, valid: Valid, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = run("models", "pull", laid)
    assert told.status == 0
    assert told.out.startswith("installed tiny 1 in ")
    assert told.err == "to use it: kb reindex --model tiny\n"
    shape = run("models", "pull", laid, "--json").json
    valid("models.v1", shape)
    assert [each["origin"] for each in shape["models"]] == ["pulled"]
    assert run("models", "verify", "tiny").status == 0
    assert run("embed-text", "--model", "tiny", "radio").status == 0
    assert "  tiny 1  from pulled, dense 32 + sparse + tokens 8, 0.0 MB, MIT" in run("models").lines
    monkeypatch.setenv("KB_MODELS_ENCODER", "tiny")
    gone = run("models", "remove", "tiny", "--json")
    valid("removed.v1", gone.json)
    assert "the settings still name tiny" in gone.err
    assert run("models", "remove", "tiny").status == 2
    assert run("embed-text", "radio").status == 2


def test_pulled_to_a_folder(laid: Path, run: Run, tmp_path: Path) -> None:
    told = run("models", "pull", laid, "--to", tmp_path / "mine")
    assert told.err == f"to use it: kb reindex --model {tmp_path / 'mine'}\n"
    assert run("models", "verify", tmp_path / "mine").status == 0


def test_pulling_offline(run: Run, valid: Valid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_OFFLINE", "1")
    told = run("models", "pull", "https://models.example.org/m3/model.json", "--json")
    assert told.status == 2
    error = json.loads(told.out or told.err)
    valid("error.v1", error)
    assert error["code"] == "offline"


def test_an_endpoint_in_the_list(run: Run, valid: Valid, monkeypatch: pytest.MonkeyPatch) -> None:
    """The endpoint is not contacted; no server runs at its address."""
    monkeypatch.setenv("KB_MODELS_ENCODER", "endpoint")
    monkeypatch.setenv("KB_MODELS_ENDPOINT_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("KB_MODELS_ENDPOINT_MODEL", "nomic")
    assert "* endpoint nomic  from endpoint http://127.0.0.1:9/v1, dense" in run("models").lines
    shape = run("models", "info", "endpoint", "--json").json
    valid("models.v1", shape)
    (told,) = shape["models"]
    assert (told["dimension"], told["max_tokens"], told["in_use"]) == (None, None, True)
