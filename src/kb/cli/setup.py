"""`kb init`, `config` and `completion`."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kb.cli import output
from kb.cli.config_edit import set_command, unset_command
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.options import Command, common_options, option
from kb.errors import ConfigError, InvalidRequest

if TYPE_CHECKING:
    from kb.config import Config


@click.command("init", cls=Command)
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@common_options()
@pass_invocation
def init_command(invocation: Invocation, *, folder: Path | None) -> None:
    """Create a store for a folder.

    FOLDER defaults to the current folder. The store is created in FOLDER/.kb, which git ignores;
    commands use it from anywhere inside FOLDER. With --store or $KB_STORE and without FOLDER, it is
    created at that path.
    The default store in the user data folder needs no `kb init`: the first `kb ingest` or `kb add`
    creates it.

    \b
    Examples:
      kb init
      kb init ~/projects/tidepool
    """
    from kb.paths import STORE_FILE, STORE_FOLDER, explicit_store

    if folder is not None and invocation.store is not None:
        raise InvalidRequest("--store and FOLDER specify two different stores", "omit one of them")
    in_folder = invocation.store is None and (folder is not None or not os.environ.get("KB_STORE"))
    if in_folder:
        invocation.store = str((folder or Path()).absolute() / STORE_FOLDER / STORE_FILE)
    with invocation.open() as kb:
        store, where, existed = kb.path, kb.location, kb.exists()
        ignore = store.with_name(".gitignore")
        if in_folder and ignore.is_symlink() and not ignore.exists():
            raise InvalidRequest(
                f"{ignore} is a link to {os.path.realpath(ignore)}, which does not exist",
                "remove the link",
            )
        kb.create()
        if in_folder:
            with suppress(FileExistsError), open(ignore, "x", encoding="utf-8") as file:
                file.write("*\n")  # "x" does not follow links
        if invocation.json:
            output.write_json(kb.status())
            return
    output.write(output.escape(where))
    output.note("this store already exists" if existed else "next: kb ingest FOLDER")
    if (other := os.environ.get("KB_STORE")) and str(store) != explicit_store(other):
        output.warn(f"KB_STORE is set, so commands use {other} instead")


# --- settings -------------------------------------------------------------------------------------


@click.group("config", invoke_without_command=True)
@common_options()
@click.pass_context
def config_command(context: click.Context) -> None:
    """Show the current settings and their origin.

    Settings are changed with `kb config set`, in a config.toml, by a variable such as
    KB_SEARCH_DEFAULT_TOP, or by an option if there is one. The config.toml beside a store may
    change harmless settings; the others are ignored until you trust the file with
    `kb config trust`.

    \b
    Examples:
      kb config
      kb config set search.default_top 20
      kb config profiles
      kb config trust
      $EDITOR "$(kb config path | tail -1)"
    """
    if context.invoked_subcommand is not None:
        return
    invocation = context.ensure_object(Invocation)
    with invocation.open() as kb:
        config = kb.config
    values = {key: _setting(config, key, value) for key, value in config.as_keys().items()}
    if invocation.json:
        output.write_json(values)
        return
    width = max(map(len, values))
    value_width = max(len(_toml(entry["value"])) for entry in values.values())
    console = output.Console.of(sys.stdout)
    for key, entry in values.items():
        value = output.escape(_toml(entry["value"])).ljust(value_width)
        origin = output.escape(_origin(entry))
        output.write(f"{key:{width}}  {value}  {console.style(origin, dim=True)}")


config_command.add_command(set_command)
config_command.add_command(unset_command)


def _setting(config: Config, key: str, value: Any) -> dict[str, Any]:
    """Return a setting as in `kb config --json`."""
    origin = config.origins.get(key, "default")
    entry = {"value": value, "origin": origin}
    if origin in map(str, config.trusted):
        entry["trusted"] = True
    for ignored in config.ignored:
        if key in ignored.values:
            entry["ignored"] = {"value": ignored.values[key], "origin": str(ignored.path)}
    return entry


def _origin(entry: dict[str, Any]) -> str:
    trusted = " (trusted)" if entry.get("trusted") else ""
    if (ignored := entry.get("ignored")) is None:
        return f"{entry['origin']}{trusted}"
    return f"{entry['origin']}; not trusted: {_toml(ignored['value'])} in {ignored['origin']}"


@config_command.command("profiles", cls=Command)
@common_options()
@pass_invocation
def profiles_command(invocation: Invocation) -> None:
    """Show the profiles that --profile takes, with their settings.

    \b
    Example:
      kb config profiles --json
    """
    with invocation.open() as kb:
        profiles = kb.profiles()
    if invocation.json:
        output.write_json(profiles)
        return
    console = output.Console.of(sys.stdout)
    for name, settings in profiles.items():
        values = {key: value for key, value in settings.items()
                 if key != "summary" and value is not None}  # fmt: skip
        output.write(f"{console.style(name, bold=True)}  {settings['summary']}")
        for key, value in values.items():
            output.write(f"    {key} = {_toml(value)}")


@config_command.command("path", cls=Command)
@common_options()
@pass_invocation
def path_command(invocation: Invocation) -> None:
    """Print the paths of the settings files.

    The files may not exist. If both set the same key, the first one wins.

    \b
    Example:
      kb config path
    """
    from kb.config import files
    from kb.locations import store_url
    from kb.store import local_path

    paths = [str(path) for path in reversed(files(local_path(store_url(invocation.store))))]
    if invocation.json:
        output.write_json(paths)
    else:
        output.write("\n".join(map(output.escape, paths)))


@config_command.command("trust", cls=Command)
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@option("--yes", "-y", is_flag=True, help="Trust without asking; required if there is no terminal.")
@common_options()
@pass_invocation
def trust_command(invocation: Invocation, *, folder: Path | None, yes: bool) -> None:
    """Trust the settings and the model that come with a folder.

    FOLDER contains the store; the default is the current store. The command shows the settings,
    asks for confirmation, and records the path and content of the file: if the file changes, it is
    no longer trusted. Trust only settings that you have read: they can send your text and your API
    key to another machine, or open the server to others.

    \b
    Examples:
      kb config trust
      kb config trust ~/projects/tidepool
    """
    from kb.config import parse, settings_file, trust_store, untrusted
    from kb.embedding.service import sources_to_trust
    from kb.trust import read_settings

    store = _select_store(folder, invocation)
    path = settings_file(store)
    file = read_settings(path)
    if file is not None and file.exposure is not None:
        fix = f"chown it to yourself and run: chmod go-w {path}"
        raise ConfigError(f"{path} cannot be trusted: {file.exposure}", fix)
    values = untrusted(parse(file)) if file is not None else {}
    sources = sources_to_trust(store)
    for key, value in values.items():
        output.note(output.escape(f"{key} = {_toml(value)}"))
    for source in sources:
        output.note(output.escape(f"encoder of the store: {source}"))
    if not (values or sources):
        raise InvalidRequest(
            f"nothing in {store.parent} needs to be trusted",
            "harmless settings apply without trust",
        )
    if not yes:
        _confirm(store.parent)
    record = trust_store()
    if file is not None and values:
        record.remove(path)
        record.add(path, file.content)
    for source in sources:
        record.add(store, os.fsencode(source))
    _write_trust(invocation, store.parent, trusted=True)


@config_command.command("untrust", cls=Command)
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@common_options()
@pass_invocation
def untrust_command(invocation: Invocation, *, folder: Path | None) -> None:
    """Stop trusting the settings and the model of a folder.

    FOLDER contains the store; the default is the current store.

    \b
    Example:
      kb config untrust ~/projects/tidepool
    """
    from kb.config import settings_file, trust_store

    store = _select_store(folder, invocation)
    record = trust_store()
    if not record.remove(settings_file(store)) + record.remove(store):
        raise InvalidRequest(f"nothing in {store.parent} is trusted", "see: kb config")
    _write_trust(invocation, store.parent, trusted=False)


def _confirm(folder: Path) -> None:
    """Ask for confirmation on the terminal; refuse if there is none."""
    if not (output.is_terminal(sys.stdin) and output.is_terminal(sys.stderr)):
        raise InvalidRequest(
            "cannot ask for confirmation without a terminal",
            "read the settings above, then run the command again with --yes",
        )
    click.confirm(f"Trust these in {output.escape(str(folder))}?", abort=True, err=True)


def _select_store(folder: Path | None, invocation: Invocation) -> Path:
    from kb.locations import store_url
    from kb.store import local_path

    return local_path(store_url(invocation.store if folder is None else folder))


def _write_trust(invocation: Invocation, folder: Path, *, trusted: bool) -> None:
    if invocation.json:
        output.write_json({"folder": str(folder), "trusted": trusted})
    else:
        output.write(
            f"{'trusted' if trusted else 'no longer trusted'}: {output.escape(str(folder))}"
        )


def _toml(value: Any) -> str:
    """Return `value` as TOML. For plain values JSON is the same; values that JSON lacks, such as
    dates, become strings."""
    import json

    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False, default=str)


# --- completion -----------------------------------------------------------------------------------


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
