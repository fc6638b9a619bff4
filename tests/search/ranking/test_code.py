from __future__ import annotations

import pytest

from kb.search.pipeline import FusionStage
from kb.search.query.analysis import analyze
from kb.search.ranking.code import are_code, has_code_name, is_code, weigh_for_code
from kb.search.ranking.fusion import Fusion
from kb.search.retrievers.base import Candidates
from kb.types import ScoredChunk

WEIGHTS = {"lexical": 0.2, "dense": 0.5, "sparse": 0.3}
FUNCTION = """def moor(boat, berth=None):
    \"\"\"Tie a boat to its berth.\"\"\"
    rope = boat.ropes.pop()
    return berth.tie(rope) if berth else None"""
PROSE = """A boat is moored with two ropes (three in a storm). The harbour office keeps the keys of
all berths; ask there in the morning, before the first boats leave."""


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Promise.prototype.catch()", True),
        ("<blend-mode> example", True),
        ("what is max_size", True),
        ("what does open() return", True),
        ("when is fetchData called", True),
        ("where is os.path documented", True),
        ("how do I sort a list", False),
        ("compile a program for use in C++", False),
    ],
)
def test_names_in_a_query(query: str, expected: bool) -> None:
    assert has_code_name(query) is expected


def test_is_code() -> None:
    assert is_code(FUNCTION)
    assert is_code("re.sub(r'\\s+', ' ', text)")
    assert not is_code(PROSE)
    assert not is_code("")


def test_the_share_of_marks_decides() -> None:
    assert is_code("=" + 24 * "a")
    assert not is_code("=" + 25 * "a")
    assert is_code("= " + 24 * "a ")  # white space does not count
    assert not is_code(20 * "X" + "a b" * 20)
    assert not is_code(f"{600 * 'a'}{FUNCTION}")  # only the beginning is read
    assert is_code(576 * "a" + 24 * "=" + 900 * "a")
    assert not is_code(577 * "a" + 23 * "=" + "=" + 900 * "a")


def test_a_short_text_without_marks_is_not_code() -> None:
    assert not is_code("boat")


@pytest.mark.parametrize(("functions", "found"), [(0, False), (6, False), (7, True), (10, True)])
def test_most_passages_are_code(functions: int, found: bool) -> None:
    assert are_code([FUNCTION] * functions + [PROSE] * (10 - functions)) is found


def test_two_of_three_passages_are_not_enough() -> None:
    assert not are_code([FUNCTION, FUNCTION, PROSE])


def test_no_passages_are_not_code() -> None:
    assert not are_code([])


def test_weighted_terms_do_not_count() -> None:
    weighed = weigh_for_code(WEIGHTS)
    assert weighed.weights == {"lexical": 0.2, "dense": 0.5, "sparse": 0.0}
    assert weighed.rules == ("the nearest passages are code: weighted terms are ignored",)


def test_word_match_does_not_apply_to_code() -> None:
    ranked = (ScoredChunk(1, 0.9, 1),)
    lexical = Candidates(ranked, ("any",), idf={"boat": 1.0})
    candidates = {"lexical": lexical, "dense": Candidates(ranked), "sparse": Candidates(ranked)}
    for on, lexical_weight, sparse_weight in ((True, 0.2, 0.0), (False, 0.2, 0.3)):
        stage = FusionStage(Fusion("convex"), WEIGHTS, word_match=on)
        weights = stage.query_weights(analyze("boat"), candidates, code=True).weights
        assert (weights["lexical"], weights["sparse"]) == (lexical_weight, sparse_weight)
