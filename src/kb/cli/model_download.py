"""`kb models pull` and `kb models remove`: models from elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from kb.cli import output, progress
from kb.cli.invocation import Session, pass_session
from kb.cli.options import Command, common_options, option, readable

_MEGABYTE = 1_000_000


@click.command("pull", cls=Command)
@click.argument("source", metavar="NAME|URL|FOLDER", type=readable)
@option("--revision", metavar="REVISION", help="The revision, where an address leaves it open.")
@option("--sha256", metavar="HASH", help="What the SHA-256 of the model.json must be.")
@option("--to", metavar="FOLDER", help="Where to put it.  [default: the user's data folder]")
@common_options()
@pass_session
def pull_command(
    session: Session, *, source: str, revision: str | None, sha256: str | None, to: str | None
) -> None:
    """Fetch a model, and check every byte of it.

    A model.json says which files a model has, with their SHA-256, and where they are: beside it, or
    below the address that it names as its source, in which {revision} stands for --revision. Name
    that file, its address, or the folder it lies in. A folder may also hold an export without a
    model.json, as hubs have them. A name is looked for below the address in $KB_MODELS_MIRROR.

    Interrupted, the same command goes on where it stopped. Nothing is put into its place before it
    is complete. With KB_OFFLINE=1 or models.offline, only folders are read.

    \b
    Examples:
      kb models pull ~/exports/bge-m3
      kb models pull https://models.example.org/m3/model.json --sha256 9f2c...
      kb models pull https://hub.example.org/me/m3/resolve/{revision}/ --revision 4e1a...
    """
    from kb.models.pull import pull

    session.interrupted = "interrupted: what has arrived is kept; the same command goes on with it"
    with session.open() as kb:
        config = kb.config
    with progress.shown(session) as show:
        placed = pull(
            config,
            source,
            revision=revision,
            sha256=sha256,
            to=None if to is None else Path(to),
            on_progress=lambda done, total, what: show(
                "pull", done / _MEGABYTE, -(-total // _MEGABYTE), f"MB, {what}"
            ),
        )
    name = placed.spec.name if to is None else str(placed.folder)
    if session.json:
        from kb import models, wire

        output.say_json(wire.models([models.info(config, name)]))
    else:
        spec, where, shown = placed.spec, output.visible(str(placed.folder)), output.visible(name)
        output.say(f"{output.visible(f'{spec.name} {spec.version}')} is in {where}")
        judge = f"set models.judge to {shown}"
        output.note(f"to use it: {judge if spec.is_judge else f'kb reindex --model {shown}'}")


@click.command("remove", cls=Command)
@click.argument("name", type=readable)
@common_options()
@pass_session
def remove_command(session: Session, *, name: str) -> None:
    """Remove a model that was pulled.

    Vectors that it has made stay in their stores, and are of no use until it is pulled again, or
    kb reindex makes others.

    \b
    Example:
      kb models remove bge-m3
    """
    from kb.models.model_directory import remove

    with session.open() as kb:
        used = (kb.config.models.encoder, kb.config.models.judge)
    gone = str(remove(name))
    if session.json:
        output.say_json({"schema_version": "removed.v1", "removed": [gone]})
    else:
        output.say(f"removed {output.visible(gone)}")
    if name in used:
        output.warn(f"the settings still name {output.visible(name)}: see kb config")
