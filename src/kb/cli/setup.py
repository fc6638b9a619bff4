"""`kb init`, `config` and `completion`: a store of one's own, settings, the shell."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from kb.cli import page
from kb.cli.options import Command, common_options
from kb.cli.session import Session, pass_session


@click.command("init", cls=Command)
@click.argument("folder", type=click.Path(path_type=Path), default=".")
@common_options(store=False)
@pass_session
def init_command(session: Session, *, folder: Path) -> None:
    """Make a store of its own for a folder.

    FOLDER is here, if none is named. The store is the .kb/ in it, which git ignores, and commands
    use it from anywhere below. Nothing has to be made for the store in the user data folder: the
    first `kb ingest` or `kb add` does that.

    \b
    Examples:
      kb init
      kb init ~/projects/tidepool
    """
    from kb.config import STORE_FILE, STORE_FOLDER

    store = folder.absolute() / STORE_FOLDER / STORE_FILE
    known = store.exists()
    session.store = str(store)
    with session.open() as kb:
        kb.create()
        ignore = store.with_name(".gitignore")
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        if session.json:
            page.say_json(kb.status())
            return
    page.say(str(store))
    page.note("this store was there already" if known else "now: kb ingest FOLDER")
    if named := os.environ.get("KB_STORE"):
        page.warn(f"KB_STORE is set, so that commands use {named} instead")


# --- settings -------------------------------------------------------------------------------------


@click.group("config", invoke_without_command=True)
@common_options()
@click.pass_context
def config_command(context: click.Context) -> None:
    """Show the settings in force, and where each comes from.

    A setting is changed in a config.toml, by a variable such as KB_SEARCH_DEFAULT_TOP, or, where
    there is one, by an option.

    \b
    Examples:
      kb config
      kb config profiles
      $EDITOR "$(kb config path | tail -1)"
    """
    if context.invoked_subcommand is not None:
        return
    session = context.ensure_object(Session)
    with session.open() as kb:
        config = kb.config
    values = {
        key: {"value": value, "origin": config.origins.get(key, "default")}
        for key, value in config.as_keys().items()
    }
    if session.json:
        page.say_json(values)
        return
    width = max(map(len, values))
    widest = max(len(_toml(one["value"])) for one in values.values())
    sheet = page.Page.of(sys.stdout)
    for key, one in values.items():
        value = _toml(one["value"]).ljust(widest)
        page.say(f"{key:{width}}  {value}  {sheet.style(one['origin'], dim=True)}")


@config_command.command("profiles", cls=Command)
@common_options()
@pass_session
def profiles_command(session: Session) -> None:
    """Show the profiles that --profile takes, with their settings.

    \b
    Example:
      kb config profiles --json
    """
    with session.open() as kb:
        profiles = kb.profiles()
    if session.json:
        page.say_json(profiles)
        return
    sheet = page.Page.of(sys.stdout)
    for name, settings in profiles.items():
        shown = {key: value for key, value in settings.items()
                 if key != "summary" and value is not None}  # fmt: skip
        page.say(f"{sheet.style(name, bold=True)}  {settings['summary']}")
        for key, value in shown.items():
            page.say(f"    {key} = {_toml(value)}")


@config_command.command("path", cls=Command)
@common_options()
@pass_session
def path_command(session: Session) -> None:
    """Print where settings are read from.

    The files need not be there. Where two say different things, the first one wins.

    \b
    Example:
      kb config path
    """
    from kb.config import files, store_path

    paths = [str(path) for path in reversed(files(store_path(session.store)))]
    if session.json:
        page.say_json(paths)
    else:
        page.say("\n".join(paths))


def _toml(value: Any) -> str:
    """As it would stand in a config.toml; JSON's own words are TOML's too, for plain values."""
    import json

    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)


# --- the shell ------------------------------------------------------------------------------------


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion_command(shell: str) -> None:
    """Print a completion script for the shell.

    \b
    Examples:
      kb completion bash > ~/.local/share/bash-completion/completions/kb
      kb completion zsh > ~/.zfunc/_kb          with ~/.zfunc in $fpath
      kb completion fish > ~/.config/fish/completions/kb.fish
    """
    from click.shell_completion import get_completion_class

    from kb.cli.root import cli
    from kb.cli.run import COMPLETE

    complete = get_completion_class(shell)
    assert complete is not None
    click.echo(complete(cli, {}, "kb", COMPLETE).source())
