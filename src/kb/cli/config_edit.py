"""`kb config set` and `unset`: change one setting in the user's settings file.

The file is edited line by line, to keep comments and the order of settings. It is written only if
the edit changes this setting and nothing else.
"""

from __future__ import annotations

import os
import re
import tomllib
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import click

from kb.cli import output
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.options import Command, common_options
from kb.errors import ConfigError

_LOCK_S = 10.0
_SECTION = re.compile(r"[ \t]*\[([^\[\]]+)\][ \t]*(?:#.*)?")


@click.command("set", cls=Command)
@click.argument("key")
@click.argument("value")
@common_options()
@pass_invocation
def set_command(invocation: Invocation, *, key: str, value: str) -> None:
    """Change a setting in your own file, and print its path.

    KEY is a name that `kb config` shows. A config.toml beside the store, a variable or an option
    may still override it.

    \b
    Examples:
      kb config set search.default_top 20
      kb config set open.links obsidian
    """
    from kb.config import ALIASES, load

    key = ALIASES.get(key, key)
    section, _, name = key.partition(".")
    checked = load(None, overrides={key: value}).as_keys()  # raises an error if it is not valid
    _change(invocation, section, name, checked[key])


@click.command("unset", cls=Command)
@click.argument("key")
@common_options()
@pass_invocation
def unset_command(invocation: Invocation, *, key: str) -> None:
    """Remove a setting from your own file, and print its path.

    \b
    Example:
      kb config unset search.default_top
    """
    from kb.config import ALIASES, load

    key = ALIASES.get(key, key)
    section, _, name = key.partition(".")
    if key not in load(None).as_keys():
        load(None, overrides={key: ""})  # raises the error for unknown settings
    _change(invocation, section, name, None)


def _change(invocation: Invocation, section: str, name: str, value: Any) -> None:
    from kb.config import user_file

    path = user_file()
    try:
        with _lock(path):
            changed = _edit_file(path, section, name, value)
    except OSError as error:
        raise ConfigError(f"{path} cannot be changed: {error}", "check the file") from error
    if invocation.json:
        output.write_json({"file": str(path), "changed": changed})
    else:
        output.write(output.escape(str(path)))


def _lock(path: Path) -> AbstractContextManager[None]:
    """Lock the file. Of two commands that change it at the same time, one would lose its change."""
    from kb.server.file_lock import name_lock

    path.parent.mkdir(parents=True, exist_ok=True)
    target = Path(os.path.realpath(path))
    return name_lock(target.parent, target.name, _LOCK_S)


def _edit_file(path: Path, section: str, name: str, value: Any) -> bool:
    """Change one setting in the file. Returns whether its text changed."""
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", "check the file") from error
    changed = edit_text(text, section, name, value)
    if not _has_meaning(text, changed, section, name, value):
        raise ConfigError(f"kb cannot edit {path}", f"change {section}.{name} in an editor")
    if changed != text:
        _write(path, changed)
    return changed != text


def edit_text(text: str, section: str, name: str, value: Any) -> str:
    """The text of a settings file with a new value for one setting; without the setting if `value`
    is None."""
    lines = text.split("\n")
    start, end = _section_range(lines, section)
    setting = re.compile(rf"[ \t]*{re.escape(name)}[ \t]*=")
    at = next((number for number in range(start, end) if setting.match(lines[number])), None)
    if value is None:
        if at is not None:
            del lines[at]
        return "\n".join(lines)
    line = f"{name} = {_toml(value)}"
    if at is not None:
        lines[at] = line
    elif start < end or start > 0:
        while end > start and not lines[end - 1].strip():
            end -= 1
        lines.insert(end, line)
    else:
        body = text.rstrip("\n")
        return f"{body}\n\n[{section}]\n{line}\n".lstrip("\n")
    return "\n".join(lines)


def _section_range(lines: list[str], section: str) -> tuple[int, int]:
    """The lines of a section, without its header; (0, 0) if the file has none."""
    start = 0
    for number, line in enumerate(lines):
        match = _SECTION.fullmatch(line)
        if match is None:
            continue
        if start:
            return start, number
        if match[1].strip() == section:
            start = number + 1
    return (start, len(lines)) if start else (0, 0)


def _has_meaning(before: str, after: str, section: str, name: str, value: Any) -> bool:
    """Whether `after` has this setting, and equals `before` in all others."""
    try:
        old, new = tomllib.loads(before), tomllib.loads(after)
    except tomllib.TOMLDecodeError:
        return False
    wanted = dict(old)
    own = dict(wanted.get(section, {}))
    own.pop(name, None)
    if value is not None:
        own[name] = value
    wanted[section] = own
    return {key: table for key, table in wanted.items() if table != {}} == {
        key: table for key, table in new.items() if table != {}
    }


def _toml(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


def _write(path: Path, text: str) -> None:
    from kb.atomic import atomic_path

    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path, overwrite=True, mode=0o600, follow_links=True) as temporary:
        temporary.write_text(text, "utf-8")
