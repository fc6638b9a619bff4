"""The command lines of editors and PDF viewers that open a file at a line or a page.

The name of a program determines the option for a line or page. Programs come from the user's
environment and settings, never from a store, and get absolute paths, which no program mistakes for
an option.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from shutil import which

from kb.errors import ConfigError
from kb.text.links import link

_PLUS_LINE = (  # vi +12 FILE
    "vi", "vim", "nvim", "gvim", "mvim", "view", "ex", "elvis", "vis", "emacs", "emacsclient",
    "mg", "jed", "joe", "jmacs", "jstar", "ne", "nano", "pico", "rnano", "micro", "kak", "amp",
    "less", "more", "most", "gedit", "pluma", "xed", "gnome-text-editor", "bbedit", "editor",
)  # fmt: skip
_COLON_LINE = (  # hx FILE:12
    "hx",
    "helix",
    "subl",
    "sublime_text",
    "zed",
    "zeditor",
    "lapce",
    "lite-xl",
    "pulsar",
    "atom",
)
_GOTO = (  # code --goto FILE:12
    "code",
    "code-insiders",
    "codium",
    "vscodium",
    "cursor",
    "windsurf",
    "positron",
    "code-server",
)
_LINE_OPTIONS = {
    "kate": "--line", "kwrite": "--line", "mousepad": "--line", "geany": "--line",
    "mate": "--line", "idea": "--line", "pycharm": "--line", "webstorm": "--line",
    "phpstorm": "--line", "goland": "--line", "clion": "--line", "rubymine": "--line",
    "rider": "--line", "rustrover": "--line",
}  # fmt: skip
_PDF_ARGUMENTS = {
    "evince": ("--page-index={page}", "{file}"),
    "papers": ("--page-index={page}", "{file}"),
    "atril": ("--page-index={page}", "{file}"),
    "xreader": ("--page-index={page}", "{file}"),
    "okular": ("--page", "{page}", "{file}"),
    "zathura": ("--page={page}", "{file}"),
    "sioyek": ("--page", "{page}", "{file}"),
    "mupdf": ("{file}", "{page}"),
    "mupdf-x11": ("{file}", "{page}"),
    "mupdf-gl": ("{file}", "{page}"),
    "xpdf": ("{file}", "{page}"),
    "qpdfview": ("{file}#{page}",),
    "sumatrapdf": ("-page", "{page}", "{file}"),
    "firefox": ("{uri}",),
    "firefox-esr": ("{uri}",),
    "chromium": ("{uri}",),
    "chromium-browser": ("{uri}",),
    "google-chrome": ("{uri}",),
    "brave-browser": ("{uri}",),
    "microsoft-edge": ("{uri}",),
}
_DESKTOP_NAMES = {  # names of Linux desktop files
    "org.gnome.Evince": "evince",
    "org.gnome.Papers": "papers",
    "org.kde.okular": "okular",
    "okularApplication_pdf": "okular",
    "org.pwmt.zathura": "zathura",
    "org.pwmt.zathura-pdf-mupdf": "zathura",
    "org.pwmt.zathura-pdf-poppler": "zathura",
    "org.mozilla.firefox": "firefox",
    "org.chromium.Chromium": "chromium",
    "com.google.Chrome": "google-chrome",
}
_FALLBACK_EDITORS = ("editor", "nano", "vim", "vi")


def editor_command(
    file: str, line: int | None, setting: str, environment: Mapping[str, str]
) -> list[str]:
    """The command that opens a text file at a line. `setting` is `open.editor`; without it, $VISUAL
    and $EDITOR name the editor. Raises `ConfigError` if there is none."""
    text = setting or environment.get("VISUAL") or environment.get("EDITOR")
    if not text:
        fallback = next(filter(which, _FALLBACK_EDITORS), None)
        if sys.platform == "win32":
            fallback = "notepad"
        if fallback is None:
            raise ConfigError("no editor is set", "set $EDITOR, or open.editor in your settings")
        text = fallback
    command = _split(text, "the editor")
    if _has_fields(command):
        return _fill(command, file, line=line or 1)
    name = _program_name(command[0])
    if line is None:
        return [*command, file]
    if name in _PLUS_LINE:
        return [*command, f"+{line}", file]
    if name in _COLON_LINE:
        return [*command, f"{file}:{line}"]
    if name in _GOTO:
        return [*command, "--goto", f"{file}:{line}"]
    if name in _LINE_OPTIONS:
        return [*command, _LINE_OPTIONS[name], str(line), file]
    return [*command, file]


def pdf_command(file: str, page: int | None, setting: str, default: str | None) -> list[str] | None:
    """The command that opens a PDF at a page; None if it is not known. `setting` is
    `open.pdf_viewer`, and `default` the name of the system's viewer."""
    if setting:
        command = _split(setting, "open.pdf_viewer")
        if _has_fields(command):
            return _fill(command, file, page=page or 1)
    elif default is not None:
        command = [default]
    else:
        return None
    arguments = _PDF_ARGUMENTS.get(_program_name(command[0]))
    if arguments is None:
        return [*command, file] if setting else None
    return [*command, *_fill(arguments, file, page=page or 1)]


def browser_command(
    file: str, anchor: str | None, environment: Mapping[str, str]
) -> list[str] | None:
    """The command that opens a web page at an anchor (`#install`) in the browser that $BROWSER
    names; None without an anchor or a browser. The programs that choose the default application
    take no anchor."""
    browser = environment.get("BROWSER", "").split(os.pathsep)[0]
    address = link(file, None, None, anchor=anchor)
    if not browser or address is None or anchor is None or not anchor.startswith("#"):
        return None
    command = _split(browser, "$BROWSER")
    if any("%s" in part for part in command):
        return [part.replace("%s", address) for part in command]
    return [*command, address]


def default_pdf_viewer(desktop_file: str) -> str | None:
    """The program that belongs to the name of a desktop file (`org.gnome.Evince.desktop`), if it is
    installed and kb knows its option for a page."""
    name = desktop_file.strip().removesuffix(".desktop")
    program = _DESKTOP_NAMES.get(name, name)
    return program if program in _PDF_ARGUMENTS and which(program) else None


def system_command(file: str) -> list[str] | None:
    """The command that opens a file in its default application; None if there is none."""
    if sys.platform == "darwin":
        return ["open", file]
    return ["xdg-open", file] if which("xdg-open") else None


def has_display(environment: Mapping[str, str]) -> bool:
    """Whether a program can show a window."""
    if sys.platform in ("darwin", "win32"):
        return "SSH_CONNECTION" not in environment
    return bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))


def _split(text: str, what: str) -> list[str]:
    try:
        command = shlex.split(text, posix=sys.platform != "win32")
    except ValueError as error:
        raise ConfigError(f"{what} is not a command: {text!r}", "close the quotes") from error
    if not command:
        raise ConfigError(f"{what} is empty", "give a program")
    return command


def _has_fields(command: Sequence[str]) -> bool:
    return any("{file}" in part for part in command)


def _fill(
    command: Sequence[str], file: str, *, line: int | None = None, page: int | None = None
) -> list[str]:
    """Fill in the fields of a command, in one pass, because a path may contain `{line}`. Raises
    `ConfigError` if the path would be part of a longer argument, such as a command for a shell, and
    has characters that a shell could interpret: somebody else may have named the file."""
    import re

    is_inside = any("{file}" in part and re.search(r"\s", part) for part in command)
    if is_inside and not re.fullmatch(r"[\w @%+=:,./-]*", file.replace(os.sep, "/")):
        raise ConfigError(
            f"the path {file!r} could be read as a command",
            "in your settings, make {file} a separate argument: sh -c 'vim \"$1\"' sh {file}",
        )
    values = {
        "file": file,
        "line": "" if line is None else str(line),
        "page": "" if page is None else str(page),
        "uri": link(file, None, page) or "",
    }
    return [
        re.sub(r"\{(file|line|page|uri)\}", lambda match: values[match[1]], part)
        for part in command
    ]


def _program_name(program: str) -> str:
    """The name of a program without folder, suffix and version: `code` for `/usr/bin/code` and
    `C:\\Code.cmd`; `emacs` for `emacs-29.1`; `vim` for `vim.basic`."""
    name = os.path.basename(program).lower()
    for suffix in (".exe", ".cmd", ".bat", ".app", ".basic", ".tiny", ".nox", ".gtk3"):
        name = name.removesuffix(suffix)
    base, _, version = name.rpartition("-")
    return base if base and version[:1].isdigit() else name
