"""A cloned folder with its own settings and store, in every interface."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kb import KnowledgeBase
from kb.config import settings_file, trust_store
from tests.cli.conftest import COMMAND, Run
from tests.models import tiny
from tests.models.serving import Answer, ReceivedRequest, Server, answer, serving

KEY = "sk-of-the-user"
PATIENCE_S = 60.0


def _vectors(request: ReceivedRequest) -> Answer:
    texts = request.json["input"]
    data = [{"index": at, "embedding": [1.0, 2.0, 3.0]} for at in range(len(texts))]
    return answer({"data": data})


@pytest.fixture
def elsewhere() -> Iterator[Server]:
    """The server to which the folder's author would like data to be sent."""
    with serving(_vectors) as server:
        yield server


@pytest.fixture
def clone(tmp_path: Path, elsewhere: Server, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cloned folder as the current one, with the user's key in the environment."""
    for name in ("KB_MODELS_ENCODER", "KB_MODELS_EXAM"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("KB_ENDPOINT_KEY", KEY)
    folder = tmp_path / "clone"
    (folder / ".kb").mkdir(parents=True, mode=0o700)
    (folder / "private.md").write_text("# Plan\n\nThe vault is under the third tree.\n")
    (folder / ".kb" / "config.toml").write_text(
        f"[models]\nencoder = 'endpoint'\nendpoint_url = '{elsewhere.url}'\n"
        "endpoint_model = 'm'\nexam = false\n[serve]\nallow_hosts = 'evil.example'\n"
        "ingest_from = '/'\n[search]\ndefault_top = 3\n"
    )
    monkeypatch.chdir(folder)
    return folder


COMMANDS: list[tuple[str, ...]] = [
    ("ingest", "private.md"),
    ("add", "where the vault is"),
    ("embed",),
    ("search", "vault", "tree"),
    ("search", "--store", ".kb/kb.sqlite", "vault"),
    ("search", "--store", ".", "vault"),
    ("compare", "vault"),
    ("similar", "note:1"),
    ("embed-text", "vault"),
    ("reindex", "--model", "endpoint"),
    ("status",),
    ("doctor",),
    ("models", "list"),
]


def test_nothing_reaches_the_endpoint_of_a_clone(run: Run, clone: Path, elsewhere: Server) -> None:
    for command in COMMANDS:
        said = run(*command)
        assert said.err.count("ignored models.encoder, models.endpoint_url, ") == 1, command
        assert "kb config trust" in said.err
    with KnowledgeBase(clone) as kb:
        kb.ingest(clone / "private.md")
        kb.embed()
        kb.search("vault")
    assert elsewhere.asked == []


@pytest.mark.skipif(os.name == "nt", reason="no signals there")
@pytest.mark.parametrize("door", [("serve", "--port", "0"), ("mcp", "--http", "127.0.0.1:0")])
def test_nothing_reaches_it_through_a_server_either(
    clone: Path, elsewhere: Server, door: tuple[str, ...]
) -> None:
    process = subprocess.Popen(
        [*COMMAND, *door], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        with httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False) as client:
            if door[0] == "serve":
                assert client.post("/documents", json={"text": "the vault"}).is_success
                assert client.post("/search", json={"query": "vault"}).is_success
                assert client.get("/status", headers={"Host": "evil.example"}).is_client_error
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert "ignored models.encoder" in errors
    assert elsewhere.asked == []


def test_trust_and_back(run: Run, clone: Path, elsewhere: Server) -> None:
    before = run("config", "--json").json
    assert before["models.endpoint_url"] == {
        "value": "",
        "origin": "default",
        "ignored": {"value": elsewhere.url, "origin": str(clone / ".kb" / "config.toml")},
    }
    assert "; not trusted: true in" not in run("config").out
    assert f'default; not trusted: "{elsewhere.url}" in' in run("config").out
    said = run("config", "trust", "--yes")
    assert said.lines == [f"trusted: {clone / '.kb'}"]
    assert f'models.endpoint_url = "{elsewhere.url}"' in said.err
    assert "search.default_top" not in said.err  # which applies anyway
    after = run("config", "--json").json
    assert after["models.endpoint_url"] == {
        "value": elsewhere.url,
        "origin": str(clone / ".kb" / "config.toml"),
        "trusted": True,
    }
    assert "config.toml (trusted)" in run("config").out
    run("ingest", "private.md")
    assert any(b"third tree" in each.body for each in elsewhere.asked)  # so it would have been
    assert elsewhere.asked[0].headers["Authorization"] == f"Bearer {KEY}"
    assert run("config", "untrust", "--json").json == {
        "folder": str(clone / ".kb"), "trusted": False,
    }  # fmt: skip
    assert "ignored models.encoder" in run("status").err
    assert run("config", "untrust").status == 2


def test_trust_by_folder(run: Run, clone: Path, tmp_path: Path) -> None:
    os.chdir(tmp_path)
    assert run("config", "trust", "--yes", "clone").status == 0
    assert run("status", "--store", "clone").err.count("ignored") == 0
    with (clone / ".kb" / "config.toml").open("a") as file:
        file.write("[ingest]\nhidden = true\n")
    assert "ignored models.encoder" in run("status", "--store", "clone").err
    (clone / ".kb" / "config.toml").write_text("[search]\ndefault_top = 3\n")
    refused = run("config", "trust", "clone")
    assert (refused.status, "nothing in" in refused.err) == (2, True)


@pytest.mark.skipif(os.name != "posix", reason="owners and permissions are POSIX's")
def test_a_file_that_others_can_write_cannot_be_trusted(run: Run, clone: Path) -> None:
    os.chmod(clone / ".kb" / "config.toml", 0o666)
    assert "other users can write to it" in run("config", "trust").err
    assert "ignored all settings" in run("status").err


@pytest.mark.skipif(os.name != "posix", reason="no pseudo-terminals on Windows")
def test_the_user_is_asked(clone: Path, on_terminal: Callable[..., str]) -> None:
    assert "Trust these in" in on_terminal("config", "trust", typed="n\n")
    assert not trust_store().folder.exists()
    assert "trusted: " in on_terminal("config", "trust", typed="y\n")
    assert trust_store().remove(settings_file(clone / ".kb" / "kb.sqlite"))
    assert "trusted: " in on_terminal("config", "trust", "--yes")


def test_without_a_terminal_trust_needs_yes(run: Run, clone: Path) -> None:
    refused = run("config", "trust", "--json")
    assert refused.status == 2
    assert '"cannot ask for confirmation without a terminal"' in refused.err
    assert "again with --yes" in refused.err
    assert not trust_store().folder.exists()
    assert "ignored models.encoder" in run("status").err


def test_a_fitted_profile_keeps_trust(clone: Path) -> None:
    from kb.evaluation.profile_file import write_profile

    file = settings_file(clone / ".kb" / "kb.sqlite")
    with trust_store().preserve(file):
        write_profile(file, "mine", {"base": "notes"})
    assert not trust_store().is_trusted(file, file.read_bytes())
    trust_store().add(file, file.read_bytes())
    with trust_store().preserve(file):
        write_profile(file, "other", {"base": "notes"})
    assert trust_store().is_trusted(file, file.read_bytes())


# --- the model that a store names -----------------------------------------------------------------


def _plant(store: Path, source: str, **model: Any) -> None:
    """A store whose vectors come from a model of that name, as if made on another machine."""
    import apsw

    with KnowledgeBase(store, encoder="none") as kb:
        kb.add("the vault is under the third tree")
    connection = apsw.Connection(str(store))
    connection.execute(
        "INSERT INTO models (name, version, dimension, role, source) VALUES (?, ?, ?, ?, ?)",
        (model.get("name", "m"), model.get("version", "endpoint"), model.get("dimension", 3),
         "search", source),
    )  # fmt: skip
    connection.close()


def test_a_store_cannot_name_an_endpoint(
    run: Run, clone: Path, elsewhere: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clone / ".kb" / "config.toml").unlink()
    # The user has a server for another store: the content of this store is not sent there
    # automatically.
    monkeypatch.setenv("KB_MODELS_ENDPOINT_URL", elsewhere.url)
    monkeypatch.setenv("KB_MODELS_EXAM", "false")
    _plant(clone / ".kb" / "kb.sqlite", "endpoint:m")
    for command in COMMANDS[:6]:
        run(*command)
    assert elsewhere.asked == []
    searched = run("search", "--json", "vault").json
    assert "kb config trust" in searched["degraded"][0]["detail"]
    assert searched["hits"]
    said = run("config", "trust", "-y")
    assert "encoder of the store: endpoint:m" in said.err
    assert run("embed").status == 0
    assert elsewhere.asked


def test_a_store_cannot_name_a_folder(run: Run, clone: Path, tmp_path: Path) -> None:
    (clone / ".kb" / "config.toml").unlink()
    model = tiny.lay(clone / "model")
    _plant(clone / ".kb" / "kb.sqlite", str(model))
    said = run("embed")
    assert (said.status, "which is not in your settings" in said.err) == (2, True)
    shutil.rmtree(model)  # so none of it was needed for the message
    assert "which is not in your settings" in run("search", "vault").err


def test_a_reindex_implies_trust(run: Run, clone: Path, tmp_path: Path) -> None:
    (clone / ".kb" / "config.toml").write_text("[search]\ndefault_top = 3\n")
    model = tiny.lay(tmp_path / "model")
    os.environ["KB_MODELS_EXAM"] = "false"
    try:
        run("add", "the vault is under the third tree")
        assert run("reindex", "--model", model).status == 0
        assert run("search", "--json", "vault").json["degraded"] == []
        moved = tmp_path / "moved"
        shutil.copytree(clone / ".kb", moved / ".kb")
        os.chdir(moved)
        assert "which is not in your settings" in run("search", "vault").err
    finally:
        del os.environ["KB_MODELS_EXAM"]
