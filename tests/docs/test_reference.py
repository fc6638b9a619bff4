"""The reference pages are up to date, and everything in them is documented."""

from __future__ import annotations

import ast
import importlib
import inspect
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

import kb
from kb import config, errors, wire
from kb.cli import run as command_line
from kb.cli.root import cli
from kb.search.profiles import BUILT_IN
from tests.docs.pages import DOCS

COMMAND = DOCS / "reference.py"
PAGES = ("cli", "settings", "shapes", "errors", "python")


def load(name: str) -> ModuleType:
    """A module of `docs`, whose modules import each other by name."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.syspath_prepend(str(DOCS))
        return importlib.import_module(name)


reference = load("reference")
every_error = load("_errors_page").every_error
COMMANDS: dict[tuple[str, ...], click.Command] = dict(load("_cli_page").every_command(cli, ("kb",)))
ERRORS: list[type[errors.KbError]] = [
    each for each in every_error(errors.KbError) if each.__module__ == "kb.errors"
]
SHAPES: list[str] = load("_shapes_page").shape_names()


def text(page: str) -> str:
    return (DOCS / "reference" / f"{page}.md").read_text(encoding="utf-8")


def section(page: str, heading: str) -> str:
    """The section of a heading, up to the next heading of its level."""
    level = heading.partition(" ")[0]
    _, found, rest = f"\n{text(page)}".partition(f"\n{heading}\n")
    assert found, f"{page}.md has no {heading!r}: make docs"
    return rest.partition(f"\n{level} ")[0]


# --- up to date -----------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_what_the_code_says(page: str) -> None:
    assert text(page) == reference.PAGES[page](), "run: make docs"


def test_all_pages_are_generated_and_no_others() -> None:
    assert tuple(reference.PAGES) == PAGES
    assert {path.stem for path in (DOCS / "reference").glob("*")} == set(PAGES)


def test_the_width_of_a_terminal_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("KB_SEARCH_DEFAULT_TOP", "3")
    for page in PAGES:
        assert reference.PAGES[page]() == text(page)


def test_the_check_names_the_stale_page_and_what_to_do(tmp_path: Path) -> None:
    for module in (COMMAND, *DOCS.glob("_*.py")):
        shutil.copy(module, tmp_path / module.name)
    shutil.copytree(DOCS / "reference", tmp_path / "reference")

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(tmp_path / "reference.py"), *args]
        return subprocess.run(command, capture_output=True, text=True)

    assert run("--check").returncode == 0
    (tmp_path / "reference" / "cli.md").write_text("old", encoding="utf-8")
    stale = run("--check")
    assert (stale.returncode, stale.stdout) == (1, "")
    assert "docs/reference/cli.md" in stale.stderr
    assert "make docs" in stale.stderr
    assert "settings.md" not in stale.stderr
    assert run().stdout == "wrote docs/reference/cli.md\n"
    assert run("--check").returncode == 0
    assert run("--nope").returncode == 1


# --- complete -------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_every_command_and_option_is_documented(names: tuple[str, ...]) -> None:
    command = COMMANDS[names]
    assert command.help, f"{' '.join(names)} has no help text"
    shown = section("cli", f"## {' '.join(names)}")
    assert f"```text\n{' '.join(names)}" in shown
    for param in command.params:
        if isinstance(param, click.Option):
            assert param.help, f"{' '.join(names)} {param.opts[-1]} has no help text"
            for name in param.opts:
                assert f"`{name} " in shown or f"`{name}`" in shown
        else:
            assert param.human_readable_name.upper().strip("[].") in shown.upper()


@pytest.mark.parametrize(("key", "doc"), [(key, doc) for key, _, _, doc in config.keys()])  # noqa: SIM118
def test_every_setting_is_documented(key: str, doc: str) -> None:
    assert doc.strip(), f"{key} has no documentation"
    shown = section("settings", f"### {key}")
    assert "KB_" + key.replace(".", "_").upper() in shown
    assert "Default:" in shown
    assert "Type:" in shown


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_profile_is_documented(name: str) -> None:
    assert BUILT_IN[name].summary
    assert f'match = "{BUILT_IN[name].match}"' in section("settings", f"### {name}")


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.code)
def test_every_error_is_documented(kind: type[errors.KbError]) -> None:
    meaning = load("_errors_page").meaning(kind)
    assert meaning, f"{kind.__name__} has no line in the tree at the top of kb.errors"
    row = next(line for line in text("errors").splitlines() if f"| `{kind.__name__}` |" in line)
    assert f"`{kind.code}` | `{kind.__name__}` | {kind.exit_status} | {kind.http_status} |" in row


def test_every_error_of_the_command_line_is_documented() -> None:
    """The codes of `run` itself, which are not exceptions of kb."""
    codes = {
        str(node.args[0].value)
        for node in ast.walk(ast.parse(inspect.getsource(command_line)))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "_fail"
        and isinstance(node.args[0], ast.Constant)
    }
    assert codes
    for code in codes:
        assert f"| `{code}` |" in text("errors"), f"{code} is not in docs/_errors_page.py"


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_and_field_is_documented(name: str) -> None:
    schema = wire.schema(name)
    assert schema.get("description"), f"{name} has no description"
    shown = section("shapes", f"## {name}")
    for field in properties(schema):
        assert f"{field}`" in shown, f"{name} has a field {field} that is not shown"


def properties(schema: Any) -> set[str]:
    """The names of all fields anywhere in a schema."""
    if isinstance(schema, list):
        return set().union(*map(properties, schema))
    if not isinstance(schema, dict):
        return set()
    inner = {key: value for key, value in schema.items() if key not in ("if", "enum", "const")}
    own = inner.get("properties", {})
    return set(own) | properties(list(own.values())) | properties(list(inner.values()))


@pytest.mark.parametrize("name", [name for name in kb.__all__ if name != "__version__"])
def test_every_public_name_is_documented(name: str) -> None:
    shown = section("python", f"## {name}")
    for member, value in (
        load("_python_page").public_members(getattr(kb, name)) if name[0].isupper() else ()
    ):
        assert f"### {name}.{member}" in shown
        if name == "KnowledgeBase" and member != "close":
            assert inspect.getdoc(value), f"{name}.{member} has no docstring"
