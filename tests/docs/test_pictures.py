"""The pictures show the recorded search, and a search still agrees with the record."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from tests.docs.pages import DOCS, REPOSITORY

PICTURES = sorted(path.stem for path in (DOCS / "pictures").glob("*.svg"))


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("pictures")


def test_pictures_and_tables_are_current(pictures: ModuleType) -> None:
    for path, content in pictures.expected_files().items():
        assert path.read_text(encoding="utf-8") == content, f"{path.name}: make docs"


def test_there_are_no_others_and_each_is_shown(pictures: ModuleType) -> None:
    drawn = [path.stem for path in pictures.expected_files() if path.suffix == ".svg"]
    assert sorted(drawn) == PICTURES
    text = "".join(
        (DOCS / "explanation" / f"{page}.md").read_text(encoding="utf-8")
        for page in ("ranking", "architecture")
    )
    assert all(text.count(f"](../pictures/{name}.svg)") == 1 for name in PICTURES)


def test_the_layers_are_those_of_the_import_contract(pictures: ModuleType) -> None:
    contract = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    layers = pictures.diagrams.import_layers()
    assert layers[0] == ["cli", "integrations"]
    assert all(f"kb.{name}" in contract for row in layers for name in row)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_whole_and_its_text_inside(name: str) -> None:
    root = ElementTree.parse(DOCS / "pictures" / f"{name}.svg").getroot()
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    places = [(float(each.attrib["x"]), float(each.attrib["y"])) for each in root.iter()
              if each.tag.endswith("}text")]  # fmt: skip
    assert places
    assert all(0 < x < width and 0 < y < height for x, y in places)


def test_text_of_a_picture_is_text(pictures: ModuleType) -> None:
    measured = json.loads((DOCS / "pictures" / "query.json").read_text(encoding="utf-8"))
    drawn = pictures.drawings.filters({**measured, "query": "a < b && </text>"})
    assert "a < b && </text>" in "".join(ElementTree.fromstring(drawn).itertext())


def test_figures_are_those_of_the_readme(pictures: ModuleType) -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    collections, methods = pictures.figures(readme)
    assert {"words", "meaning", "weighted terms", "default"} <= set(methods)
    for name, row in methods.items():
        assert len(row) == len(collections), name
        assert all(f"{figure:.3f}"[1:] in readme for figure in row)


def test_the_check_names_what_is_stale_and_what_to_do(tmp_path: Path) -> None:
    shutil.copytree(DOCS, tmp_path / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, tmp_path)

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(tmp_path / "docs" / "pictures.py"), *args]
        return subprocess.run(command, capture_output=True, encoding="utf-8")

    assert run("--check").returncode == 0
    (tmp_path / "docs" / "pictures" / "quality.svg").unlink()
    page = tmp_path / "docs" / "explanation" / "ranking.md"
    page.write_text(page.read_text(encoding="utf-8").replace("| A |", "| Z |"), encoding="utf-8")
    stale = run("--check")
    assert (stale.returncode, stale.stdout) == (1, "")
    assert "docs/pictures/quality.svg" in stale.stderr
    assert "docs/explanation/ranking.md" in stale.stderr
    assert "make docs" in stale.stderr
    assert "stages.svg" not in stale.stderr
    assert run("--draw").stdout.count("wrote ") == 2
    assert run("--check").returncode == 0
    assert run("--nope").returncode == 1


@pytest.mark.slow
def test_a_search_still_gives_what_was_measured(
    pictures: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the differences between processors. If it fails: make docs, and check the page."""
    monkeypatch.delenv("KB_MODELS_ENCODER")
    kept = json.loads((DOCS / "pictures" / "query.json").read_text(encoding="utf-8"))
    now = pictures.measure()
    assert now["found"] == kept["found"]
    assert now["weights"] == pytest.approx(kept["weights"], abs=0.01)
    assert now["passages"][0]["where"] == kept["passages"][0]["where"]
    assert scores(now) == pytest.approx(scores(kept), abs=0.02)


def scores(measured: dict[str, list[dict[str, float]]]) -> list[float]:
    return sorted(each["score"] for each in measured["passages"])
