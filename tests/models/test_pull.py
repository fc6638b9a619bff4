"""Pulling models from a real server on this machine that disconnects, lies and loses data."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from kb import models
from kb.config import Config, ModelsConfig
from kb.errors import (
    EndpointError,
    InvalidRequest,
    KbError,
    ModelBroken,
    ModelMissing,
    Offline,
    is_unicode,
)
from kb.locations import data_folder
from kb.models import model_directory
from kb.models.manifest import Manifest
from kb.models.pull import pull
from tests.models import make_tiny_m3, tiny
from tests.models.serving import Answer, ReceivedRequest, Server, serving
from tests.models.test_endpoint import Waits

CONFIG = Config()
FILE = {"sha256": "0" * 64, "bytes": 1}


class Hub:
    """Serves a folder, with ranges unless `ranges` is False. `faults` are applied to the responses
    for a file, in turn."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ranges = True
        self.faults: dict[str, list[Callable[[Answer], Answer]]] = {}

    def __call__(self, asked: ReceivedRequest) -> Answer:
        path = self.root / asked.path.lstrip("/")
        if not path.is_file():
            return Answer(404)
        faults = self.faults.get(path.name, [])
        given = self._file(path.read_bytes(), asked.headers.get("Range"))
        return faults.pop(0)(given) if faults else given

    def _file(self, data: bytes, wanted: str | None) -> Answer:
        if wanted is None or not self.ranges:
            return Answer(200, data)
        start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])  # type: ignore[index]
        if start >= len(data):
            return Answer(416)
        told = f"bytes {start}-{len(data) - 1}/{len(data)}"
        return Answer(206, data[start:], {"Content-Range": told})


def cut(count: int) -> Callable[[Answer], Answer]:
    return lambda given: replace(given, cut=count)


def status(code: int, **headers: str) -> Callable[[Answer], Answer]:
    return lambda given: Answer(code, headers={k.replace("_", "-"): v for k, v in headers.items()})


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    tiny.lay(tmp_path / "hub" / "tiny")
    return Hub(tmp_path / "hub")


@pytest.fixture
def server(hub: Hub) -> Iterator[Server]:
    with serving(hub) as started:
        yield started


@pytest.fixture(autouse=True)
def _online(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KB_OFFLINE", "KB_MODELS_MIRROR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def fetch(server: Server, waits: Waits) -> Callable[..., Manifest]:
    """Pulls the tiny model from the hub."""

    def fetch(path: str = "tiny/model.json", **options: Any) -> Manifest:
        return pull(CONFIG, f"{server.url}/{path}", sleep=waits, **options)

    return fetch


def usable(name: str = "tiny") -> None:
    assert models.verify(CONFIG, name).origin == "pulled"


def left() -> list[str]:
    """The content of the folder of pulled models, including unfinished ones."""
    return sorted(path.name for path in model_directory.folder().iterdir())


# --- success --------------------------------------------------------------------------------------


def test_from_an_address(fetch: Callable[..., Manifest], hub: Hub) -> None:
    seen: list[tuple[int, int, str]] = []
    placed = fetch(on_progress=lambda *now: seen.append(now))
    assert placed.folder == data_folder() / "models" / "tiny"
    usable()
    assert [each.name for each in models.models(CONFIG) if each.origin == "pulled"] == ["tiny"]
    total = placed.size_bytes
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert seen[-1] == (total, total, "tokenizer.json")
    for name in ("model.json", "model.onnx", "tokenizer.json"):
        assert (placed.folder / name).read_bytes() == (hub.root / "tiny" / name).read_bytes()
    assert left() == ["tiny"]


def test_from_the_folder_of_an_address(fetch: Callable[..., Manifest]) -> None:
    fetch("tiny/")
    usable()


def test_what_is_there_is_not_fetched_again(fetch: Callable[..., Manifest], server: Server) -> None:
    fetch()
    asked = len(server.asked)
    fetch()
    assert [each.path for each in server.asked[asked:]] == ["/tiny/model.json"]


def test_to_another_folder(fetch: Callable[..., Manifest], tmp_path: Path) -> None:
    placed = fetch(to=tmp_path / "mine")
    assert models.verify(CONFIG, str(placed.folder)).origin == "folder"
    assert not model_directory.folder().exists()


def test_from_a_mirror_by_name(
    hub: Hub, server: Server, waits: Waits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_MODELS_MIRROR", f"{server.url}/")
    tiny.lay(hub.root / "small" / "v2", name="small")
    pull(CONFIG, "tiny", sleep=waits)
    pull(CONFIG, "small", revision="v2", sleep=waits)
    usable("tiny")
    usable("small")


def test_a_revision_in_the_address(
    hub: Hub, fetch: Callable[..., Manifest], server: Server
) -> None:
    tiny.lay(hub.root / "repo" / "resolve" / "4e1a", name="pinned")
    fetch("repo/resolve/{revision}/", revision="4e1a")
    usable("pinned")
    with pytest.raises(InvalidRequest, match="needs a revision"):
        fetch("repo/resolve/{revision}/")
    with pytest.raises(InvalidRequest, match="has no placeholder for a revision"):
        fetch("tiny/", revision="4e1a")


def test_a_manifest_of_ones_own_for_files_on_a_hub(
    hub: Hub, server: Server, waits: Waits, tmp_path: Path
) -> None:
    """The hub has the export but no model.json: the user pins it."""
    made = make_tiny_m3.lay(hub.root / "org" / "m3" / "resolve" / "abc1")
    from kb.models import manifest

    told = manifest.as_json(manifest.read(made)) | {
        "name": "my-m3",
        "source": f"{server.url}/org/m3/resolve/{{revision}}",
        "revision": "abc1",
    }
    own = tmp_path / "own"
    own.mkdir()
    tiny.write_manifest(own, told)
    pull(CONFIG, str(own / "model.json"), sleep=waits)
    usable("my-m3")
    assert {each.path.rpartition("/")[0] for each in server.asked} == {"/org/m3/resolve/abc1"}


def test_from_a_folder(tmp_path: Path) -> None:
    laid = tiny.lay(tmp_path / "laid")
    pull(CONFIG, str(laid))
    usable()


def test_from_an_export_without_a_manifest(tmp_path: Path) -> None:
    """The hashes of its files are recorded, so that a change is noticed."""
    pull(CONFIG, str(make_tiny_m3.lay(tmp_path / "tiny-m3")))
    usable("tiny-m3")
    (model_directory.folder() / "tiny-m3" / "model.onnx_data").write_bytes(b"other")
    with pytest.raises(ModelBroken):
        usable("tiny-m3")


# --- interruptions --------------------------------------------------------------------------------


def test_it_goes_on_where_the_line_was_cut(
    fetch: Callable[..., Manifest], hub: Hub, server: Server, waits: Waits
) -> None:
    hub.faults["model.onnx"] = [cut(1000), cut(500), status(503, Retry_After="3")]
    fetch()
    usable()
    ranges = [each.headers.get("Range") for each in server.asked if each.path.endswith(".onnx")]
    assert ranges == [None, "bytes=1000-", "bytes=1500-", "bytes=1500-"]
    assert waits == [0.5, 0.5, 3.0]


def test_a_later_run_goes_on(fetch: Callable[..., Manifest], hub: Hub, server: Server) -> None:
    """The user interrupts the download in the middle of a file, and the same command resumes it."""
    hub.faults["model.onnx"] = [cut(2000)]

    def interrupt(done: int, _total: int, _what: str) -> None:
        if done >= 2000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(on_progress=interrupt)
    assert model_directory.names() == []
    fetch()
    usable()
    assert "bytes=2000-" in [each.headers.get("Range") for each in server.asked]
    assert left() == ["tiny"]


def test_a_server_without_ranges(fetch: Callable[..., Manifest], hub: Hub, server: Server) -> None:
    hub.ranges = False
    hub.faults["model.onnx"] = [cut(1000)]
    fetch()
    usable()
    assert "bytes=1000-" in [each.headers.get("Range") for each in server.asked]


def test_a_server_that_always_hangs_up(
    fetch: Callable[..., Manifest], hub: Hub, waits: Waits
) -> None:
    hub.ranges = False
    hub.faults["model.onnx"] = [cut(1000)] * 50
    with pytest.raises(EndpointError, match="the connection was interrupted") as caught:
        fetch()
    assert "resume" in caught.value.hint
    assert waits == [0.5, 0.5, 1.0, 2.0, 4.0]
    assert model_directory.names() == []
    hub.faults.clear()
    fetch()
    usable()


def test_ranges_that_are_wrong(fetch: Callable[..., Manifest], hub: Hub) -> None:
    def shifted(given: Answer) -> Answer:
        return replace(given, headers={"Content-Range": "bytes 7-99/100"})

    hub.faults["model.onnx"] = [cut(1000), *[shifted] * 9]
    with pytest.raises(EndpointError, match="a different range"):
        fetch()
    assert model_directory.names() == []


@pytest.mark.parametrize(
    ("code", "headers"),
    [
        (206, {"Content_Range": f"bytes {'9' * 5000}-"}),
        (302, {"Location": "http://["}),
        (302, {"Location": "http://host:port/"}),
        (302, {"Location": "file:///etc/passwd"}),
        (302, {"Location": f"http://{'a' * 70}.example/"}),
        (503, {"Retry_After": "9" * 5000}),
        (503, {"Retry_After": "Mon, 01 Jan 0001 00:00:00 +2359"}),
    ],
)
def test_headers_that_mean_harm(
    fetch: Callable[..., Manifest], hub: Hub, code: int, headers: dict[str, str]
) -> None:
    hub.faults["model.json"] = [status(code, **headers)] * 9
    hub.faults["model.onnx"] = [cut(1000), *[status(code, **headers)] * 9]
    with pytest.raises(KbError):
        fetch()
    hub.faults["model.json"] = []
    with pytest.raises(KbError):
        fetch()
    assert model_directory.names() == []


def test_more_is_here_than_there(fetch: Callable[..., Manifest], hub: Hub) -> None:
    """A partial file for which the server has no such range is downloaded again."""
    hub.faults["model.onnx"] = [cut(1000), status(416)]
    fetch()
    usable()


# --- wrong files ----------------------------------------------------------------------------------


def test_a_wrong_hash(fetch: Callable[..., Manifest], hub: Hub) -> None:
    def changed(given: Answer) -> Answer:
        return replace(given, body=bytes([given.body[0] ^ 1]) + given.body[1:])

    hub.faults["model.onnx"] = [changed]
    with pytest.raises(ModelBroken, match="its SHA-256 is"):
        fetch()
    assert model_directory.names() == []
    fetch()  # no part of the wrong file was kept
    usable()


def test_a_file_that_is_too_long(fetch: Callable[..., Manifest], hub: Hub) -> None:
    hub.faults["tokenizer.json"] = [lambda given: replace(given, body=given.body + b"x" * 10**6)]
    with pytest.raises(ModelBroken, match="bytes instead of"):
        fetch()
    assert model_directory.names() == []


def test_the_hash_of_the_manifest(fetch: Callable[..., Manifest], hub: Hub) -> None:
    found = sha256((hub.root / "tiny" / "model.json").read_bytes()).hexdigest()
    with pytest.raises(ModelBroken, match=f"its SHA-256 is {found} instead of 00ff"):
        fetch(sha256="00ff")
    assert not model_directory.folder().exists()
    fetch(sha256=found.upper())
    usable()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"<html>", "is not valid JSON"),
        (b"{}", "is not a valid manifest: it has no 'format'"),
        (b" " * (2 << 20), "is too large for a manifest"),
        (b"[" * 100_000, "is not valid JSON"),
        (b'{"a":' * 100_000, "is not valid JSON"),
        (b'{"format": ' + b"9" * 5000 + b"}", "is not valid JSON"),
        (b"[1]", "is not an object"),
        (b"null", "is not an object"),
        (b"\xff\xfe\x00", "is not valid JSON"),
    ],
)
def test_what_is_no_manifest(
    fetch: Callable[..., Manifest], hub: Hub, said: bytes, why: str
) -> None:
    (hub.root / "tiny" / "model.json").write_bytes(said)
    with pytest.raises(ModelBroken, match=why):
        fetch()


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../../evil"},
        {"name": "kb-mini"},
        {"name": "none"},
        {"name": "endpoint"},
        {"files": {"../evil": {"sha256": "0", "bytes": 1}}},
        {"source": "file:///etc/"},
        {"source": "http://["},
        {"source": {"a": 1}},
        {"source": 5},
        {"source": "http://127.0.0.1/{revision}", "revision": ["x"]},
        {"source": "http://127.0.0.1/{revision}", "revision": 7},
        {"name": "a\x00b"},
        {"name": "a\ud800"},
        {"name": "a" * 5000},
        {"name": ["tiny"]},
        {"version": "1\n2"},
        {"dimension": -3},
        {"dimension": 10**400},
        {"dimension": 1.5},
        {"max_tokens": 2**63},
        {"files": {"a\x00b": FILE}},
        {"files": {"a\ud800": FILE}},
        {"summary": "lone \ud800"},
        {"passage_prefix": "\udcff: "},
        {"source": "http://127.0.0.1/\ud800/{revision}"},
        {"files": {"CON": FILE}},
        {"files": {"nul.txt": FILE}},
        {"files": {".hidden": FILE}},
        {"files": {"": FILE}},
        {"files": {"a/b": FILE}},
        {"files": {"C:evil": FILE}},
        {"files": {"model.json": FILE}},
        {"files": {"Model.onnx": FILE}},
        {"files": {"a" * 300: FILE}},
        {"files": {"a.bin": FILE | {"bytes": -1}}},
        {"files": {"a.bin": FILE | {"bytes": 10**30}}},
        {"files": {"a.bin": FILE | {"bytes": float("inf")}}},
        {"files": {"a.bin": FILE | {"sha256": "../../x"}}},
        {"files": {"a.bin": FILE | {"sha256": 5}}},
        {"files": {"a.bin": [1]}},
        {"outputs": {"dense": {"a": 1}}},
        {"scripts": {"a": 1}},
        {"format": [1]},
    ],
)
def test_manifests_that_mean_harm(
    fetch: Callable[..., Manifest], hub: Hub, change: dict[str, Any]
) -> None:
    folder = hub.root / "tiny"
    told = tiny.read_manifest(folder)
    files = told["files"] | change.pop("files", {})
    tiny.write_manifest(folder, told | {"files": files} | change)
    with pytest.raises(KbError) as caught:
        fetch()
    assert is_unicode(str(caught.value) + caught.value.hint)
    assert not model_directory.folder().exists()


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and devices of POSIX")
@pytest.mark.parametrize("kind", ["pipe", "device", "huge"])
def test_files_that_never_end(tmp_path: Path, kind: str) -> None:
    folder = tiny.lay(tmp_path / "laid")
    graph = folder / "model.onnx"
    graph.unlink()
    if kind == "pipe":
        os.mkfifo(graph)
    elif kind == "device":
        graph.symlink_to("/dev/zero")
    else:
        with graph.open("wb") as file:
            file.truncate(1 << 40)
    with pytest.raises(ModelBroken):
        pull(CONFIG, str(folder))
    assert model_directory.names() == []


def test_files_of_another_model(fetch: Callable[..., Manifest], hub: Hub) -> None:
    folder = hub.root / "tiny"
    told = tiny.read_manifest(folder)
    told["files"]["tokenizer.json"]["of"] = "kb_mini"
    tiny.write_manifest(folder, told)
    with pytest.raises(ModelBroken, match=r"shares tokenizer\.json"):
        fetch()


def test_another_model_of_that_name_stays(fetch: Callable[..., Manifest], hub: Hub) -> None:
    fetch()
    told = tiny.read_manifest(hub.root / "tiny")
    tiny.write_manifest(hub.root / "tiny", told | {"version": "2"})
    with pytest.raises(InvalidRequest, match="contains another model"):
        fetch()
    usable()
    model_directory.remove("tiny")
    assert fetch().spec.version == "2"


def test_what_is_not_there(
    fetch: Callable[..., Manifest], hub: Hub, waits: Waits, tmp_path: Path
) -> None:
    with pytest.raises(ModelMissing, match="does not exist"):
        fetch("nowhere/model.json")
    for name in ("bge-m3", "a/b/c", str(tmp_path / "nowhere")):
        with pytest.raises(ModelMissing, match="is not a folder"):
            pull(CONFIG, name, sleep=waits)
    (hub.root / "tiny" / "tokenizer.json").unlink()
    with pytest.raises(ModelMissing):
        fetch()
    with pytest.raises(ModelMissing):
        pull(CONFIG, str(hub.root / "tiny"))
    hub.faults["model.json"] = [status(403)]
    with pytest.raises(EndpointError, match="HTTP 403"):
        fetch()
    assert waits == []


def test_offline(
    hub: Hub, server: Server, waits: Waits, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No address is contacted, not even the source of a local manifest."""
    own = tmp_path / "own"
    own.mkdir()
    told = tiny.read_manifest(hub.root / "tiny") | {"source": f"{server.url}/tiny"}
    tiny.write_manifest(own, told)
    asked = replace(Config(), models=ModelsConfig(offline=True))
    for name in (f"{server.url}/tiny/", str(own)):
        with pytest.raises(Offline, match="kb is offline"):
            pull(asked, name, sleep=waits)
        monkeypatch.setenv("KB_OFFLINE", "1")
        with pytest.raises(Offline):
            pull(CONFIG, name, sleep=waits)
        monkeypatch.delenv("KB_OFFLINE")
    assert server.asked == []
    pull(asked, str(hub.root / "tiny"))
    usable()


# --- removal --------------------------------------------------------------------------------------


def test_remove(fetch: Callable[..., Manifest], tmp_path: Path) -> None:
    fetch()
    model_directory.remove("tiny")
    assert model_directory.names() == []
    assert list(model_directory.folder().iterdir()) == []
    for name in ("tiny", "kb-mini", "../models", "", "."):
        with pytest.raises(ModelMissing, match="is not a pulled model"):
            model_directory.remove(name)


def test_the_manifest_is_json_that_reads_the_same(tmp_path: Path) -> None:
    from kb.models import manifest

    for folder in (tiny.lay(tmp_path / "a"), make_tiny_m3.lay(tmp_path / "b")):
        read = manifest.read(folder)
        told = json.loads(json.dumps(manifest.as_json(read)))
        assert manifest.parse(folder, told, "here") == read
