"""The command lines of editors and PDF viewers."""

from __future__ import annotations

import sys

import pytest

from kb.cli import programs
from kb.errors import ConfigError

FILE = "/lib/a b.md"
posix = pytest.mark.skipif(sys.platform == "win32", reason="commands of POSIX")


@posix
@pytest.mark.parametrize(
    ("editor", "expected"),
    [
        ("vim", ["vim", "+7", FILE]),
        ("/usr/bin/nvim -p", ["/usr/bin/nvim", "-p", "+7", FILE]),
        ("vim.basic", ["vim.basic", "+7", FILE]),
        ("emacs-29.1 -nw", ["emacs-29.1", "-nw", "+7", FILE]),
        ("emacsclient -t -a ''", ["emacsclient", "-t", "-a", "", "+7", FILE]),
        ("nano", ["nano", "+7", FILE]),
        ("code --wait", ["code", "--wait", "--goto", f"{FILE}:7"]),
        ("subl -w", ["subl", "-w", f"{FILE}:7"]),
        ("hx", ["hx", f"{FILE}:7"]),
        ("kate", ["kate", "--line", "7", FILE]),
        ("pycharm", ["pycharm", "--line", "7", FILE]),
        ("'/opt/my editor/ed'", ["/opt/my editor/ed", FILE]),
        ("my-ed --at {line} -- {file}", ["my-ed", "--at", "7", "--", FILE]),
        ("my-ed {file}:{line}", ["my-ed", f"{FILE}:7"]),
    ],
)
def test_editors(editor: str, expected: list[str]) -> None:
    assert programs.editor_command(FILE, 7, "", {"EDITOR": editor}) == expected


@posix
@pytest.mark.parametrize("name", ["$(touch x)", "a;b", "a`b", 'a"b', "a'b", "a\nb", "a|b", "a\\b"])
def test_a_path_cannot_become_a_command(name: str) -> None:
    """The editor is the user's choice, but the names of files may not be."""
    for setting in ("sh -c 'vim +{line} {file}'", "tmux new-window \"vim '{file}'\""):
        with pytest.raises(ConfigError, match="could be read as a command"):
            programs.editor_command(f"/lib/{name}.md", 7, setting, {})
    command = programs.editor_command(FILE, 7, "sh -c 'vim +{line} \"{file}\"'", {})
    assert command == ["sh", "-c", f'vim +7 "{FILE}"']
    path = f"/lib/{name}.md"
    setting = "sh -c 'vim \"$1\"' sh {file}"
    assert programs.editor_command(path, 7, setting, {}) == ["sh", "-c", 'vim "$1"', "sh", path]


def test_which_editor() -> None:
    environment = {"VISUAL": "vim", "EDITOR": "nano"}
    assert programs.editor_command(FILE, None, "", environment) == ["vim", FILE]
    assert programs.editor_command(FILE, None, "hx", environment) == ["hx", FILE]


def test_a_path_with_fields_is_a_path() -> None:
    path = "/lib/{line}{page}.md"
    assert programs.editor_command(path, 7, "ed {file} {line}", {}) == ["ed", path, "7"]


@posix
def test_no_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "which", lambda _name: None)
    with pytest.raises(ConfigError, match="no editor"):
        programs.editor_command(FILE, 1, "", {})
    with pytest.raises(ConfigError, match="not a command"):
        programs.editor_command(FILE, 1, "", {"EDITOR": "vim '"})
    with pytest.raises(ConfigError, match="is empty"):
        programs.editor_command(FILE, 1, "", {"EDITOR": "  "})


@posix
@pytest.mark.parametrize(
    ("setting", "default", "expected"),
    [
        ("", None, None),
        ("", "evince", ["evince", "--page-index=3", "/x.pdf"]),
        ("", "okular", ["okular", "--page", "3", "/x.pdf"]),
        ("", "firefox", ["firefox", "file:///x.pdf#page=3"]),
        ("", "unheard-of", None),
        ("zathura --fork", "evince", ["zathura", "--fork", "--page=3", "/x.pdf"]),
        ("unheard-of", "evince", ["unheard-of", "/x.pdf"]),
        ("show -p {page} {file}", None, ["show", "-p", "3", "/x.pdf"]),
    ],
)
def test_pdf_viewers(setting: str, default: str | None, expected: list[str] | None) -> None:
    assert programs.pdf_command("/x.pdf", 3, setting, default) == expected


def test_the_default_viewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "which", lambda name: f"/bin/{name}")
    assert programs.default_pdf_viewer("org.gnome.Evince.desktop\n") == "evince"
    assert programs.default_pdf_viewer("firefox.desktop\n") == "firefox"
    assert programs.default_pdf_viewer("rm.desktop\n") is None
    monkeypatch.setattr(programs, "which", lambda _name: None)
    assert programs.default_pdf_viewer("firefox.desktop\n") is None
