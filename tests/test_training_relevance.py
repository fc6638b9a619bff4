"""The fit of relevance, from pairs to parameters."""

from __future__ import annotations

import json
import random
import runpy
import shutil
import sys
from pathlib import Path

import pytest
from training import relevance
from training.relevance_data import Observation

from kb import models
from kb.config import Config
from kb.search.ranking import relevance_parameters
from kb.search.ranking.relevance import Signals, probability
from tests.models.weightless import Weightless

TOPICS = {
    "boats": "harbour keel rudder mooring quay anchor tide sailor rope mast",
    "bread": "flour oven yeast dough crust loaf baker salt kneading rye",
    "stars": "orbit planet comet nebula telescope galaxy eclipse moon gravity dust",
    "chess": "rook bishop opening gambit pawn checkmate queen castling endgame tempo",
}
PAIRS = 12


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    chance = random.Random(3)
    lines = []
    for source, words in TOPICS.items():
        for number in range(PAIRS):
            chosen = chance.sample(words.split(), 4)
            text = f"Note {number} tells how the {chosen[0]} and the {chosen[1]} meet {chosen[2]}."
            query = f"how do {chosen[0]} and {chosen[1]} meet?"
            lines.append({"query": query, "positive": text, "source": source})
    lines.append({"query": "'an expression'", "positive": "one more", "source": "boats"})
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *arguments: str) -> dict[str, object]:
    """Run the command with a copy of the parameters, and return what it has written."""
    target = tmp_path / "parameters.py"
    shutil.copy(relevance_parameters.__file__, target)
    monkeypatch.setattr(relevance, "TARGET", target)
    monkeypatch.setattr(relevance, "LARGE", 4)
    monkeypatch.setattr(sys, "argv", ["relevance", *arguments, "--passages", str(PAIRS)])
    relevance.main()
    written = runpy.run_path(str(target))
    return {name: written[name] for name in ("WORDS", "MODELS", "OTHER")}


def test_from_pairs_to_parameters(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    encoders: list[Weightless] = []

    def encoder(_: Config, name: str) -> Weightless | None:
        if name == "none":
            return None
        encoders.append(Weightless())
        return encoders[-1]

    monkeypatch.setattr(models, "encoder", encoder)
    cache, seen = tmp_path / "cache", tmp_path / "seen.jsonl"
    everything = ["--cache", str(cache), "--observations", str(seen)]
    fitted = run(monkeypatch, tmp_path, str(pairs), *everything)
    assert fitted["WORDS"] != relevance_parameters.WORDS
    assert fitted["OTHER"] != relevance_parameters.OTHER
    assert "by chance" in capsys.readouterr().out
    assert run(monkeypatch, tmp_path, *everything) == fitted, "from the file of observations"
    assert len(encoders) == 1
    again = run(monkeypatch, tmp_path, str(pairs), "--cache", str(cache), "--encoder", "kb-mini")
    assert again["WORDS"] == relevance_parameters.WORDS
    assert again["MODELS"] == fitted["MODELS"]
    passages = {text for call in encoders[0].calls for text in call if text.startswith("Note")}
    assert passages
    assert not passages & {text for call in encoders[1].calls for text in call}


def test_words_alone_need_no_encoder(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encoder(_: Config, name: str) -> None:
        assert name == "none"

    monkeypatch.setattr(models, "encoder", encoder)
    fitted = run(monkeypatch, tmp_path, str(pairs), "--encoder", "none")
    assert fitted["WORDS"] != relevance_parameters.WORDS
    assert fitted["MODELS"] == relevance_parameters.MODELS
    assert fitted["OTHER"] == relevance_parameters.OTHER


def test_the_fit_has_the_least_loss() -> None:
    """Weights of signals are not negative, and the estimates follow the labels."""
    chance = random.Random(5)
    observations = []
    for number in range(400):
        coverage, about = chance.random(), number % 2 == 0
        signals = Signals(2.0, chance.random(), (coverage + about) / 2, 2.0 - 2.0 * about, 400)
        observations.append(Observation(f"c{number % 4}", 0.0, about, 1, signals, None, about))
    fitted = relevance.fit(observations, ("coverage", "known", "count", "length"))
    assert all(weight >= 0.0 for weight in fitted.weights.values())
    assert "count" not in fitted.weights, "it falls with the label, and a signal must not"
    near = [probability(each.signals, fitted) > 0.5 for each in observations]
    right = sum(one == each.about for one, each in zip(near, observations, strict=True))
    assert right > 0.95 * len(observations)
