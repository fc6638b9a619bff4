"""The language of a query by its function words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.text.function_words import _ENGLISH, _WORDS, NAMES, detect_by_words, is_written_in

QUERIES = {
    "de": ["Wie kann ich ein Backup der Datenbank machen?", "Wann wurde der Server neu gestartet"],
    "es": ["¿Cómo puedo deshacer el último commit?", "cuál es la diferencia entre merge y rebase"],
    "fr": ["Comment est-ce que je peux annuler un commit ?", "quelle est la capitale de la France"],
    "it": ["Come posso annullare l'ultimo commit che ho fatto?", "qual è la differenza tra i due"],
    "nl": ["Hoe kan ik de laatste commit ongedaan maken?", "wat is het verschil tussen deze twee"],
    "pl": ["Jak mogę cofnąć ostatni commit, który jest zły?"],
    "pt": ["Como posso desfazer o último commit que não foi enviado?"],
    "ro": ["Care este diferența dintre merge și rebase?"],
    "sv": ["Hur kan jag ångra den senaste ändringen när det är fel?"],
    "tr": ["Bir dosya nasıl ve neden geri alınır?"],
    "vi": ["Làm thế nào để tôi có được một bản sao của dữ liệu?"],
}
ENGLISH = [
    "what is the difference between merge and rebase",
    "python go to next page",
    "El Niño and La Niña in Los Angeles",
    "papers by van der Berg and de la Cruz",
    "95% CI, 0.48-0.86, P = .003",
    "git commit --amend -m fix",
    "mesa de trabajo",  # three words are too few
    "how do I translate wie geht es dir",
    "",
]


def test_every_language_has_a_name_and_a_query() -> None:
    assert QUERIES.keys() == _WORDS.keys()
    assert _WORDS.keys() <= NAMES.keys()


@pytest.mark.parametrize("code", QUERIES)
def test_questions_in_other_languages(code: str) -> None:
    for query in QUERIES[code]:
        assert detect_by_words(query) == code, query
        assert is_written_in(query, code)


@pytest.mark.parametrize("query", ENGLISH)
def test_english_is_not_taken_for_another_language(query: str) -> None:
    assert detect_by_words(query) is None


@given(st.lists(st.sampled_from(sorted(_ENGLISH)), max_size=12))
def test_english_words_alone_decide_nothing(words: list[str]) -> None:
    assert detect_by_words(" ".join(words)) is None


@given(st.text())
def test_any_text(text: str) -> None:
    assert detect_by_words(text) in {None, *_WORDS}
    assert detect_by_words(text + " what does the word mean") is None


def test_an_english_passage_with_a_foreign_title() -> None:
    passage = (
        "The book La casa de los espíritus is read in many schools, and it was made into a film."
    )
    assert not any(is_written_in(passage, code) for code in _WORDS)
    assert not any(is_written_in("", code) for code in (*_WORDS, "xx"))
