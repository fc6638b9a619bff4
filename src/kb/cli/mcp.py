"""`kb mcp`."""

from __future__ import annotations

import click

from kb.cli import output
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.options import Command, common_options, option
from kb.errors import InvalidRequest, MissingExtra

# The keys of `kb.mcp.client_settings.CLIENTS`, without loading it; a test compares them.
_CLIENTS = ("claude-code", "claude-desktop", "cursor", "gemini", "vscode", "zed")


@click.command("mcp", cls=Command)
@click.argument("action", type=click.Choice(["install"]), required=False, metavar="[install")
@click.argument("client", type=click.Choice(_CLIENTS), required=False, metavar="CLIENT]")
@option("--remove", is_flag=True, help="With install: remove kb from the settings of CLIENT.")
@option(
    "--http",
    metavar="HOST:PORT",
    help="Serve streamable HTTP at http://HOST:PORT/mcp instead of stdin and stdout.",
)
@option(
    "--token-file",
    metavar="FILE",
    help="A file with the token that HTTP clients must send; or set KB_SERVE_TOKEN.",
)
@option(
    "--allow-host",
    "allow_hosts",
    metavar="NAME",
    multiple=True,
    help="An additional host name for the HTTP server; can be repeated.",
)
@common_options()
@pass_invocation
def mcp_command(
    invocation: Invocation,
    /,
    *,
    action: str | None,
    client: str | None,
    remove: bool,
    http: str | None,
    token_file: str | None,
    allow_hosts: tuple[str, ...],
) -> None:
    """Serve the tools search, fetch, add and status to AI agents.

    An agent starts this command itself and speaks the Model Context Protocol over stdin and
    stdout. With --http, one server serves many agents. It listens on this machine only, unless
    HOST is another address, which requires a token.

    New notes are embedded while the server runs.

    `kb mcp install CLIENT` adds kb, with the store in use, to the settings of a program that starts
    MCP servers: claude-code, claude-desktop, cursor, vscode, zed or gemini. A copy of the previous
    file is kept beside it; --remove removes kb again.

    \b
    Examples:
      kb mcp
      kb mcp install claude-code
      kb mcp install cursor --remove
      kb --store ~/agent.sqlite mcp
      kb mcp --http 127.0.0.1:8766
    """
    if action is not None:
        if client is None:
            raise click.UsageError(f"install needs a client: {', '.join(_CLIENTS)}")
        _install(invocation, client, remove=remove)
        return
    if remove:
        raise click.UsageError("--remove requires install CLIENT")
    try:
        from kb.mcp.server import address, serve_http, serve_stdio
    except ImportError as error:
        raise MissingExtra(
            f"kb mcp needs {error.name}", "install it with: pip install 'kb-search[mcp]'"
        ) from error
    if http is None:
        if token_file or allow_hosts:
            raise click.UsageError("--token-file and --allow-host require --http")
        with invocation.open() as kb:
            serve_stdio(kb)
        return
    from kb.server.lifecycle import read_token
    from kb.shutdown import Shutdown

    host, port = address(http)
    invocation.interrupt_message = "stopped"
    settings = {
        "serve.host": host,
        "serve.port": port,
        "serve.token_file": token_file,
        "serve.allow_hosts": ",".join(allow_hosts),
    }
    overrides = {key: value for key, value in settings.items() if value not in (None, "")}
    with Shutdown() as shutdown, invocation.open(overrides) as kb:
        token = read_token(kb.config.serve.token_file)
        serve_http(kb, token=token, ready=lambda port: _write_url(host, port), shutdown=shutdown)
        shutdown.finish()


def _install(invocation: Invocation, name: str, *, remove: bool) -> None:
    import os
    import shutil
    import sys

    from kb.locations import store_url
    from kb.mcp import client_settings
    from kb.store import has_password, local_path

    client = client_settings.CLIENTS[name]
    if remove:
        path, is_changed = client_settings.remove(client)
        done = "removed kb from" if is_changed else "kb is not in"
        output.write(f"{done} {output.escape(str(path))}")
        return
    url = store_url(invocation.store)
    store = url if url.startswith("postgresql:") else str(local_path(url).absolute())
    if has_password(url):
        raise InvalidRequest(
            f"the URL of the store contains a password, which kb does not write to the settings of "
            f"{client.title}",
            "keep it in ~/.pgpass, and leave it out of the URL",
        )
    command = shutil.which(sys.argv[0]) or shutil.which("kb") or sys.argv[0]
    entry = client_settings.entry_for(client, os.path.abspath(command), store)
    path, is_changed = client_settings.install(client, entry)
    done = "added kb to" if is_changed else "kb is already in"
    output.write(f"{done} {output.escape(str(path))}")
    output.note(f"restart {client.title}; to undo: kb mcp install {name} --remove")


def _write_url(host: str, port: int) -> None:
    name = f"[{host}]" if ":" in host else host
    output.write(f"http://{name}:{port}/mcp")
    output.note("press Ctrl-C to stop")
