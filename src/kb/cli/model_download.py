"""`kb models pull` and `kb models remove`."""

from __future__ import annotations

from pathlib import Path

import click

from kb.cli import output, progress
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.options import Command, common_options, option, utf8_text

_MEGABYTE = 1_000_000


@click.command("pull", cls=Command)
@click.argument("source", metavar="NAME|URL|FOLDER", type=utf8_text)
@option(
    "--revision",
    metavar="REVISION",
    help="The revision on a hub, or the value for {revision} in the URL.",
)
@option("--sha256", metavar="HASH", help="The expected SHA-256 of the model.json.")
@option("--to", metavar="FOLDER", help="The folder to install to.  [default: the user data folder]")
@common_options()
@pass_invocation
def pull_command(
    invocation: Invocation, *, source: str, revision: str | None, sha256: str | None, to: str | None
) -> None:
    """Install a model, and verify its files.

    A model.json lists the files of a model with their SHA-256. The files are beside it, or below
    the source URL that it contains, where {revision} stands for --revision. Give the path or URL
    of the model.json, or the folder that contains it. A folder may also contain an ONNX export
    without a model.json, as model hubs publish them. A name is looked up below $KB_MODELS_MIRROR.
    ORG/NAME is an ONNX export on huggingface.co, or on the hub in $HF_ENDPOINT: kb selects the
    graph, its weights, the tokenizer and the heads of BGE-M3, and explains what is missing.

    If the download is interrupted, run the same command again to continue it. A model is installed
    only when it is complete. With KB_OFFLINE=1 or models.offline, only local folders work.

    \b
    Examples:
      kb models pull ~/exports/bge-m3
      kb models pull BAAI/bge-m3
      kb models pull https://models.example.org/m3/model.json --sha256 9f2c...
      kb models pull https://hub.example.org/me/m3/resolve/{revision}/ --revision 4e1a...
    """
    from kb.models.pull import pull

    invocation.interrupt_message = (
        "interrupted: downloaded data is kept; to continue, run the same command"
    )
    with invocation.open() as kb:
        config = kb.config
    with progress.reporter(invocation) as show:
        installed = pull(
            config,
            source,
            revision=revision,
            sha256=sha256,
            to=None if to is None else Path(to),
            on_progress=lambda done, total, item: show(
                "pull", done / _MEGABYTE, -(-total // _MEGABYTE), f"MB, {item}"
            ),
        )
    name = installed.spec.name if to is None else str(installed.folder)
    from kb import models

    if invocation.json:
        from kb import wire

        output.write_json(wire.models([models.info(config, name)]))
    else:
        spec, folder = installed.spec, output.escape(str(installed.folder))
        output.write(f"installed {output.escape(f'{spec.name} {spec.version}')} in {folder}")
        for missing in models.info(config, name).missing:
            output.note(f"without {output.escape(missing)}")
        shown_name = output.escape(name)
        judge = f"set models.judge to {shown_name}"
        reindex = f"kb reindex --model {shown_name}"
        output.note(f"to use it: {judge if spec.is_judge else reindex}")


@click.command("remove", cls=Command)
@click.argument("name", type=utf8_text)
@common_options()
@pass_invocation
def remove_command(invocation: Invocation, *, name: str) -> None:
    """Remove an installed model.

    Its vectors stay in their stores, but cannot be searched until the model is installed again or
    `kb reindex` switches to another one.

    \b
    Example:
      kb models remove bge-m3
    """
    from kb.models.model_directory import remove

    with invocation.open() as kb:
        used = (kb.config.models.encoder, kb.config.models.judge)
    folder = str(remove(name))
    if invocation.json:
        output.write_json({"schema_version": "removed.v1", "removed": [folder]})
    else:
        output.write(f"removed {output.escape(folder)}")
    if name in used:
        output.warn(f"the settings still name {output.escape(name)}; see: kb config")
