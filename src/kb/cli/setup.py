"""`kb init`, `config` and `completion`: a store of one's own, settings, the shell."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kb.cli import output
from kb.cli.invocation import Session, pass_session
from kb.cli.options import Command, common_options, option
from kb.errors import ConfigError, InvalidRequest

if TYPE_CHECKING:
    from kb.config import Config


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
            output.say_json(kb.status())
            return
    output.say(output.visible(str(store)))
    output.note("this store was there already" if known else "now: kb ingest FOLDER")
    if named := os.environ.get("KB_STORE"):
        output.warn(f"KB_STORE is set, so that commands use {named} instead")


# --- settings -------------------------------------------------------------------------------------


@click.group("config", invoke_without_command=True)
@common_options()
@click.pass_context
def config_command(context: click.Context) -> None:
    """Show the settings in force, and where each comes from.

    A setting is changed in a config.toml, by a variable such as KB_SEARCH_DEFAULT_TOP, or, where
    there is one, by an option. The config.toml beside a store may set what is harmless; the rest of
    it is ignored until `kb config trust` has trusted the file.

    \b
    Examples:
      kb config
      kb config profiles
      kb config trust
      $EDITOR "$(kb config path | tail -1)"
    """
    if context.invoked_subcommand is not None:
        return
    session = context.ensure_object(Session)
    with session.open() as kb:
        config = kb.config
    values = {key: _setting(config, key, value) for key, value in config.as_keys().items()}
    if session.json:
        output.say_json(values)
        return
    width = max(map(len, values))
    widest = max(len(_toml(one["value"])) for one in values.values())
    sheet = output.Page.of(sys.stdout)
    for key, one in values.items():
        value = output.visible(_toml(one["value"])).ljust(widest)
        origin = output.visible(_origin(one))
        output.say(f"{key:{width}}  {value}  {sheet.style(origin, dim=True)}")


def _setting(config: Config, key: str, value: Any) -> dict[str, Any]:
    """A setting as `kb config --json` shows it."""
    origin = config.origins.get(key, "default")
    shown = {"value": value, "origin": origin}
    if origin in map(str, config.trusted):
        shown["trusted"] = True
    for ignored in config.ignored:
        if key in ignored.values:
            shown["ignored"] = {"value": ignored.values[key], "origin": str(ignored.path)}
    return shown


def _origin(shown: dict[str, Any]) -> str:
    trusted = " (trusted)" if shown.get("trusted") else ""
    if (ignored := shown.get("ignored")) is None:
        return f"{shown['origin']}{trusted}"
    return f"{shown['origin']}; not trusted: {_toml(ignored['value'])} of {ignored['origin']}"


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
        output.say_json(profiles)
        return
    sheet = output.Page.of(sys.stdout)
    for name, settings in profiles.items():
        shown = {key: value for key, value in settings.items()
                 if key != "summary" and value is not None}  # fmt: skip
        output.say(f"{sheet.style(name, bold=True)}  {settings['summary']}")
        for key, value in shown.items():
            output.say(f"    {key} = {_toml(value)}")


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
        output.say_json(paths)
    else:
        output.say("\n".join(map(output.visible, paths)))


@config_command.command("trust", cls=Command)
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@option("--yes", "-y", is_flag=True, help="Do not ask.")
@common_options()
@pass_session
def trust_command(session: Session, *, folder: Path | None, yes: bool) -> None:
    """Trust the settings and the model that come with a folder.

    FOLDER holds the store; without it, it is the store in use. Shows what would count, asks on a
    terminal, and records the file by its path and its content: once it changes, it is not trusted
    any more. Trust only what you have read: such settings can send your texts and your key to
    another machine, or open the server.

    \b
    Examples:
      kb config trust
      kb config trust ~/projects/tidepool
    """
    from kb.config import parse, settings_file, trust_record, untrusted
    from kb.embedding.service import sources_to_trust
    from kb.trust import read_settings

    store = _store_in(folder, session)
    path = settings_file(store)
    file = read_settings(path)
    if file is not None and file.exposure is not None:
        fix = f"chown it to yourself, and: chmod go-w {path}"
        raise ConfigError(f"{path} cannot be trusted: {file.exposure}", fix)
    values = untrusted(parse(file)) if file is not None else {}
    sources = sources_to_trust(store)
    for key, value in values.items():
        output.note(output.visible(f"{key} = {_toml(value)}"))
    for source in sources:
        output.note(output.visible(f"encoder of the store: {source}"))
    if not (values or sources):
        raise InvalidRequest(
            f"nothing in {store.parent} needs trust", "what is harmless counts without it"
        )
    if not yes and output.is_terminal(sys.stdin) and output.is_terminal(sys.stderr):
        click.confirm(f"Trust this of {output.visible(str(store.parent))}?", abort=True, err=True)
    record = trust_record()
    if file is not None and values:
        record.remove(path)
        record.add(path, file.content)
    for source in sources:
        record.add(store, os.fsencode(source))
    _say_trust(session, store.parent, trusted=True)


@config_command.command("untrust", cls=Command)
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@common_options()
@pass_session
def untrust_command(session: Session, *, folder: Path | None) -> None:
    """Take back what was trusted of a folder.

    FOLDER holds the store; without it, it is the store in use.

    \b
    Example:
      kb config untrust ~/projects/tidepool
    """
    from kb.config import settings_file, trust_record

    store = _store_in(folder, session)
    record = trust_record()
    if not record.remove(settings_file(store)) + record.remove(store):
        raise InvalidRequest(f"nothing in {store.parent} was trusted", "see: kb config")
    _say_trust(session, store.parent, trusted=False)


def _store_in(folder: Path | None, session: Session) -> Path:
    from kb.config import store_path

    return store_path(session.store if folder is None else folder)


def _say_trust(session: Session, folder: Path, *, trusted: bool) -> None:
    if session.json:
        output.say_json({"folder": str(folder), "trusted": trusted})
    else:
        output.say(
            f"{'trusted' if trusted else 'not trusted any more'}: {output.visible(str(folder))}"
        )


def _toml(value: Any) -> str:
    """As it would stand in a config.toml; JSON's own words are TOML's too, for plain values. What
    JSON has no word for, such as a date, is shown as text."""
    import json

    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False, default=str)


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
