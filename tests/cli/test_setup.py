"""`kb init`, `config`, `completion`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND, Run
from tests.cli.test_contract import Valid


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# --- init -----------------------------------------------------------------------------------------


def test_init_here(run: Run, tmp_path: Path) -> None:
    made = run("init")
    assert made.lines == [str(tmp_path / ".kb" / "kb.sqlite")]
    assert made.err == "next: kb ingest FOLDER\n"
    assert (tmp_path / ".kb" / ".gitignore").read_text() == "*\n"
    (tmp_path / "below").mkdir()
    os.chdir("below")
    assert run("status", "--json").json["store"] == made.lines[0]


def test_init_again_changes_nothing(run: Run, tmp_path: Path) -> None:
    run("init")
    run("add", "a note")
    (tmp_path / ".kb" / ".gitignore").write_text("mine\n")
    again = run("init")
    assert (again.status, again.err) == (0, "this store already exists\n")
    assert run("list").lines == ["note:1"]
    assert (tmp_path / ".kb" / ".gitignore").read_text() == "mine\n"


def test_init_elsewhere(run: Run, tmp_path: Path, valid: Valid) -> None:
    made = run("init", "a/new/folder", "--json")
    valid("status.v1", made.json)
    assert made.json["store"] == str(tmp_path / "a" / "new" / "folder" / ".kb" / "kb.sqlite")


def test_init_where_another_store_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_STORE", "elsewhere.sqlite")
    assert "warning: KB_STORE is set" in run("init", "here").err


def test_init_at_the_store_that_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, args in (
        ("a", ("--store", "a.sqlite", "init")),
        ("b", ("init", "--store", "b.sqlite")),
    ):
        assert run(*args).out == f"{tmp_path / name}.sqlite\n"
    monkeypatch.setenv("KB_STORE", "c.sqlite")
    made = run("init")
    assert (made.out, made.err) == (f"{tmp_path / 'c.sqlite'}\n", "next: kb ingest FOLDER\n")
    assert not (tmp_path / ".kb").exists()
    assert sorted(path.name for path in tmp_path.glob("?.sqlite")) == [
        "a.sqlite", "b.sqlite", "c.sqlite",
    ]  # fmt: skip


def test_init_at_an_invalid_location(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = run("init", "file")
    assert (refused.status, refused.out) == (2, "")
    assert refused.err.startswith("error: ")


@pytest.mark.skipif(sys.platform == "win32", reason="links need privileges there")
@pytest.mark.parametrize("name", [".gitignore", "kb.sqlite", ""])
@pytest.mark.parametrize("exists", [False, True])
def test_links_that_come_with_a_folder_are_not_written_through(
    run: Run, tmp_path: Path, name: str, exists: bool
) -> None:
    clone, elsewhere = tmp_path / "clone", tmp_path / "elsewhere"
    target = elsewhere / name
    elsewhere.mkdir()
    clone.mkdir()
    if name:
        (clone / ".kb").mkdir()
        (clone / ".kb" / name).symlink_to(target)
        if exists:
            target.touch()
    else:
        (clone / ".kb").symlink_to(target if exists else elsewhere / "none")
    before = sorted(elsewhere.iterdir())
    os.chdir(clone)
    told = run("init")
    if name == ".gitignore" and exists:
        assert told.status == 0
    else:
        assert (told.status, told.out) == (2, "")
        assert told.err.startswith(f"error: {(clone / '.kb' / name)} is a link to ")
        assert "\nhint: " in told.err
    if name != ".gitignore":
        run("add", "a note")
    assert sorted(elsewhere.iterdir()) == before
    assert all(path.stat().st_size == 0 for path in before)


@pytest.mark.skipif(sys.platform == "win32", reason="links need privileges there")
def test_a_store_folder_may_be_a_link_inside_its_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / ".kb").symlink_to("real")
    assert run("init").status == 0
    assert run("add", "a note").out == "note:1\n"
    assert (tmp_path / "real" / "kb.sqlite").is_file()


# --- config ---------------------------------------------------------------------------------------


def test_config_and_where_it_comes_from(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("init")
    (tmp_path / ".kb" / "config.toml").write_text('[search]\ndefault_top = 3\nprofile = "mine"\n'
                                                  '[profiles.mine]\nmatch = "all"\n')  # fmt: skip
    monkeypatch.setenv("KB_CHUNK_MAX_CHARS", "900")
    lines = [line.split() for line in run("config").lines]
    assert ["search.default_top", "3", str(tmp_path / ".kb" / "config.toml")] in lines
    assert ["chunk.max_chars", "900", "$KB_CHUNK_MAX_CHARS"] in lines
    assert ["ingest.hidden", "false", "default"] in lines
    shape = run("config", "--json").json
    assert shape["chunk.max_chars"] == {"value": 900, "origin": "$KB_CHUNK_MAX_CHARS"}


def test_profiles(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tmp_path / "config.toml"
    settings.write_text('[profiles.mine]\nbase = "notes"\nmatch = "all"\ntop = 4\n')
    monkeypatch.setenv("KB_CONFIG", str(settings))
    told = run("config", "profiles")
    assert told.out.startswith("default  words, meaning and weighted terms")
    assert told.out.endswith("\n    weights = { lexical = 1.0, dense = 1.0 }\n    top = 4\n")
    shape = run("config", "profiles", "--json").json
    assert shape["mine"]["match"] == "all"
    assert list(shape) == [
        "default", "lexical", "notes", "memory", "knowledge", "research", "mine",
    ]  # fmt: skip


def test_paths_of_the_settings_files(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_CONFIG", str(tmp_path / "user.toml"))
    run("init")
    told = run("config", "path")
    assert told.lines == [str(tmp_path / ".kb" / "config.toml"), str(tmp_path / "user.toml")]
    assert run("config", "path", "--json").json == told.lines


def test_a_config_that_cannot_be_used(run: Run, tmp_path: Path) -> None:
    run("init")
    (tmp_path / ".kb" / "config.toml").write_text("[search\n")
    refused = run("search", "x")
    assert refused.status == 2
    assert "is not valid TOML" in refused.err


# --- completion -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(run: Run, shell: str) -> None:
    if shell == "bash" and sys.platform == "win32":
        pytest.skip("click asks bash for its version")
    script = run("completion", shell)
    assert script.status == 0
    assert "_KB_COMPLETE" in script.out


def test_completion_of_unknown_shells(run: Run) -> None:
    assert run("completion", "ed").status == 2


@pytest.mark.parametrize(
    ("begun", "offered"),
    [
        ("kb sea", "search"),
        ("kb search --mat", "--match"),
        ("kb search --match a", "any all auto"),
        ("kb get no", "note:1"),
        ("kb search --type ma", "man markdown"),
        ("kb search --type pdf,htm", "pdf,html"),
        ("kb search --tags o", "ops"),
        ("kb search --tags ops,s", "ops,sea"),
        ("kb search --profile no", "notes"),
        ("kb search --lang e", "en"),
        ("kb list --path no", "note:1"),
        ("kb list --path lib", "lib/** lib/a/** lib/a/b.md"),
        ("kb ask --kind dec", "decision"),
        ("kb search --links-to lib", "lib/a/b.md"),
        ("kb open lib", "lib/a/b.md"),
    ],
)
def test_completions(run: Run, tmp_path: Path, begun: str, offered: str) -> None:
    (tmp_path / "lib" / "a").mkdir(parents=True)
    (tmp_path / "lib" / "a" / "b.md").write_text("---\nlang: en\n---\nwords\n")
    run("init")
    run("add", "a note", "--tags", "ops,sea")
    run("ingest", "--no-embed", "lib")
    words = {"COMP_WORDS": begun, "COMP_CWORD": str(begun.count(" ")),
             "_KB_COMPLETE": "zsh_complete"}  # fmt: skip
    done = subprocess.run(
        COMMAND, env=os.environ | words, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split("\n")[1::3] == offered.split()


def test_init_of_a_named_store(run: Run, tmp_path: Path) -> None:
    named = tmp_path / "elsewhere" / "mine.sqlite"
    done = run("--store", named, "init")
    assert done.status == 0
    assert done.out.strip() == str(named)
    assert named.exists()
    assert not (named.parent / ".gitignore").exists()
    assert not (tmp_path / ".kb").exists()
    both = run("--store", named, "init", tmp_path)
    assert both.status == 2
    assert "specify two different stores" in both.err


@pytest.mark.skipif(sys.platform == "win32", reason="the current folder cannot be removed there")
@pytest.mark.parametrize("args", [("status",), ("search", "x"), ("init",), ("ingest", ".")])
def test_a_current_folder_that_is_gone(tmp_path: Path, args: tuple[str, ...]) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    code = (
        "import os, sys; os.rmdir(os.getcwd()); from kb.cli.run import run\n"
        "sys.exit(run(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *args], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: the current folder no longer exists")
