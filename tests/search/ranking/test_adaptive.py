"""Adaptive weights: which queries each rule applies to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.search.ranking.adaptive import (
    MARKS,
    QueryWeights,
    adapt_weights,
    question_word,
    technical_marks,
    word_count,
)

THREE = {"lexical": 1.0, "dense": 1.0, "sparse": 1.0}


def weights(text: str, base: dict[str, float] | None = None) -> dict[str, float]:
    return dict(adapt_weights(text, base or THREE).weights)


def shares(lexical: float, dense: float, sparse: float) -> object:
    total = lexical + dense + sparse
    return pytest.approx(
        {"lexical": lexical / total, "dense": dense / total, "sparse": sparse / total}
    )


# --- the rules ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("retry storm", (1.5, 1, 1)),
        ("one two three", (1.5, 1, 1)),
        ("one two three four", (1, 1, 1)),
        ("one two three four five six seven eight nine ten", (1, 1, 1)),
        ("one two three four five six seven eight nine ten eleven", (1, 1.5, 1)),
        ("where is the harbour master", (1, 1.3, 1)),
        ("why retry", (1.5, 1.3, 1)),
        ("the value of retry_after in requests", (1, 1, 1.5)),
        ("retry_after", (1.5, 1, 1.5)),
        ("how do I set retry_after so that the gateway does not fail at night", (1, 1.8, 1.5)),
        ("超级碗在哪里举行的比赛", (1, 1.3, 1)),
        ("超级碗", (1.5, 1, 1)),
    ],
)
def test_every_rule(text: str, expected: tuple[float, float, float]) -> None:
    assert weights(text) == shares(*expected)


def test_rules_are_shown() -> None:
    told = adapt_weights("how does retry_after work?", THREE)
    assert told.rules == ("technical (snake_case): sparse +0.5", "a question (how): dense +0.3")
    assert set(told.facts()) == {"weights", "rules"}
    assert set(adapt_weights("four words and nothing more", THREE).facts()) == {"weights"}


def test_several_rules_are_shown_on_one_line() -> None:
    found = adapt_weights("why get_boat()", {"lexical": 1.0, "dense": 1.0, "sparse": 1.0})
    assert found.facts()["rules"] == "; ".join(found.rules)
    assert len(found.rules) == 3
    assert found.facts()["weights"] == found.weights
    assert QueryWeights({"dense": 1.0}).facts() == {"weights": {"dense": 1.0}}


def test_small_weights_keep_their_shares() -> None:
    found = adapt_weights("a query of four words", {"lexical": 0.1, "dense": 0.3})
    assert found.weights == pytest.approx({"lexical": 0.25, "dense": 0.75})


@pytest.mark.parametrize("char", "+<=>|~⁺⁻＋＜＝＞｜～￢￩￬")
def test_everyday_symbols_are_not_technical_marks(char: str) -> None:
    assert "symbol" not in technical_marks(f"é {char} b")


@pytest.mark.parametrize("char", "∑≤±×÷→")
def test_mathematical_symbols_are_technical_marks(char: str) -> None:
    assert "symbol" in technical_marks(f"a {char} b")


def test_only_retrievers_that_ran_share_the_weight() -> None:
    assert weights("retry_after", {"lexical": 1.0, "dense": 1.0}) == pytest.approx(
        {"lexical": 0.6, "dense": 0.4}
    )
    assert adapt_weights("retry_after", {"dense": 1.0}).rules == ()
    assert weights("retry", {"sparse": 1.0}) == {"sparse": 1.0}


def test_weights_of_the_profile_are_where_it_starts() -> None:
    assert weights("retry", {"lexical": 2.0, "dense": 1.0}) == {"lexical": 0.75, "dense": 0.25}
    assert weights("retry", {"lexical": 0.0, "dense": 0.0}) == {"lexical": 0.5, "dense": 0.5}


@given(st.text(), st.sets(st.sampled_from(sorted(THREE)), min_size=1))
def test_weights_sum_up_to_one(text: str, names: set[str]) -> None:
    found = adapt_weights(text, dict.fromkeys(names, 1.0))
    assert sum(found.weights.values()) == pytest.approx(1.0)
    assert all(weight > 0 for weight in found.weights.values())


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0), ("?!", 0), ("a - b", 2), ("state-of-the-art", 1), ("don't", 1), ("x == y", 2),
        ("超级碗", 2), ("超级", 1), ("用kb搜索", 3), ("kb 搜索引擎", 3), ("서울은 어디", 3),
    ],
)  # fmt: skip
def test_words_are_counted(text: str, count: int) -> None:
    assert word_count(text) == count


# --- questions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Who wrote it", "who"), ("what?", "what"), ("WHEN was it", "when"),
        ("where's it", "where"),
        ("  “why not”", "why"), ("how’s the weather", "how"), ("how, then", "how"),
        ("什么是向量", "什么"), ("超级碗在哪里举行", "哪里"), ("这是谁写的", "谁"),
        ("如何安装", "如何"),
        ("为什么失败", "什么"), ("何時開始", "何"), ("首都はどこですか", "どこ"),
        ("どこから来たか", "どこ"),
        ("これは何ですか", "何"), ("いつ始まりますか", "いつ"), ("なぜ失敗したか", "なぜ"),
        ("誰が書いたか", "誰"), ("서울은 어디에 있나", "어디"), ("왜 실패했나", "왜"),
        ("厕所在哪", "哪"), ("你去哪了", "哪"), ("どうすれば直るか", "どうすれば"),
        ("なんで失敗したの", "なんで"), ("これはなんで失敗", "なんで"),
        ("いくらかかりますか", "いくら"), ("いくらですか", "いくら"), ("어느 쪽이 빠른가", "어느"),
        ("왜요?", "왜요"),
        ("누가 썼나", "누가"), ("이것은 무엇인가", "무엇"), ("어떻게 설치하나", "어떻게"),
    ],
)  # fmt: skip
def test_questions(text: str, word: str) -> None:
    assert question_word(text) == word


@pytest.mark.parametrize(
    "text",
    ["whatever happens", "how-to guide", "whose is it", "however", "the way how it is", "however,",
     "任何人都可以", "几何学", "いつも同じ", "どこかの町", "それほどの差",
     "왜곡된 결과", "언제나 같은", "哪怕下雨", "なんでもいい", "そうなんです", "大変なんで休む",
     "いくらか違う", "いくらでもある", "いくら丼", "어느 날 아침", "어느덧 봄", "어느 정도",
     "왜냐하면",
     "누구나 할 수 있다", "向量搜索", "サーバーの設定", "서버 설정", "whoever", "somewhat"],
)  # fmt: skip
def test_no_questions(text: str) -> None:
    assert question_word(text) is None


# --- technical marks ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("open()", "call"), ("what does f(x) give", "call"), ("std::vector", "operator"),
        ("ptr->next", "operator"), ("x => x", "operator"), ("a == b", "operator"),
        ("a != b", "operator"), ("return x;", "operator"), ("i += 1", "operator"),
        ("{key: value}", "brackets"), ("row[0]", "brackets"), ("[x for x in y]", "brackets"),
        ("retry_after", "snake_case"), ("__init__", "snake_case"), ("targetHost", "camelCase"),
        ("getHTTPResponse", "camelCase"), ("utf8ToString", "camelCase"),
        ("os.path.join fails", "dotted.name"), ("call kb.search.", "dotted.name"),
        ("git commit --amend", "flag"), ("ls -l", "flag"), ("the `kb` command", "quoted code"),
        ("<div class=x>", "quoted code"), ("\\alpha decay", "escape"), ("$HOME is wrong", "escape"),
        ("0x1f", "escape"), ("E = mc^2", "formula"), ("p < 0.05", "formula"), ("2*x", "formula"),
        ("why is it O(n)", "call"), ("f(n)", "call"), ("x >= 3", "operator"),
        ("n <= 5", "operator"), ("C++ or C#", "operator"), ("i++", "operator"),
        ("SELECT * FROM t", "query"),
        ("select * from users", "query"), ("SELECT DISTINCT a, t.b FROM t", "query"),
        ("DROP TABLE t", "query"), ("x² + y²", "formula"), ("(a + b)²", "formula"),
        ("2ⁿ and xⁿ", "formula"), ("∑ of weights", "symbol"),
        ("n ≤ 5", "symbol"), ("α → β", "symbol"),
    ],
)  # fmt: skip
def test_technical_marks(text: str, mark: str) -> None:
    assert mark in technical_marks(text)
    assert mark in MARKS or mark == "symbol"


@pytest.mark.parametrize(
    "text",
    ["state-of-the-art results", "don't panic", "the user’s file", "e.g. a harbour", "i.e. this",
     "U.S. policy", "file(s) that fail", "a harbour (in Kent)", "and/or", "pay $5",
     "a song in C# minor", "a(n) apple", "A(n) idea", "Ca++ channel", "20 m²", "a room of 12 m²",
     "30 kg/m²", "5 km² of land", "Ca²⁺ and O²⁻", "select a doctor from the list",
     "drop the table", "please SELECT one OPTION from it", "a footnote² here",
     "at 5 a.m.", "version 1.2", "vitamin D + calcium", "as shown [1] and [2, 3]", "iPhone",
     "mRNA and pH at 50 kHz", "TNF-α", "IL-6", "YouTube on macOS", "example.com", "www.example.com",
     "me@example.org", "https://example.com/a", "well -- no", "one; two", "“quoted” 'text'",
     "_very_ good", "Dr.Smith", "100 %", "5'-UTR", "20 °C", "a ~ b", "wait... what", "１＋１",
     "What is it? No: that!", "#hashtag @name", "non-small-cell lung cancer", "超级碗（第五十届）"],
)  # fmt: skip
def test_prose_is_not_technical(text: str) -> None:
    assert technical_marks(text) == ()


@pytest.mark.parametrize(
    "piece",
    [
        "SELECT a,",
        "select * ",
        "x²",
        "[",
        "`",
        "<a",
        "a.",
        "aA",
        "(",
        ";",
        "\\",
        "a_",
        "aa.bb",
        "{",
    ],
)
def test_long_queries_take_no_longer_than_they_are_long(piece: str) -> None:
    """A pattern with much backtracking would not return at all."""
    technical_marks(piece * 50_000)
    question_word(piece * 50_000)
