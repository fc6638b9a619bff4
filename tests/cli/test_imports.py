"""What a piped lexical search loads: as little as it can, since loading is most of its time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "asyncio", "hashlib", "importlib.resources", "jsonschema", "markdown_it", "numpy",
    "onnxruntime", "pathspec", "pydantic", "rich", "tomllib", "tree_sitter", "yaml",
}  # fmt: skip
if sys.platform == "linux":  # elsewhere it knows where the settings are
    HEAVY.add("platformdirs")

SCRIPT = """
import sys
sys.argv = ["kb", *sys.argv[1:]]
from kb.cli.run import run
status = run(sys.argv[1:])
print(*sys.modules, file=sys.stderr)
sys.exit(status)
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


def test_a_command_loads_no_other(here: Path) -> None:
    modules = {name for name in loaded("search", "retry") if name.startswith("kb.cli.")}
    rest = {"hits", "options", "page", "root", "run", "search", "session"}
    assert modules == {f"kb.cli.{name}" for name in rest}


def test_help_needs_no_store(tmp_path: Path) -> None:
    assert "apsw" not in loaded("--help")
