"""Unexpected errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.test_contract import Valid


def test_a_bug_is_an_error_without_a_traceback(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch, valid: Valid
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("kb.library.knowledge_base.KnowledgeBase.execute", fail)
    told = run("search", "x")
    assert told.status == 2
    assert told.err.startswith("error: internal error: ZeroDivisionError: oops\nhint: ")
    assert "Traceback" not in told.err
    assert "Traceback" in run("search", "x", "-v").err
    error = json.loads(run("search", "x", "--json").err)
    valid("error.v1", error)
    assert error["code"] == "internal_error"


def test_an_interrupt(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("kb.library.knowledge_base.KnowledgeBase.execute", interrupt)
    assert run("search", "x").status == 130
    assert run("search", "x").err == "interrupted\n"


def test_a_file_that_cannot_be_written(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", ".kb/.gitignore")

    monkeypatch.setattr("kb.cli.setup.open", refuse, raising=False)
    told = run("init", "new")
    assert told.status == 2
    assert told.err.startswith("error: .kb/.gitignore: Permission denied\n")


def test_an_option_that_resembles_json_is_not_json(here: Path, run: Run) -> None:
    assert run("get", "--", "--json").err.startswith("error: ")


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        ("search --force git push", "kb search -- --force git push"),
        ("search -zap", "kb search -- -zap"),
        ("search -n 2 --force x", "kb search -n 2 -- --force x"),
        ("search git push --force --top", "kb search git push --force -- --top"),
        ("add never --force", "kb add -- never --force"),
        ("compare --force=1", "kb compare -- --force=1"),
    ],
)
def test_words_that_look_like_options(here: Path, run: Run, args: str, meant: str) -> None:
    told = run(*args.split())
    assert told.status == 2
    assert f"hint: to pass it as text: {meant}; see: kb " in told.err
    assert run(*meant.split()[1:]).status == 0


def test_other_commands_take_no_words(here: Path, run: Run) -> None:
    assert "as text" not in run("get", "a.md", "--force").err
