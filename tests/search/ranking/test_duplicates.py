"""Duplicates: which passages repeat a better one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kb.search.ranking.duplicates import NEAR, DuplicateFinder, find_duplicates

PROSE = (
    "the harbour master keeps the keys of the boat house in a drawer of the office desk and writes "
    "down who takes them and when they come back so that nobody has to ask twice"
)
words = st.lists(st.sampled_from("abcdefghijkl"), min_size=1, max_size=30).map(" ".join)


def test_equal_texts() -> None:
    assert find_duplicates([(1, "one text"), (2, "another"), (3, "one text")]) == {3: 1}


def test_spaces_and_case_do_not_matter() -> None:
    changed = PROSE.replace(" keys ", "  keys\n").replace("nobody", "Nobody")
    assert find_duplicates([(1, PROSE), (2, changed)]) == {2: 1}


def test_near_equal_texts() -> None:
    assert find_duplicates([(1, PROSE), (2, f"{PROSE} again")]) == {2: 1}


def test_a_tenth_of_other_words_is_another_text() -> None:
    changed = PROSE.replace("keys", "oars").replace("drawer", "chest").replace("desk", "floor")
    assert find_duplicates([(1, PROSE), (2, changed)]) == {}


def test_the_order_of_the_words_matters() -> None:
    backwards = " ".join(reversed(PROSE.split()))
    assert find_duplicates([(1, PROSE), (2, backwards)]) == {}


def test_a_longer_text_is_another_text() -> None:
    assert find_duplicates([(1, PROSE), (2, f"{PROSE} and some more of the boats")]) == {}


def test_one_word_makes_short_texts_different() -> None:
    nine, ten = (" ".join(f"w{number}" for number in range(count)) for count in (9, 10))
    assert find_duplicates([(1, nine), (2, f"{nine} w")]) == {}
    assert find_duplicates([(1, ten), (2, f"{ten} w")]) == {2: 1}


def test_scripts_without_spaces() -> None:
    text = "港の鍵は事務所の引き出しにあり、借りる人は名前と時刻を帳面に書いてから持っていくこと。"
    assert find_duplicates([(1, text), (2, text + "。")]) == {2: 1}
    assert find_duplicates([(1, text), (2, "船は朝に出て夕方に戻る。" * 3)]) == {}


def test_only_the_first_passages_are_compared_for_near_equality() -> None:
    others = [(number, f"text number {number}") for number in range(2, NEAR + 1)]
    assert find_duplicates([(1, PROSE), *others[:-1], (99, f"{PROSE} again")]) == {99: 1}
    assert find_duplicates([(1, PROSE), *others, (99, f"{PROSE} again")]) == {}
    assert find_duplicates([(1, PROSE), *others, (99, PROSE)]) == {99: 1}


@given(st.lists(words, max_size=40))
def test_a_duplicate_repeats_a_better_passage_that_is_none(texts: list[str]) -> None:
    found = find_duplicates(list(enumerate(texts)))
    for duplicate, better in found.items():
        assert better < duplicate
        assert better not in found


@given(st.lists(words, max_size=40), st.integers(0, 40))
def test_a_longer_list_has_the_same_duplicates(texts: list[str], end: int) -> None:
    whole = find_duplicates(list(enumerate(texts)))
    start = find_duplicates(list(enumerate(texts[:end])))
    assert start == {number: better for number, better in whole.items() if number < end}


@given(st.lists(words, max_size=40))
def test_equal_texts_collapse(texts: list[str]) -> None:
    finder = DuplicateFinder()
    kept = [text for number, text in enumerate(texts) if finder.add(number, text) is None]
    assert len(kept) == len(set(kept))
    assert set(kept) <= set(texts)
