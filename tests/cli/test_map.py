"""`kb map`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kb import KnowledgeBase
from tests.cli.conftest import Run
from tests.models.weightless import Weightless
from tests.schemas import validate


def _store(tmp_path: Path) -> Path:
    path = tmp_path / "kb.sqlite"
    with KnowledgeBase(path, encoder=Weightless()) as kb:
        for number in range(4):
            kb.add(f"heron reeds nest {number}", title=f"Heron {number}")
        kb.embed()
    return path


def test_a_map_is_a_file(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "map.svg"
    result = run("--store", _store(tmp_path), "map", "-o", target, "--color", "kind")
    assert result.out == f"4 documents in 1 topic: {target}\n"
    assert target.read_text().startswith("<svg")
    shape = run("--store", tmp_path / "kb.sqlite", "map", "--json").json
    validate(shape)
    assert len(shape["points"]) == 4


def test_the_store_is_not_overwritten(run: Run, tmp_path: Path) -> None:
    store = _store(tmp_path)
    before = store.read_bytes()
    assert run("--store", store, "map", "-o", store).status == 2
    assert store.read_bytes() == before


def test_without_vectors(run: Run, here: Path) -> None:
    result = run("map", "-o", here / "map.svg")
    assert result.status == 2
    assert "kb embed" in result.err
    assert not (here / "map.svg").exists()


def test_only_a_map_is_overwritten(run: Run, tmp_path: Path) -> None:
    store = _store(tmp_path)
    other, notes, target = tmp_path / "other.sqlite", tmp_path / "keep.txt", tmp_path / "map.svg"
    with KnowledgeBase(other) as kb:
        kb.add("something")
    notes.write_text("important")
    for path in (other, notes, tmp_path / "missing" / "map.svg"):
        before = path.read_bytes() if path.exists() else None
        result = run("--store", store, "map", "-o", path)
        assert result.status == 2, path
        assert (path.read_bytes() if path.exists() else None) == before
    assert not (tmp_path / "missing").exists()
    for arguments in ((target,), (target,), (notes, "--force")):
        assert run("--store", store, "map", "-o", *arguments).status == 0
    assert notes.read_text().startswith("<svg")


def test_a_map_to_stdout(run: Run, tmp_path: Path, here: Path) -> None:
    result = run("--store", _store(tmp_path), "map", "-o", "-")
    assert result.out.startswith("<svg")
    assert result.out.endswith("</svg>\n")
    assert not (here / "-").exists()


def test_a_map_as_png(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    from PIL import Image

    store, target = _store(tmp_path), tmp_path / "map.PNG"
    for _ in range(2):  # a map may be overwritten
        result = run("--store", store, "map", "-o", target)
        assert result.out == f"4 documents in 1 topic: {target}\n"
    with Image.open(target) as image:
        assert (image.format, image.size) == ("PNG", (2460, 1440))
        colors = {color for _, color in image.getcolors(1 << 20) or ()}
    assert {(0xFB, 0xFA, 0xF7), (0x0D, 0x61, 0x57)} <= colors  # the paper, and the first topic


def test_a_map_as_png_without_pillow(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    result = run("--store", _store(tmp_path), "map", "-o", tmp_path / "map.png")
    assert "kb-search[png]" in result.err
    assert not (tmp_path / "map.png").exists()
