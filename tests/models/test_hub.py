"""`kb models pull ORG/NAME` from a hub on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha1, sha256
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from kb.config import Config, ModelsConfig
from kb.errors import InvalidRequest, ModelBroken, ModelError, ModelMissing, Offline
from kb.models import hub, model_directory, verify
from kb.models.pull import pull
from tests.models import make_tiny_m3
from tests.models.serving import Answer, ReceivedRequest, Server, answer, serving
from tests.models.test_endpoint import Waits
from tests.models.test_export_layouts import lay_hub

COMMIT = "5617a9f61b028005a4858fdac845db406aefb181"
LARGE = (".onnx", "_data", ".pt")


class FakeHub:
    """Serves the folders below `root` as a hub does: ORG/NAME, with a list of files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.listing: dict[str, Any] = {}  # replaces values of the list
        self.cut: dict[str, int] = {}  # bytes after which a download breaks off, once

    def __call__(self, asked: ReceivedRequest) -> Answer:
        path = unquote(asked.path.partition("?")[0]).lstrip("/")
        if path.startswith("api/models/"):
            name, _, revision = path.removeprefix("api/models/").partition("/revision/")
            folder = self.root / name
            if not folder.is_dir() or revision not in ("main", COMMIT):
                return Answer(404)
            return answer({"sha": COMMIT, "siblings": _siblings(folder)} | self.listing)
        name, _, file = path.partition(f"/resolve/{COMMIT}/")
        place = self.root / name / file
        if not place.is_file():
            return Answer(404)
        data = place.read_bytes()
        start = int(asked.headers.get("Range", "bytes=0-")[6:-1])
        if start:
            told = f"bytes {start}-{len(data) - 1}/{len(data)}"
            return Answer(206, data[start:], {"Content-Range": told})
        return Answer(200, data, cut=self.cut.pop(place.name, None))


def _siblings(folder: Path) -> list[dict[str, Any]]:
    siblings = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            blob = sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
            entry: dict[str, Any] = {"rfilename": path.relative_to(folder).as_posix()}
            entry |= {"size": len(data), "blobId": blob}
            if path.name.endswith(LARGE):
                entry["lfs"] = {"sha256": sha256(data).hexdigest(), "size": len(data)}
            siblings.append(entry)
    return siblings


@pytest.fixture
def fake(tmp_path: Path) -> FakeHub:
    return FakeHub(tmp_path / "hub")


@pytest.fixture
def server(fake: FakeHub, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.delenv("KB_OFFLINE", raising=False)
    with serving(fake) as started:
        monkeypatch.setenv("HF_ENDPOINT", f"{started.url}/")
        yield started


def fetch(name: str = "BAAI/bge-m3", **options: Any) -> Any:
    return pull(Config(), name, sleep=Waits(), **options)


# --- layouts --------------------------------------------------------------------------------------


def test_an_export_with_heads_above_it(fake: FakeHub, server: Server) -> None:
    folder = lay_hub(fake.root / "BAAI" / "bge-m3")
    (folder / "pytorch_model.bin").write_bytes(b"\0" * 1000)
    (folder / "README.md").write_text("a model")
    shown: list[tuple[int, int, str]] = []
    pulled = fetch(on_progress=lambda *event: shown.append(event))
    assert pulled.spec.name == "bge-m3"
    assert pulled.spec.gives == {"dense", "sparse", "tokens"}
    assert pulled.folder == model_directory.path_of("bge-m3")
    assert verify(Config(), "bge-m3").problem is None
    asked = {each.path.rpartition("/")[2] for each in server.asked}
    assert not asked & {"pytorch_model.bin", "README.md"}
    assert shown[-1][0] == shown[-1][1]
    told = json.loads((pulled.folder / "model.json").read_text(encoding="utf-8"))
    assert (told["repository"], told["revision"]) == ("BAAI/bge-m3", COMMIT)


def test_a_graph_of_another_name(fake: FakeHub, server: Server) -> None:
    make_tiny_m3.lay(fake.root / "gpahal" / "bge-m3-onnx-int8", graph="model_quantized.onnx")
    pulled = fetch("gpahal/bge-m3-onnx-int8")
    assert pulled.graph == "model_quantized.onnx"
    assert verify(Config(), "bge-m3-onnx-int8").problem is None


def test_hidden_states_with_a_pooling_configuration(fake: FakeHub, server: Server) -> None:
    folder = make_tiny_m3.lay(fake.root / "me" / "plain", outputs=("last_hidden_state",))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    assert fetch("me/plain").first_token


def test_a_second_pull_downloads_nothing(fake: FakeHub, server: Server) -> None:
    lay_hub(fake.root / "BAAI" / "bge-m3")
    first = fetch()
    server.asked.clear()
    assert fetch(revision=COMMIT).spec == first.spec
    assert len(server.asked) == 1  # the list of files
    fake.listing = {"sha": "0" * 40}
    with pytest.raises(InvalidRequest, match="contains another model"):
        fetch()


def test_an_interrupted_pull_continues(fake: FakeHub, server: Server) -> None:
    lay_hub(fake.root / "BAAI" / "bge-m3")
    fake.cut = {"model.onnx_data": 1000}
    fetch()
    ranges = [each.headers["Range"] for each in server.asked if "Range" in each.headers]
    assert ranges == ["bytes=1000-"]


# --- explanations ---------------------------------------------------------------------------------


def test_a_repository_without_a_graph(fake: FakeHub, server: Server) -> None:
    folder = fake.root / "org" / "weights"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"\0")
    (folder / "strange.onnx").write_bytes(b"\0")
    with pytest.raises(ModelMissing, match=r"no ONNX graph that kb knows: it has strange\.onnx"):
        fetch("org/weights")


def test_a_tokenizer_in_onnx(fake: FakeHub, server: Server) -> None:
    folder = make_tiny_m3.lay(fake.root / "y" / "m3", graph="bge_m3_model.onnx")
    (folder / "tokenizer.json").rename(folder / "bge_m3_tokenizer.onnx")
    with pytest.raises(ModelMissing, match=r"y/m3 has no tokenizer\.json") as error:
        fetch("y/m3")
    assert "bge_m3_tokenizer.onnx" in error.value.hint


def test_outputs_are_checked_before_the_weights_are_downloaded(
    fake: FakeHub, server: Server
) -> None:
    make_tiny_m3.lay(fake.root / "org" / "hidden", outputs=("last_hidden_state",))
    with pytest.raises(ModelBroken, match="no dense output"):
        fetch("org/hidden")
    assert not any("onnx_data" in each.path for each in server.asked)


def test_weights_that_the_repository_lacks(fake: FakeHub, server: Server) -> None:
    folder = make_tiny_m3.lay(fake.root / "org" / "m3")
    (folder / "model.onnx_data").unlink()
    with pytest.raises(ModelMissing, match=r"lacks the weights model\.onnx_data"):
        fetch("org/m3")


@pytest.mark.parametrize(
    "listing",
    [
        {"sha": "main"},
        {"sha": None},
        {"siblings": None},
        {"siblings": [{"rfilename": "model.onnx", "size": "much"}]},
        {"siblings": [{"rfilename": "model.onnx", "size": 1, "lfs": {"sha256": "x", "size": 1}}]},
    ],
)
def test_lists_that_mean_harm(fake: FakeHub, server: Server, listing: dict[str, Any]) -> None:
    lay_hub(fake.root / "BAAI" / "bge-m3")
    fake.listing = listing
    with pytest.raises(ModelBroken, match="is not a list of files"):
        fetch()


def test_files_that_do_not_match_the_list(fake: FakeHub, server: Server) -> None:
    folder = lay_hub(fake.root / "BAAI" / "bge-m3")
    fake.listing = {"siblings": _siblings(folder)}
    (folder / "config.json").write_text("{}")
    with pytest.raises(ModelBroken, match="does not match the hash that the hub lists"):
        fetch()


def test_a_name_that_is_not_there(fake: FakeHub, server: Server) -> None:
    with pytest.raises(ModelMissing, match="does not exist"):
        fetch("org/nothing")


def test_offline(fake: FakeHub, server: Server) -> None:
    with pytest.raises(Offline):
        pull(Config(models=ModelsConfig(offline=True)), "BAAI/bge-m3")
    assert server.asked == []


@pytest.mark.parametrize("name", ["BAAI/bge-m3", "a/b.c"])
def test_names_of_repositories(name: str) -> None:
    assert hub.is_hub_name(name)


@pytest.mark.parametrize("name", ["bge-m3", "a/b/c", "../b", "a/", "/b", "~/b", "a b/c", "."])
def test_other_names(name: str) -> None:
    assert not hub.is_hub_name(name)


def test_an_address_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "ftp://hub")
    with pytest.raises((InvalidRequest, ModelError)):
        hub.hub_url()
