"""The fit of relevance, from pairs to parameters."""

from __future__ import annotations

import json
import random
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from training import relevance, relevance_data
from training.data import held_out_pair
from training.relevance_data import (
    Collection,
    Observation,
    read_encyclopedias,
    read_pairs,
    split_articles,
)

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
RUSSIAN = {
    "корабли": "гавань якорь парус матрос швартов прилив канат мачта штурвал палуба",
    "хлеб": "мука печка дрожжи тесто корка буханка пекарь соль закваска рожь",
    "звезды": "орбита планета комета туманность телескоп галактика затмение луна пыль спутник",
    "шахматы": "ладья слон дебют гамбит пешка ферзь рокировка эндшпиль партия доска",
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


def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *arguments: str) -> dict[str, Any]:
    """Run the command with a copy of the parameters, and return what it has written."""
    target = tmp_path / "parameters.py"
    shutil.copy(relevance_parameters.__file__, target)
    monkeypatch.setattr(relevance, "TARGET", target)
    monkeypatch.setattr(relevance, "LARGE", 4)
    monkeypatch.setattr(sys, "argv", ["relevance", *arguments, "--passages", str(PAIRS)])
    relevance.main()
    written = runpy.run_path(str(target))
    return {name: written[name] for name in ("ENGLISH", "FOREIGN")}


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
    before = relevance_parameters.ENGLISH
    assert fitted["ENGLISH"].words != before.words
    assert fitted["ENGLISH"].other != before.other
    assert fitted["FOREIGN"] == relevance_parameters.FOREIGN
    assert "by chance" in capsys.readouterr().out
    assert run(monkeypatch, tmp_path, *everything) == fitted, "from the file of observations"
    assert len(encoders) == 1
    again = run(monkeypatch, tmp_path, str(pairs), "--cache", str(cache), "--encoder", "kb-mini")
    assert again["ENGLISH"].words == before.words
    assert again["ENGLISH"].models == fitted["ENGLISH"].models
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
    before = relevance_parameters.ENGLISH
    assert fitted["ENGLISH"].words != before.words
    assert fitted["ENGLISH"].models == before.models
    assert fitted["ENGLISH"].other == before.other


def test_questions_in_other_languages_have_a_fit_of_their_own(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(models, "encoder", lambda _, name: None if name == "none" else Weightless())
    chance = random.Random(4)
    lines = []
    for source, words in RUSSIAN.items():
        for number in range(PAIRS):
            one, other, third = chance.sample(words.split(), 3)
            text = f"Заметка {number} рассказывает про {one}, {other} и ещё немного про {third}."
            line = {"query": f"как связаны {one} и {other}?", "positive": text, "lang": "ru"}
            lines.append(line | {"source": source})
            lines.append(line | {"source": f"{source}-unclear"})
    path = tmp_path / "russian.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    arguments = ("--foreign", "--cache", str(tmp_path / "cache"))
    fitted = run(monkeypatch, tmp_path, str(path), str(pairs), *arguments)
    assert fitted["ENGLISH"] == relevance_parameters.ENGLISH
    before, after = relevance_parameters.FOREIGN, fitted["FOREIGN"]
    assert after.words != before.words
    assert after.models["kb-mini"] != before.models["kb-mini"]
    assert after.models["kb-mini-multilingual"] == after.models["kb-mini"]
    assert after.other != before.other
    report = capsys.readouterr().out
    assert "words            корабли:ru" in report
    assert "unclear" not in report, "their license does not allow it"
    assert "boats" not in report, "its questions are in English"


def test_questions_are_those_that_no_encoder_has_learned(tmp_path: Path) -> None:
    passages = [f"passage number {number}" for number in range(200)]
    held_out = {passage for passage in passages if held_out_pair(passage)}
    lines = [{"query": f"about {each}", "positive": each, "source": "one"} for each in passages]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (collection,) = read_pairs([path], 60, len(held_out))
    asked = {doc_id for ids in collection.answers.values() for doc_id in ids}
    assert asked
    assert {collection.passages[doc_id][1] for doc_id in asked} <= held_out
    assert len(collection.passages) == 60


ARTICLES = [
    "横浜港は神奈川県の港湾である",
    "電気鉄道は電動機で走る鉄道である",
    "紫式部は平安時代の作家である",
    "阿蘇山は熊本県の活火山である",
]


def encyclopedia(path: Path, source: str = "jaquad") -> list[tuple[str, str]]:
    """Questions about four articles, each with 30 passages, and a file of these pairs."""
    pairs = [
        (f"{article[:4]}の話{number}は?", f"{article}、第{number}節{article[:6]}")
        for number in range(30)
        for article in ARTICLES
    ]
    lines = [
        {"query": query, "positive": text, "source": source, "lang": "ja"} for query, text in pairs
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return pairs


def test_no_passage_is_from_the_article_of_a_question_about_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relevance_data, "_NEAR", 0.25)
    monkeypatch.setattr(relevance_data, "_MOST_COMMON", 0.5)
    pairs = encyclopedia(tmp_path / "pairs.jsonl")
    strange, rest = split_articles(pairs, 1)
    assert strange == [pairs[0]]
    assert {text[:4] for _, text in rest} == {article[:4] for article in ARTICLES[1:]}
    assert len(rest) == 90
    (collection,) = read_encyclopedias([tmp_path / "pairs.jsonl"], 20, 1)
    assert len(collection.passages) == 20
    topics = {text[:4] for _, text in collection.passages.values()}
    assert not any(question[:4] in topics for question in collection.strange)
    assert not set(collection.strange) & set(collection.questions)
    encyclopedia(tmp_path / "manuals.jsonl", "mdn-translated")
    assert read_encyclopedias([tmp_path / "manuals.jsonl"], 20, 1) == []


def test_words_alone_learn_nothing_from_questions_about_other_articles() -> None:
    texts = {f"p{number}": ("", f"{ARTICLES[number]}") for number in range(2)}
    near = Collection("jaquad:ja", texts, ["横浜港はどこ?"], {}, strange=["阿蘇山はどこ?"])
    other = Collection("mdn:ja", {"q": ("", "要素の属性")}, ["属性とは?"], {})
    observed = list(
        relevance.search([near], Weightless(), (0.5, 1.0), foreign=True, others=[other])
    )
    assert {each.own for each in observed} == {True, False}
    assert all(each.signals.cosine is not None for each in observed)


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
