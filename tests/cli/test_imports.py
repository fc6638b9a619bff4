"""A piped lexical search imports as little as possible, since importing takes most of its time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "ast", "asyncio", "click", "dataclasses", "hashlib", "importlib.resources", "inspect",
    "jsonschema", "logging", "markdown_it", "numpy", "onnxruntime", "pathlib", "pathspec",
    "pydantic", "rich", "tomllib", "tree_sitter", "typing", "urllib.parse", "yaml",
}  # fmt: skip
if sys.platform == "linux":  # on other systems it locates the settings
    HEAVY.add("platformdirs")

# The types that a lexical search uses. The others are for other commands.
VALUES = {"kb.types", "kb.types.documents", "kb.types.citations", "kb.types.search"}
MOST_MODULES, MOST_CLASSES = 91, 40  # of kb; loading a module takes a quarter of a millisecond

SCRIPT = """
import sys
sys.argv = ["kb", *sys.argv[1:]]
from kb.cli.run import run
status = run(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
sys.exit(status)
"""
COUNT = """
import dataclasses, sys
from kb.cli.run import run
run(sys.argv[1:])
ours = [vars(module) for name, module in sys.modules.items() if name.startswith("kb.")]
made = {id(each) for names in ours for each in names.values()
        if isinstance(each, type) and dataclasses.is_dataclass(each)}
print(len(ours), len(made), file=sys.stderr)
"""


def loaded(*args: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT, *args],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return set(done.stderr.split())


@pytest.mark.parametrize("output", [(), ("--json",), ("--jsonl",), ("--explain",)])
def test_a_lexical_search_loads_nothing_heavy(here: Path, output: tuple[str, ...]) -> None:
    modules = loaded("search", "--mode", "lexical", "retry", "storm", *output)
    assert modules & HEAVY == set()
    others = ("kb.ingest", "kb.evaluation", "kb.models")
    assert {name for name in modules if name.startswith(others)} == set()


@pytest.mark.parametrize("output", [(), ("--json",)])
def test_a_lexical_search_creates_few_classes(here: Path, output: tuple[str, ...]) -> None:
    search = ("search", "--mode", "lexical", "retry", "storm", *output)
    modules = loaded(*search)
    assert {name for name in modules if name.startswith("kb.types")} == VALUES
    assert not modules & {
        "kb.ports",
        "kb.search.retrievers.model_retriever",
        "kb.search.rerank.stage",
    }
    done = subprocess.run(
        [sys.executable, "-c", COUNT, *search],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    ours, classes = map(int, done.stderr.split())
    assert 10 < ours <= MOST_MODULES
    assert 10 < classes <= MOST_CLASSES


def test_a_command_loads_no_other(here: Path) -> None:
    modules = {name for name in loaded("search", "retry") if name.startswith("kb.cli.")}
    rest = {
        "arguments", "hit_output", "hit_view", "invocation", "last_hits", "output", "run",
        "search_run", "socket_client",
    }  # fmt: skip
    assert modules == {f"kb.cli.{name}" for name in rest}


def test_help_needs_no_store(tmp_path: Path) -> None:
    assert "apsw" not in loaded("--help")


@pytest.mark.parametrize(("setting", "used"), [(None, "1"), ("3", "3")])
def test_numpy_starts_no_threads_that_a_search_does_not_use(
    here: Path, monkeypatch: pytest.MonkeyPatch, setting: str | None, used: str
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if setting is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", setting)
    code = "import os, sys; from kb.cli.run import run; run(sys.argv[1:]); "
    code += "print(os.environ['OPENBLAS_NUM_THREADS'], file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, "search", "--mode", "lexical", "retry"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stderr.split() == [used]
