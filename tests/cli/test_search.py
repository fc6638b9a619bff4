"""`kb search`: its options and its output."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.errors import InvalidRequest
from tests.cli.conftest import Result, Run
from tests.cli.test_contract import Valid
from tests.relevances import set_relevances


def paths(found: Result) -> list[str]:
    return [hit["doc_path"] for hit in found.json["hits"]]


def test_a_hit_as_it_is_read(here: Path, run: Run) -> None:
    found = run("search", "gw-skerry", "breaker", "-n", "1")
    first, title, snippet = found.lines
    assert re.fullmatch(r"1\.  library/lessons/retry-storm\.md#L8-L18  (0\.\d\d|1\.00)", first)
    assert title == "    The retry storm after gw-skerry returned › What happened"
    assert "breaker of its solar charger" in snippet
    assert run("get", first.split()[1]).status == 0


def test_duplicates_are_one_hit(here: Path, run: Run) -> None:
    for number in range(3):
        run("add", "the winter storage has room for dinghies", "--title", f"note {number}")
    found = run("search", "winter", "storage", "dinghies")
    assert "    and 2 more with the same text; --all shows them" in found.lines
    every = run("search", "winter", "storage", "dinghies", "--all", "--json").json["hits"]
    assert sum("dinghies" in hit["snippet"] for hit in every) == 3


def test_the_query_comes_from_words_or_stdin(here: Path, run: Run, valid: Valid) -> None:
    told = run("search", "retry", "storm", "--json")
    valid("search_response.v1", told.json)
    assert told.json["query"] == "retry storm"
    read = run("search", "-", "--json", stdin=b"retry storm\n")
    assert paths(read) == paths(told)
    for data, query in (
        (b"\x90\xff retry", "\ufffd\ufffd retry"),
        ("Grüße aus Köln".encode("cp1252"), "Grüße aus Köln"),
        ("Grüße aus Köln\r\n".encode("utf-16"), "Grüße aus Köln"),
    ):
        assert run("search", "-", "--json", stdin=data).json["query"] == query


def test_options_may_precede_or_follow_the_command(here: Path, run: Run, tmp_path: Path) -> None:
    assert paths(run("--json", "search", "retry")) == paths(run("search", "retry", "--json"))
    other = str(tmp_path / "other.sqlite")
    assert other in run("--store", other, "search", "retry").err
    assert other in run("search", "retry", "--store", other).err


FILTERS: list[tuple[tuple[str, ...], str]] = [
    (("--type", "code"), "library/code/"),
    (("--type", "code,note"), "library/"),
    (("--kind", "lesson", "--kind", "decision"), "library/"),
    (("--kind", "lesson"), "library/lessons/"),
    (("--path", "library/guides/**"), "library/guides/"),
    (("--tags", "calibration"), "library/"),
    (("--tags-any", "nope,daily"), "library/daily/"),
    (("--after", "2026-02-01", "--before", "2026-03-05"), "library/"),
    (("--scope", "project"), "library/"),
    (("--trust-min", "secondary"), "library/"),
]


@pytest.mark.parametrize(("filters", "prefix"), FILTERS)
def test_filters(here: Path, run: Run, filters: tuple[str, ...], prefix: str) -> None:
    found = paths(run("search", "the", "-n", "50", "--json", *filters))
    assert found
    assert all(path.startswith(prefix) for path in found)


def test_filters_reach_the_knowledge_base(here: Path, run: Run) -> None:
    every = len(paths(run("search", "the", "-n", "500", "--json")))
    some = len(paths(run("search", "the", "-n", "500", "--json", "--type", "code,note")))
    assert 0 < some < every
    assert run("search", "the", "--lang", "xx", "--json").json["returned"] == 0
    nothing = run("search", "the", "--tags", "calibration,nope")
    assert nothing.err == "nothing found for 'the' with these filters\n"
    long = run("search", "--mode", "lexical", "q" * 100)
    assert long.err == f"nothing found for '{'q' * 60}…'\n"


def test_how_many_and_how_good(here: Path, run: Run) -> None:
    found = run("search", "buoy", "-n", "5", "--json")
    assert found.json["returned"] == 5
    third = found.json["hits"][2]["score"]
    kept = run("search", "buoy", "-n", "5", "--threshold", str(third), "--json")
    assert kept.json["returned"] == 3
    assert run("search", "buoy", "--set", "top=2", "--json").json["returned"] == 2


def test_modes_and_matches(here: Path, run: Run) -> None:
    assert run("search", "buoy", "--fts-only", "--json").json["mode"] == "lexical"
    assert run("search", "buoy", "--profile", "lexical", "--json").json["profile"] == "lexical"
    assert run("search", "buoy zzqq", "--match", "all", "--json").json["returned"] == 0
    assert run("search", "buoy zzqq", "--match", "any", "--json").json["returned"] > 0
    for args in (
        ("--fts-only", "--mode", "vector"),
        ("--fts-only", "--vec-only"),
        ("--vec-only", "--mode", "hybrid"),
        ("--profile", "lexical", "--mode", "vector"),
        ("--match", "some"),
        ("--profile", "nope"),
        ("--set", "top"),
        ("--set", "nope=1"),
        ("--top", "0"),
        ("--top", "many"),
        ("--after", "yesterday"),
    ):
        refused = run("search", "buoy", *args)
        assert (refused.status, refused.out) == (2, "")
        assert "\nhint: " in refused.err


def test_explain(here: Path, run: Run) -> None:
    told = run("search", "the", "buoy", "-n", "2", "--explain").out
    assert "    lexical  rank " in told
    assert "How this was found\n    profile default: analyse -> lexical(match=any)" in told
    assert "words: the buoy" in told
    assert told.splitlines()[-1].startswith("    total ")
    empty = run("search", "zzqq", "--explain")
    assert empty.out.startswith("How this was found")


def test_a_degraded_search_is_reported(here: Path, run: Run) -> None:
    many = " ".join(f"word{number}" for number in range(300))
    told = run("search", many, "buoy")
    assert told.err.splitlines()[-1] == (
        "warning: query: truncated (45 of 301 terms left out; only the first 256 are used)"
    )
    assert "warning: query: truncated" in run("search", many, "--jsonl").err
    shape = run("search", many, "--json")
    assert shape.json["degraded"][0]["part"] == "query"
    assert shape.err == ""


def test_nothing_to_search_for(here: Path, run: Run) -> None:
    assert run("search").status == 2
    for query in ("", "?!"):
        found = run("search", query)
        assert (found.status, found.out) == (0, "")


def test_verbose_logs_to_stderr(here: Path, run: Run) -> None:
    found = run("search", "buoy", "-v")
    assert "kb.search: search took" in found.err
    assert "search took" not in found.out
    assert run("search", "buoy").err == ""


def test_any_query_is_answered(here: Path, run: Run) -> None:
    awkward = ['"', "*", "a:b", "(", "NEAR", "--", "\\", "%", "'", "''", "-1"]
    for query in awkward:
        assert run("search", "--", query).status == 0


@pytest.mark.parametrize("query", ["retry storm", "'retry OR storm'", "東京", ""])
def test_highlights_are_in_order(here: Path, query: str) -> None:
    text = "A retry_storm over 東京: retries, retryStorm, storms."
    with KnowledgeBase() as kb:
        marks = kb.highlights(query, text)
    ends = [0, *(place for mark in marks for place in mark)]
    assert ends == sorted(ends)
    expected = {"retry storm": "retry", "'retry OR storm'": "retry", "東京": "東京", "": ""}
    assert (text[slice(*marks[0])] if marks else "").startswith(expected[query])


def test_text_that_is_not_unicode_names_no_document(here: Path) -> None:
    with KnowledgeBase() as kb, pytest.raises(InvalidRequest):
        kb.get("a\udcff")


def test_hits_dropped_by_a_threshold_are_counted(here: Path, run: Run) -> None:
    """The scale of scores depends on the profile."""
    told = run("search", "radio", "--mode", "lexical", "--threshold", "0.999")
    best = max(hit["score"] for hit in run("search", "radio", "--fts-only", "--json").json["hits"])
    count = run("search", "radio", "--fts-only", "--json").json["returned"]
    hits = "1 hit" if count == 1 else f"{count} hits"
    assert told.status == 0
    assert f"--threshold 0.999 dropped {hits}; the best score is {best:.4g}" in told.err
    nothing = run("search", "nosuchword", "--fts-only", "--threshold", "0.5").err
    assert "nothing found" in nothing
    assert "dropped" not in nothing


# --- relevance ------------------------------------------------------------------------------------


def test_weak_matches_are_below_a_divider(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_relevances(monkeypatch, [0.93, 0.61, 0.2])
    lines = run("search", "buoy", "-n", "4").lines
    firsts = [line for line in lines if line[:2] in ("1.", "2.", "3.", "4.", "--")]
    assert [line.split()[-1] for line in firsts] == ["0.93", "0.61", "---", "0.20", "0.20"]
    assert "--- weak matches ---" in lines
    assert run("search", "buoy", "--json").json["hits"][0]["relevance"] == 0.93


def test_nothing_relevant_is_reported(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_relevances(monkeypatch, [0.31, 0.2])
    assert run("search", "buoy").lines[0] == "--- nothing relevant found; weak matches ---"
    nothing = run("search", "buoy", "-n", "3", "--min-relevance", "0.5")
    assert (nothing.status, nothing.out) == (0, "")
    assert "--min-relevance 0.5 dropped 3 hits; the best relevance is 0.31" in nothing.err
    assert run("search", "buoy", "--min-relevance", "0.3", "--json").json["returned"] == 1


def test_unknown_relevance_shows_nothing(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_relevances(monkeypatch, [None])
    assert "weak matches" not in run("search", "buoy").out


def test_a_relevance_is_a_probability(here: Path, run: Run) -> None:
    for value in ("2", "-1", "nan", "much"):
        assert run("search", "buoy", "--min-relevance", value).status == 2


# --- logs -----------------------------------------------------------------------------------------


def test_a_slow_search_is_logged_without_v(
    here: Path, process: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    lexical = ("search", "radio", "--mode", "lexical")
    assert process(*lexical).err == ""
    monkeypatch.setenv("KB_SEARCH_SLOW_MS", "1")
    monkeypatch.setenv("KB_STORE_BUSY_TIMEOUT_S", "1")
    long = process("search", "--mode", "lexical", " ".join(f"radio{n}" for n in range(3000))).err
    assert "WARNING kb.search: slow search, " in long
    assert "INFO" not in long


def test_the_time_of_every_search_is_logged_to_the_configured_file(
    here: Path, process: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    lexical = ("search", "radio", "--mode", "lexical")
    monkeypatch.setenv("KB_SEARCH_LOG", "stderr")
    assert process(*lexical).err.startswith("INFO kb.search: search took ")
    monkeypatch.setenv("KB_SEARCH_LOG", "log.txt")
    assert [process(*lexical).err, process(*lexical).err] == ["", ""]
    lines = Path("log.txt").read_text(encoding="utf-8").splitlines()
    assert sum("INFO kb.search: search took " in line for line in lines) == 2
    if os.name == "posix":
        assert Path("log.txt").stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("KB_SEARCH_LOG", "nowhere/log.txt")
    refused = process(*lexical)
    assert (refused.status, "cannot write the log" in refused.err) == (2, True)
