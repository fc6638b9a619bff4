from __future__ import annotations

from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.config import load, may_be_zero
from kb.errors import ConfigError


def test_later_sources_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = tmp_path / "user.toml"
    user.write_text("[search]\ndefault_top = 3\nsnippet_chars = 100\nslow_ms = 1\n")
    monkeypatch.setenv("KB_CONFIG", str(user))
    (tmp_path / "config.toml").write_text("[search]\ndefault_top = 4\nsnippet_chars = 120\n")
    monkeypatch.setenv("KB_SEARCH_DEFAULT_TOP", "5")
    config = load(tmp_path / "kb.sqlite", overrides={"search.default_top": 6})
    assert config.search.default_top == 6
    assert load(tmp_path / "kb.sqlite").search.default_top == 5
    assert config.search.snippet_chars == 120
    assert config.search.slow_ms == 1
    assert config.origins["search.default_top"] == "flag"
    assert config.origins["search.slow_ms"] == str(user)


@pytest.mark.parametrize(
    "text",
    [
        "[search",
        "[search]\nnosuch = 1\n",
        "[nosuch]\nx = 1\n",
        "top = 3\n",
        '[search]\ndefault_top = "many"\n',
        "[search]\ndefault_top = 0\n",
        "[search]\ndefault_top = true\n",
        "[ingest]\nhidden = 7.5\n",
        "[search]\nprofile = 3\n",
        "\x00",
    ],
)
def test_a_bad_file_is_named_with_a_hint(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(ConfigError) as error:
        load(tmp_path / "kb.sqlite")
    assert "config.toml" in error.value.message
    assert error.value.hint


def test_booleans_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_INGEST_HIDDEN", "true")
    assert load().ingest.hidden is True
    monkeypatch.setenv("KB_INGEST_HIDDEN", "perhaps")
    with pytest.raises(ConfigError):
        load()


def test_zero_where_it_means_something(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[models]\nthreads = 0\n")
    assert load(tmp_path / "kb.sqlite").models.threads == 0
    file.write_text("[models]\nthreads = -1\n")
    with pytest.raises(ConfigError, match=r"models\.threads cannot be -1") as error:
        load(tmp_path / "kb.sqlite")
    assert error.value.hint == "it must be zero or more"
    assert may_be_zero("models.threads")
    assert not may_be_zero("search.default_top")


@pytest.mark.parametrize(
    ("table", "name", "value", "most"),
    [
        ("store", "busy_timeout_s", "1e300", "1,000,000"),
        ("store", "busy_timeout_s", "inf", "1,000,000"),
        ("serve", "drain_s", "inf", "1,000,000"),
        ("ingest", "parse_timeout_s", "1e300", "1,000,000"),
        ("ingest", "parse_memory_bytes", "9223372036854775807", "1,000,000,000,000,000"),
        ("search", "retriever_timeout_ms", "99999999999999999999", "1,000,000,000"),
    ],
)
def test_numbers_that_overflow_are_refused(
    tmp_path: Path, table: str, name: str, value: str, most: str
) -> None:
    (tmp_path / "config.toml").write_text(f"[{table}]\n{name} = {value}\n")
    with pytest.raises(ConfigError, match=rf"{table}\.{name} cannot be") as error:
        load(tmp_path / "kb.sqlite")
    assert error.value.hint == f"it must be at most {most}"


def test_the_largest_numbers_work(tmp_path: Path) -> None:
    """A store can be written, and a file be read by a parser process."""
    (tmp_path / "config.toml").write_text(
        "[store]\nbusy_timeout_s = 1000000\n"
        "[ingest]\nparse_timeout_s = 1000000\nparse_memory_bytes = 1000000000000000\n"
    )
    file = tmp_path / "a.md"
    file.write_text("word " * 10_000)
    with KnowledgeBase(tmp_path / "kb.sqlite", config=load(tmp_path / "kb.sqlite")) as kb:
        assert kb.ingest(file).added


def test_a_choice_that_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_STORE_VECTOR_BACKEND", "abacus")
    with pytest.raises(ConfigError) as error:
        load()
    assert error.value.message == (
        "store.vector_backend cannot be 'abacus' (from $KB_STORE_VECTOR_BACKEND)"
    )
    assert error.value.hint == "it must be one of: auto, numpy, sqlite-vec, python"
    monkeypatch.setenv("KB_STORE_VECTOR_BACKEND", "sqlite-vec")
    assert load().store.vector_backend == "sqlite-vec"


def test_default_k_is_another_name_of_default_top(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.toml").write_text("[search]\ndefault_k = 3\n")
    config = load(tmp_path / "kb.sqlite")
    assert (config.search.default_top, config.ignored) == (3, ())
    assert config.origins["search.default_top"].endswith("config.toml")
    monkeypatch.setenv("KB_SEARCH_DEFAULT_K", "4")
    assert load(tmp_path / "kb.sqlite").search.default_top == 4
    assert load(overrides={"search.default_k": 5}).search.default_top == 5
    (tmp_path / "config.toml").write_text("[search]\ndefault_k = 1_000_000_000\n")
    assert load(tmp_path / "kb.sqlite").ignored
