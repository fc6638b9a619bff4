"""English texts are told from texts in other languages."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.text.english import WEIGHTS, is_english

ENGLISH = [
    "",
    "ttl",
    "database is locked",
    "kubectl get pods",
    "naïve Bayes",
    "TNF-α in the blood of patients",
    "def read_lines(path):\n    return path.read_text().splitlines()",
    "How often should I make a backup of the database?",
    "The quarter hour is divided into slots of four seconds, the first one after the quarter.",
]
OTHERS = [
    "Wie oft soll ich eine Sicherungskopie der Datenbank erstellen?",
    "¿Cómo puedo cambiar la contraseña de mi cuenta?",
    "Comment changer le mot de passe de mon compte ?",
    "Quando parte il treno per l'aeroporto?",
    "Jak często należy wykonywać kopię zapasową bazy danych?",
    "Veritabanının yedeğini ne sıklıkla almalıyım?",
    "Seberapa sering saya harus membuat cadangan basis data?",
    "Как изменить пароль моей учетной записи?",
    "数据库应该多久备份一次？",
    "空港行きの電車は何番線から出ますか",
    "비밀번호를 변경하려면 Settings 메뉴를 여세요.",
]


@pytest.mark.parametrize("text", ENGLISH)
def test_english_and_code(text: str) -> None:
    assert is_english(text)


@pytest.mark.parametrize("text", OTHERS)
def test_other_languages(text: str) -> None:
    assert not is_english(text)


def test_a_foreign_name_does_not_make_a_passage_foreign() -> None:
    passage = "The conjecture of Poincaré was proved by Perelman, who lives in Санкт-Петербург. "
    assert is_english(passage * 3)


def test_only_the_beginning_decides() -> None:
    assert is_english("The backup of the database is made every night. " * 10 + OTHERS[0])


@given(st.text())
def test_every_text_has_an_answer_that_depends_on_it_alone(text: str) -> None:
    assert is_english(text) == is_english(text)


def test_the_weights_are_small() -> None:
    assert Path(WEIGHTS).stat().st_size == 1 << 15
