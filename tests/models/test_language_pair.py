"""kb-mini reads English with one network and other languages with another, in one space."""

from __future__ import annotations

import numpy as np
import pytest

from kb import models
from kb.config import Config
from kb.errors import InvalidRequest
from kb.models.language_pair import LanguagePair
from kb.types import Encoding

ALL = frozenset({"dense", "sparse", "tokens"})
NOTES = [
    "Make a backup of the database every night, and keep the copies for a week.",
    "Die Katze schläft den ganzen Tag auf dem Sofa und frisst am Abend Fisch.",
    "The train to the airport leaves from platform four every twenty minutes.",
    "アカウントの新しいパスワードを選ぶには、メールのリンクをクリックします。",
]


@pytest.fixture(scope="module")
def pair() -> LanguagePair:
    encoder = models.encoder(Config(), "kb-mini")
    assert isinstance(encoder, LanguagePair)
    return encoder


def test_english_texts_get_the_vectors_of_the_english_model(pair: LanguagePair) -> None:
    english = models.encoder(Config(), "kb-mini-english")
    assert english is not None
    texts = [NOTES[0], NOTES[2]]
    assert pair.encode(texts, want=ALL) == english.encode(texts, want=ALL)


def test_the_order_of_the_texts_stays(pair: LanguagePair) -> None:
    counts: list[int] = []
    together = pair.encode(NOTES, on_progress=counts.append)
    assert counts == [1, 2, 3, 4]
    assert together == [encoding for note in NOTES for encoding in pair.encode([note])]


@pytest.mark.parametrize(
    ("question", "right"),
    [
        ("数据库应该多久备份一次？", 0),
        ("What does the cat eat?", 1),
        ("¿Cuándo sale el tren al aeropuerto?", 2),
        ("How can I change my password?", 3),
        ("Wie ändere ich mein Passwort?", 3),
    ],
)
def test_a_question_finds_the_note_in_another_language(
    pair: LanguagePair, question: str, right: int
) -> None:
    notes = pair.encode(NOTES)
    (query,) = pair.encode([question], as_query=True)
    assert int(np.argmax([_cosine(query, note) for note in notes])) == right


def test_english_texts_do_not_load_the_second_model() -> None:
    encoder = models.encoder(Config(), "kb-mini")
    assert isinstance(encoder, LanguagePair)
    encoder.check()
    encoder.load()
    encoder.encode([NOTES[0]])
    assert encoder.others._loaded is None


def test_what_it_says_of_itself(pair: LanguagePair) -> None:
    assert (pair.spec.name, pair.spec.version, pair.spec.dimension) == ("kb-mini", "3", 384)
    assert {"en", "de", "ja", "ko", "zh"} <= set(pair.spec.languages)
    info = models.info(Config(), "kb-mini")
    parts = [models.info(Config(), f"kb-mini-{name}") for name in ("english", "multilingual")]
    assert info.spec == pair.spec
    assert info.size_bytes == sum(part.size_bytes or 0 for part in parts)
    assert models.name_of_version("kb-mini", "2") == "kb-mini-english"
    assert models.name_of_version("kb-mini", "1") is None


def test_a_single_string_is_refused(pair: LanguagePair) -> None:
    with pytest.raises(InvalidRequest):
        pair.encode("one text")


def _cosine(one: Encoding, other: Encoding) -> float:
    assert one.dense is not None
    assert other.dense is not None
    return float(np.dot(np.frombuffer(one.dense, "f4"), np.frombuffer(other.dense, "f4")))
