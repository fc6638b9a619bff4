"""The map of a library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from kb import Filters, KnowledgeBase, wire
from kb.cli.map_layout import COLORS, map_layout
from kb.cli.map_svg import map_svg
from kb.errors import InvalidRequest
from kb.library import library_map
from kb.library.library_map import cluster, lay_out, name_topics
from tests.models.weightless import Weightless
from tests.schemas import validate


@pytest.fixture
def mapped(tmp_path: Path) -> Iterator[KnowledgeBase]:
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=Weightless()) as kb:
        for number in range(8):
            kb.add(f"heron reeds nest {number}", title=f"Heron <{number}> & \x1b", kind="lesson")
            kb.add(f"pump valve motor {number}", title=f"Pump {number}")
        kb.embed()
        yield kb


def groups() -> np.ndarray:
    chance = np.random.default_rng(1)
    centers = np.eye(3, 16)[np.repeat([0, 1, 2], 12)]
    rows = centers + 0.1 * chance.standard_normal(centers.shape)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def test_similar_rows_are_near_each_other() -> None:
    places = lay_out(groups())
    assert places.min() >= 0
    assert places.max() <= 1
    distance = np.linalg.norm(places[:, None] - places[None], axis=2)
    same = np.repeat([0, 1, 2], 12)[:, None] == np.repeat([0, 1, 2], 12)[None]
    assert distance[same].mean() < 0.5 * distance[~same].mean()
    assert (lay_out(groups()) == places).all()


def test_topics_are_clusters() -> None:
    topics = cluster(groups())
    assert len(set(topics)) == 3
    assert all(len(set(topics[at : at + 12])) == 1 for at in (0, 12, 24))


def test_topics_are_named_by_their_words() -> None:
    texts = ["the heron of the reeds", "heron nests", "the pump motor", "pump valve"]
    names = name_topics(texts, [0, 0, 1, 1])
    assert names[0].startswith("heron")
    assert names[1].startswith("pump")


def test_a_map_of_a_store(mapped: KnowledgeBase) -> None:
    drawn = mapped.map()
    validate(wire.library_map(drawn))
    assert len(drawn.points) == 16
    assert mapped.map() == drawn
    assert len(mapped.map(Filters(kind=("lesson",))).points) == 8


@pytest.mark.parametrize("color", COLORS)
def test_the_picture_is_valid(mapped: KnowledgeBase, color: str) -> None:
    svg = map_svg(map_layout(mapped.map(), color))
    root = ElementTree.fromstring(svg)
    circles = root.findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) >= 16
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")


def _calls(name: str, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """A list that grows with every call of a function of `library_map`."""
    calls: list[None] = []
    function = getattr(library_map, name)

    def counted(*values: object) -> object:
        calls.append(None)
        return function(*values)

    monkeypatch.setattr(library_map, name, counted)
    return calls


def test_a_map_is_computed_again_when_the_store_changes(
    mapped: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = _calls("lay_out", monkeypatch)
    mapped.map()
    mapped.map()
    assert len(calls) == 1
    mapped.map(Filters(kind=("lesson",)))
    assert len(calls) == 2
    path = mapped.documents()[0].doc_path
    mapped.tag(path, add=("changed",))
    mapped.map()
    assert len(calls) == 3
    mapped.remove(path)
    assert path not in {point.doc_path for point in mapped.map().points}


def test_statistics_are_current(mapped: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _calls("mean_vectors", monkeypatch)
    assert mapped.statistics()["most_read"] == []
    path = mapped.documents()[0].doc_path
    mapped.get(path)
    assert mapped.statistics()["most_read"][0]["doc_path"] == path
    assert len(calls) == 1


def test_without_vectors(kb: KnowledgeBase) -> None:
    kb.add("one")
    with pytest.raises(InvalidRequest, match="vectors"):
        kb.map()
