from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.search.query.analysis import analyze
from kb.search.results.snippets import (
    SnippetDraft,
    code_snippet,
    match_ranges,
    snippet,
    without_front_matter,
    without_headings,
)


def cut(text: str, query: str, limit: int = 60) -> str:
    return snippet(text, analyze(query), limit)


FILLER = "some filler words that stand around here. " * 10


def test_a_short_text_is_shown_whole_and_on_one_line() -> None:
    assert cut("two\n\n  lines\there", "lines") == "two lines here"


def test_the_match_is_in_the_window() -> None:
    shown = cut(f"{FILLER}the needle is here {FILLER}", "needle")
    assert "needle" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")


def test_the_window_with_most_distinct_terms_wins() -> None:
    text = f"git git git {FILLER} install git now {FILLER}"
    assert "install git" in cut(text, "install git")


def test_without_a_match_it_is_the_beginning() -> None:
    assert cut(FILLER, "needle").startswith("some filler")


def test_a_part_of_an_identifier_is_a_match() -> None:
    assert "targetHost" in cut(f"{FILLER} set targetHost first {FILLER}", "host")


def test_unspaced_script_is_matched_by_its_pieces() -> None:
    assert "数据库" in cut("别的内容。" * 50 + "数据库。" + "别的内容。" * 50, "数据库坏了")


@pytest.mark.parametrize(
    ("text", "query", "shown"),
    [
        ("season: 2026\n---\n\n# Winter\nthe shed", "shed", "# Winter\nthe shed"),
        ("season: 2026\n---\n\nthe shed", "2026", "season: 2026\n---\n\nthe shed"),
        ("ports:\n  - Genoa\n- Lisbon\nx: y\n...\nthe shed", "shed", "the shed"),
        ("season: 2026\n---", "shed", "season: 2026\n---"),
        ("a: b\nplain\n---\nthe shed", "shed", "a: b\nplain\n---\nthe shed"),
    ],
)
def test_front_matter_is_shown_where_it_matches(text: str, query: str, shown: str) -> None:
    assert without_front_matter(text, analyze(query)) == shown


def test_headings_that_a_hit_shows_anyway_are_left_out() -> None:
    assert without_headings("# One\n\n## Two\n\nthe text\n# not this") == "the text\n# not this"
    assert without_headings("# Only") == "# Only"
    assert without_headings("#tag first") == "#tag first"


def test_an_underlined_heading_is_removed_only_if_the_hit_shows_it() -> None:
    text = "Basic Usage\n-----------\n\nthe text"
    assert without_headings(text, ("Basic Usage",)) == "the text"
    assert without_headings(f"===\n{text}".replace("-", "="), ("Basic Usage",)) == "the text"
    assert without_headings(text, ("Other",)) == text
    assert without_headings("Basic Usage\n---\n", ("Basic Usage",)) == "Basic Usage\n---\n"


def test_a_word_longer_than_the_limit_is_cut() -> None:
    assert len(cut("x" * 500, "x")) <= 60


@given(st.text(), st.text(), st.integers(10, 300))
def test_never_longer_than_the_limit(text: str, query: str, limit: int) -> None:
    assert len(cut(text, query, limit)) <= limit


@given(st.lists(st.sampled_from(["git", "install", "other", "words\n", "数据"]), max_size=80))
def test_a_match_is_shown_if_there_is_one(words: list[str]) -> None:
    text = " ".join(words)
    analysis = analyze("git")
    shown = snippet(text, analysis, 40)
    assert bool(match_ranges(shown, analysis)) == ("git" in words)


@given(st.lists(st.sampled_from(["key", "monkey", "keyring", "and"]), min_size=1, max_size=8))
def test_inside_of_words_only_where_no_whole_word_is(words: list[str]) -> None:
    text = " ".join(words)
    found = [text[start:end] for start, end, _ in match_ranges(text, analyze("key"))]
    inside = words.count("monkey") + words.count("keyring")
    assert found == ["key"] * (words.count("key") or inside)
    if "key" in words:
        starts = {start for start, _, _ in match_ranges(text, analyze("key"))}
        assert all(start == 0 or text[start - 1] == " " for start in starts)


# --- sentences and lines ------------------------------------------------------------------------

PROSE = (
    "The harbour office opens at seven. Boats pay for a berth by the day. "
    "A berth for a week costs forty crowns. The keys hang in the office. "
    "In winter the berth is free, and the crane may be used by all boats in the harbour. "
    "Nobody may sleep on board between January and March."
)


def test_a_snippet_starts_with_the_sentence_that_answers() -> None:
    shown = cut(PROSE, "what costs a week in a berth", 120)
    assert shown.startswith("…A berth for a week costs forty crowns.")


def test_a_rare_word_outweighs_words_of_every_sentence() -> None:
    text = "The boat is red. " * 5 + "A crane is here. " + "The boat is red. " * 5
    assert "crane" in cut(text, "red boat crane", 60)


def test_a_near_sentence_is_shown_if_no_word_matches() -> None:
    draft = SnippetDraft.of(PROSE, analyze("slumber aboard"), 90)
    assert draft.needs_meaning
    near = [0.1] * (len(draft.layout.units) - 1) + [0.9]
    assert "sleep on board" in draft.render(near)
    assert draft.render() == cut(PROSE, "slumber aboard", 90)


def test_words_suffice_where_all_of_them_match() -> None:
    assert not SnippetDraft.of(PROSE, analyze("berth week"), 90).needs_meaning


LIST = "Before you leave:\n\n" + "\n".join(f"- task number {n}" for n in range(1, 30))


def test_a_list_keeps_its_lines() -> None:
    lines = cut(LIST, "task 17", 100).split("\n")
    assert lines[0] == "…"
    assert lines[1] == "- task number 17"
    assert lines[-1] == "…"
    assert len(lines) <= 8


def test_a_row_of_a_table_is_shown_below_the_first_row() -> None:
    rows = [f"| option{n} | meaning {n} |" for n in range(40)]
    text = "\n".join(["| name | text |", "|---|---|", *rows])
    assert cut(text, "option25", 100).split("\n")[:3] == [
        "| name | text |", "…", "| option25 | meaning 25 |",
    ]  # fmt: skip
    assert cut(text, "option0", 100).startswith("| name | text |\n| option0 | meaning 0 |")


def test_fenced_code_in_prose_keeps_its_lines() -> None:
    text = f"{PROSE}\n\n```py\ndef berth(days):\n    return 7 * days\n```\n\n{PROSE}"
    assert "\ndef berth(days):\n    return 7 * days\n" in cut(text, "def days", 100)


@given(
    st.text(alphabet="ab. A\n-|`1 git", max_size=300),
    st.integers(40, 120),
    st.lists(st.floats(0, 1), max_size=60),
)
def test_no_layout_exceeds_the_limit(text: str, limit: int, near: list[float]) -> None:
    draft = SnippetDraft.of(text, analyze("git a"), limit)
    padded = (near * len(draft.layout.units) if near else [])[: len(draft.layout.units)]
    shown = draft.render(padded)
    assert len(shown) <= limit
    assert shown.count("\n") <= 8
    assert bool(shown.strip()) == bool(text.strip())


# --- code -----------------------------------------------------------------------------------------

CODE = """class Link:
\tdef send(self, frame):

\t\tif self.beacon_is_lost():
\t\t\treturn self.random_slot()
\t\treturn self.own_slot(frame)

\tdef close(self):
\t\tself.radio.off()
"""


def cut_code(text: str, query: str, limit: int = 220) -> str:
    return code_snippet(text, analyze(query), limit)


def test_code_stands_in_lines_as_it_does_in_the_file() -> None:
    assert cut_code("    a = 1\n\n    if a:\n\tb = 2\n", "a") == "a = 1\nif a:\nb = 2"
    assert cut_code(CODE, "frame") == (
        "class Link:\n    def send(self, frame):\n        if self.beacon_is_lost():\n"
        "            return self.random_slot()\n        return self.own_slot(frame)\n"
        "    def close(self):\n…"
    )


def test_code_is_shown_from_the_line_above_the_match() -> None:
    assert cut_code(CODE, "radio") == "…\ndef close(self):\n    self.radio.off()"


def test_a_line_of_code_that_is_too_long_is_cut_around_the_match() -> None:
    line = "x = [" + ", ".join(f"item{number}" for number in range(200)) + ", needle, other]"
    assert "needle" in cut_code(line, "needle")
    assert "\n" not in cut_code(line, "needle")


@given(st.text(), st.text(), st.integers(10, 300))
def test_code_is_never_longer_than_the_limit(text: str, query: str, limit: int) -> None:
    shown = cut_code(text, query, limit)
    assert len(shown) <= limit
    assert shown.count("\n") <= 7


@given(st.lists(st.sampled_from(["", "  pass", "\tgit", "other = 1", "def f():"]), max_size=40))
def test_a_line_with_a_match_is_shown_if_there_is_one(lines: list[str]) -> None:
    assert ("git" in cut_code("\n".join(lines), "git")) == ("\tgit" in lines)


@given(st.text(alphabet="ab 钥匙.\n", min_size=1, max_size=80), st.integers(1, 12))
def test_no_limit_is_too_small(text: str, limit: int) -> None:
    for query in ("ab", "钥匙", "zzz"):
        analysis = analyze(query)
        for cutting in (snippet, code_snippet):
            shown = cutting(text, analysis, limit)
            assert len(shown) <= limit
            assert bool(shown.strip()) == bool(text.strip())


def test_a_snippet_of_one_character() -> None:
    assert [cut(f"the needle {FILLER}", "needle", limit) for limit in (1, 2, 3, 8)] == [
        "n", "ne", "…n…", "…needle…",
    ]  # fmt: skip
