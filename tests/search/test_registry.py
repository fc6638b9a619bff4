"""A retriever is one class and one registry entry: everything else reads the entry."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from kb import KnowledgeBase, wire
from kb.cli.run import run
from kb.config import Config, SearchConfig
from kb.errors import InvalidRequest
from kb.search.ranking.fusion import Fusion, RankedList
from kb.search.retrievers import registry
from kb.server.api import create_app
from kb.types import ScoredChunk
from tests.schemas import validate
from tests.search.toy_retriever import LETTERS

PROFILE = {"zed": {"base": "notes", "retrievers": ["lexical", "letters"]}}
TEXTS = ("fuzzy puzzle", "a puzzle of words", "plain words")


@pytest.fixture(autouse=True)
def letters() -> Iterator[None]:
    registry.register(LETTERS)
    yield
    registry.unregister(LETTERS.name)


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[KnowledgeBase]:
    config = Config(search=SearchConfig(profile="zed"), profiles=PROFILE)
    with KnowledgeBase(tmp_path / "kb.sqlite", config=config, encoder="none") as opened:
        for text in TEXTS:
            opened.add(text, title=text)
        yield opened


def test_a_profile_runs_it(kb: KnowledgeBase) -> None:
    response = kb.search("words", explain=True)
    assert {hit.title for hit in response.hits} == set(TEXTS)
    assert response.mode == "hybrid"
    assert not response.degraded
    first = next(hit for hit in response.hits if hit.title == "fuzzy puzzle")
    assert first.sources == ("zed",)
    assert (first.retrieval.zeds_score, first.retrieval.zeds_rank) == (4.0, 1)
    assert first.retrieval.lexical_score is None


def test_a_mode_runs_it_alone(kb: KnowledgeBase) -> None:
    response = kb.search("words", mode="zeds")
    assert [hit.title for hit in response.hits] == ["fuzzy puzzle", "a puzzle of words"]
    assert (response.mode, response.hits[0].score_kind) == ("zeds", "count")
    assert response.hits[0].retrieval.method == "zeds"


def test_json_and_explanation(kb: KnowledgeBase) -> None:
    shape = wire.response(kb.search("words", explain=True))
    validate(shape)
    validate(wire.response(kb.search("words", mode="zeds")))
    assert {"zeds_score", "zeds_rank", "lexical_score"} <= shape["hits"][0]["retrieval"].keys()
    assert "letters(z)" in shape["explain"]["pipeline"]
    assert "letters" in {stage["stage"] for stage in shape["explain"]["stages"]}
    assert any("letters" in hit["scores"] for hit in shape["explain"]["hits"])


def test_status_and_settings(kb: KnowledgeBase) -> None:
    assert "letters" in kb.index_version()
    validate(kb.status())
    assert kb.profiles()["zed"]["weights"] == {"lexical": 1.0, "letters": 1.0}
    alone = kb.search("words", settings={"weights.lexical": "0"})
    assert alone.hits[0].title == "fuzzy puzzle"


def test_command_line(kb: KnowledgeBase, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["search", "words", "--store", str(kb.path), "--mode", "zeds"]
    assert run([*asked, "--explain"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"zeds +rank 1 +score 4\.0", shown)
    assert "letters(z)" in shown
    assert run([*asked, "--json"]) == 0
    shape = json.loads(capsys.readouterr().out)
    validate(shape)
    assert shape["hits"][0]["retrieval"]["zeds_score"] == 4.0
    assert run(["search", "--help"]) == 0
    assert "zeds (letters); or hybrid" in " ".join(capsys.readouterr().out.split())


def test_web_page(kb: KnowledgeBase) -> None:
    """The page reads the retrievers from the server: their modes, labels and fields."""
    with TestClient(create_app(kb), base_url="http://127.0.0.1") as client:
        module = client.get("/assets/retrievers.js")
        assert module.headers["content-type"].startswith("text/javascript")
        entries = json.loads(module.text.removeprefix("export const RETRIEVERS = ").strip("\n;"))
        assert {"name": "letters", "mode": "zeds", "source": "zed", "label": "Letters",
                "style": "by-other"} in entries  # fmt: skip
        response = client.post("/search", json={"query": "words", "mode": "zeds"})
        validate(response.json())
        assert response.json()["returned"] == 2


@pytest.mark.parametrize("name", ["app.js", "explain.js", "results.js", "index.html"])
def test_the_page_has_no_list_of_retrievers(name: str) -> None:
    from importlib import resources

    text = (resources.files("kb.server") / "web" / name).read_text(encoding="utf-8")
    assert not re.search(r"\b(lexical|vector|dense|sparse)\b", text.replace("only words", ""))


def test_fusion_uses_its_scales() -> None:
    lists = [RankedList("letters", (ScoredChunk(1, 3.0, 1), ScoredChunk(2, -1.0, 2)))]
    assert Fusion("convex").kind(lists) == "count"
    assert [one.score for one in Fusion("weighted")(lists)] == [3.0, 0.0]


@pytest.mark.parametrize("change", [{"mode": "new"}, {"name": "new"}, {"mode": "hybrid"}])
def test_names_and_modes_are_unique(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        registry.register(LETTERS._replace(**change))


def test_built_in_retrievers_stay() -> None:
    registry.unregister("lexical")
    assert registry.names() == ("lexical", "dense", "sparse", "letters")
    assert registry.modes() == ("lexical", "vector", "sparse", "zeds", "hybrid")
