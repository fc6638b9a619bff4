"""The bundled model for other languages is complete, and finds by meaning across languages."""

from __future__ import annotations

import numpy as np
import pytest

from kb.config import Config
from kb.models import encoder, manifest
from kb.models.onnx_encoder import OnnxEncoder
from kb.types import Encoding

LIMIT_BYTES = 60_000_000
NOTES = [
    "Make a backup of the database every night, and keep the copies for a week.",
    "The cat sleeps on the sofa all day and eats fish in the evening.",
    "The train to the airport leaves from platform four every twenty minutes.",
    "Click the link in the mail to choose a new password for your account.",
]
QUESTIONS = {
    "Wie oft soll ich eine Sicherungskopie der Datenbank erstellen?": 0,
    "¿Cómo puedo cambiar la contraseña de mi cuenta?": 3,
    "Comment changer le mot de passe de mon compte ?": 3,
    "Quando parte il treno per l'aeroporto?": 2,
    "Как изменить пароль моей учетной записи?": 3,
    "数据库应该多久备份一次？": 0,
    "空港行きの電車は何番線から出ますか": 2,
    "비밀번호를 변경하려면 어떻게 해야 합니까?": 3,
}


@pytest.fixture(scope="module")
def multilingual() -> OnnxEncoder:
    model = encoder(Config(), "kb-mini-multilingual")
    assert isinstance(model, OnnxEncoder)
    return model


def test_its_files_are_what_the_manifest_says(multilingual: OnnxEncoder) -> None:
    manifest.check_hashes(multilingual.manifest)
    assert multilingual.manifest.size_bytes <= LIMIT_BYTES
    assert multilingual.spec.gives == {"dense", "sparse", "tokens"}


@pytest.mark.parametrize(("question", "right"), QUESTIONS.items())
def test_a_question_in_another_language_finds_the_english_note(
    multilingual: OnnxEncoder, question: str, right: int
) -> None:
    notes = multilingual.encode(NOTES)
    (query,) = multilingual.encode([question], as_query=True)
    assert np.argmax([_cosine(query, note) for note in notes]) == right


def test_its_english_tokens_are_those_of_kb_mini(multilingual: OnnxEncoder) -> None:
    english = encoder(Config(), "kb-mini-english")
    assert isinstance(english, OnnxEncoder)
    for text in (*NOTES, "def read_lines(path): naïve café, incompressible hypersonic flow"):
        tokens = [model.loaded().tokenizer.tokens(text).texts for model in (multilingual, english)]
        assert tokens[0] == tokens[1]


def test_its_english_vectors_are_close_to_those_of_kb_mini(multilingual: OnnxEncoder) -> None:
    english = encoder(Config(), "kb-mini-english")
    assert english is not None
    for mine, other in zip(multilingual.encode(NOTES), english.encode(NOTES), strict=True):
        assert _cosine(mine, other) > 0.97


def test_terms_of_chinese_text_are_pairs_of_characters(multilingual: OnnxEncoder) -> None:
    (encoding,) = multilingual.encode(["备份数据库，人。"], want=frozenset({"sparse"}))
    assert encoding.sparse is not None
    assert set(encoding.sparse) == {"备份", "份数", "数据", "据库", "人"}


def _cosine(one: Encoding, other: Encoding) -> float:
    assert one.dense is not None
    assert other.dense is not None
    return float(np.dot(np.frombuffer(one.dense, "f4"), np.frombuffer(other.dense, "f4")))
