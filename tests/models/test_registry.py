from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kb import models
from kb.config import Config, ModelsConfig
from kb.errors import ModelBroken, ModelError, ModelMissing
from kb.models.onnx_encoder import OnnxEncoder
from kb.ports import traits_of
from tests.models.weightless import Weightless


def config(encoder: str, judge: str = "none") -> Config:
    return replace(Config(), models=ModelsConfig(encoder=encoder, judge=judge, exam=False))


@pytest.fixture
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Installs a package with encoders: real metadata, on the path."""

    def install(lines: str) -> None:
        site = tmp_path / "site"
        info = site / "others-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[kb.encoders]\n{lines}\n")
        (site / "kb_others.py").write_text(
            "from tests.models.weightless import Weightless\n"
            "def make(config): return Weightless(config.chunk.max_chars // 100, name='hashed')\n"
            "def fail(config): raise RuntimeError('no such device')\n"
            "def other(config): return object()\n"
            "class Zero(Weightless):\n"
            "    def _encode(self, text, want):\n"
            "        from array import array\n"
            "        from kb.types import Encoding\n"
            "        return Encoding(dense=array('f', [0.0] * 64))\n"
            "def zero(config): return Zero()\n"
        )
        monkeypatch.syspath_prepend(str(site))

    return install


def test_none_switches_them_off() -> None:
    assert models.encoder(config("none")) is None
    with pytest.raises(ModelMissing):
        models.info(Config(), "none")


def test_a_folder(tiny_folder: Path) -> None:
    found = models.encoder(config(str(tiny_folder)))
    assert isinstance(found, OnnxEncoder)
    assert found.spec.name == "tiny"
    (listed,) = (each for each in models.models(config(str(tiny_folder))) if each.in_use)
    assert (listed.name, listed.origin, listed.licence) == ("tiny", "folder", "MIT")
    assert listed == models.verify(config(str(tiny_folder)), str(tiny_folder))


def test_the_argument_wins_over_the_setting(tiny_folder: Path) -> None:
    found = models.encoder(config("none"), str(tiny_folder))
    assert found is not None


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing):
        models.encoder(config(str(tmp_path)))
    (listed,) = (each for each in models.models(config(str(tmp_path))) if each.in_use)
    assert listed.spec is None
    assert "it has no model.json" in (listed.problem or "")


def test_an_unknown_name_lists_the_known(plug_in: Callable[[str], None]) -> None:
    plug_in("hashed = kb_others:make")
    for ask in (models.encoder, models.info):
        with pytest.raises(ModelMissing) as missing:
            ask(Config(), "kb-maxi")
        assert "'kb-maxi'" in missing.value.message
        assert "hashed" in missing.value.hint


def test_an_encoder_of_another_package(plug_in: Callable[[str], None]) -> None:
    plug_in("hashed = kb_others:make")
    found = models.encoder(config("hashed"))
    assert isinstance(found, Weightless)
    assert found.spec.dimension == 18
    assert traits_of(found).batch_size == 8
    (listed,) = (each for each in models.models(config("hashed")) if each.name == "hashed")
    assert (listed.origin, listed.in_use) == ("package others", True)
    assert models.verify(config("hashed"), "hashed") == listed


def test_encoders_of_others_that_fail(plug_in: Callable[[str], None]) -> None:
    plug_in("fails = kb_others:fail\nother = kb_others:other\ngone = kb_nowhere:make")
    with pytest.raises(ModelError, match="no such device"):
        models.encoder(config("fails"))
    with pytest.raises(ModelBroken, match="it has no spec, encode"):
        models.encoder(config("other"))
    with pytest.raises(ModelError, match="kb_nowhere"):
        models.encoder(config("gone"))
    problems = {each.name: each.problem for each in models.models(Config())}
    assert "no such device" in (problems["fails"] or "")


def test_verifying_looks_at_what_is_given(plug_in: Callable[[str], None]) -> None:
    plug_in("zero = kb_others:zero")
    with pytest.raises(ModelBroken, match="returned no dense vector of 64 dimensions"):
        models.verify(config("zero"), "zero")


def test_verifying_holds_an_exam(plug_in: Callable[[str], None]) -> None:
    plug_in("hashed = kb_others:make")
    settings = config("hashed")
    examined = replace(settings, models=replace(settings.models, exam=True))
    marks = models.verify(examined, "hashed").marks
    assert marks
    assert not any(mark.passed for mark in marks)


def test_verifying_looks_at_every_byte(copied: Callable[[], Path]) -> None:
    folder = copied()
    graph = folder / "model.onnx"
    # Somewhere in the weights: the graph loads, but returns other vectors.
    data = bytearray(graph.read_bytes())
    data[len(data) // 2] ^= 1
    graph.write_bytes(data)
    with pytest.raises(ModelBroken, match="its SHA-256 is"):
        models.verify(config(str(folder)), str(folder))


def test_what_is_loaded_when(tiny_folder: Path) -> None:
    script = f"""
import sys
from kb import models
from kb.config import load
found = models.encoder(load(overrides={{"models.encoder": {str(tiny_folder)!r}}}))
assert found.spec.dimension == 32
heavy = {{"numpy", "onnxruntime", "tokenizers", "hashlib", "importlib.metadata"}}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
found.encode(["radio"])
network = {{"huggingface_hub", "httpx", "httpx2", "requests", "urllib3", "urllib.request"}}
assert not network & set(sys.modules), network & set(sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


# --- judges ---------------------------------------------------------------------------------------


@pytest.fixture
def judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with judges."""
    site = tmp_path / "judging"
    info = site / "judges-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: judges\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[kb.judges]\nwords = kb_judges:make\nmute = kb_judges:mute\nother = kb_judges:other\n"
    )
    (site / "kb_judges.py").write_text(
        "from tests.models.judges import WordJudge\n"
        "def make(config): return WordJudge()\n"
        "def mute(config):\n"
        "    judge = WordJudge()\n"
        "    judge.fail = 'short'\n"
        "    return judge\n"
        "def other(config): return object()\n"
    )
    monkeypatch.syspath_prepend(str(site))


@pytest.mark.usefixtures("judges")
def test_a_judge_of_another_package() -> None:
    found = models.judge(config("none", "words"))
    assert found is not None
    assert found.scores("a b", ["a b", "c"])[0] > 1
    verified = models.verify(config("none", "words"), "words")
    assert (verified.origin, verified.in_use) == ("package judges", True)
    with pytest.raises(ModelBroken, match="no score for a pair"):
        models.verify(config("none"), "mute")
    with pytest.raises(ModelBroken, match="not a valid judge: it has no spec, scores"):
        models.judge(config("none", "other"))


@pytest.mark.usefixtures("judges")
def test_an_encoder_is_no_judge_and_a_judge_no_encoder(tiny_folder: Path) -> None:
    for ask, names in (
        (models.encoder, ("kb-judge", "words", "nosuch", "x" * 300)),
        (models.judge, ("kb-mini", str(tiny_folder), "nosuch")),
    ):
        for name in names:
            with pytest.raises(ModelMissing) as missing:
                ask(config("none"), name)
            assert "there is no" in missing.value.message
            own = "kb-mini" if ask is models.encoder else "kb-judge"
            assert own in missing.value.hint


def test_none_switches_judges_off() -> None:
    assert models.judge(config("kb-mini", "none")) is None
