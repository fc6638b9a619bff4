"""`kb mcp`."""

from __future__ import annotations

import click

from kb.cli import output
from kb.cli.invocation import Session, pass_session
from kb.cli.options import Command, common_options, option
from kb.errors import MissingExtra


@click.command("mcp", cls=Command)
@option(
    "--http",
    metavar="HOST:PORT",
    help="Answer over streamable HTTP at http://HOST:PORT/mcp rather than over stdin and stdout.",
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
    help="A name that the HTTP server may be called by; may be repeated.",
)
@common_options()
@pass_session
def mcp_command(
    session: Session, /, *, http: str | None, token_file: str | None, allow_hosts: tuple[str, ...]
) -> None:
    """Give an agent the tools search, fetch, add and status.

    An agent starts this command by itself and talks to it over stdin and stdout, by the Model
    Context Protocol. With --http, one server answers many agents; only this machine can reach it,
    unless HOST says otherwise, and then a token is needed.

    What is added gets its vectors while the server runs.

    \b
    Examples:
      kb mcp
      kb --store ~/agent.sqlite mcp
      kb mcp --http 127.0.0.1:8766
    """
    try:
        from kb.mcp.server import address, serve_http, serve_stdio
    except ImportError as error:
        raise MissingExtra(
            f"kb mcp needs {error.name}", "install it with: pip install 'kb-search[mcp]'"
        ) from error
    if http is None:
        if token_file or allow_hosts:
            raise click.UsageError("--token-file and --allow-host are for --http")
        with session.open() as kb:
            serve_stdio(kb)
        return
    from kb.server.lifecycle import read_token
    from kb.shutdown import Shutdown

    host, port = address(http)
    session.interrupted = "stopped"
    given = {
        "serve.host": host,
        "serve.port": port,
        "serve.token_file": token_file,
        "serve.allow_hosts": ",".join(allow_hosts),
    }
    overrides = {key: value for key, value in given.items() if value not in (None, "")}
    with Shutdown() as shutdown, session.open(overrides) as kb:
        token = read_token(kb.config.serve.token_file)
        serve_http(kb, token=token, ready=lambda port: _say(host, port), shutdown=shutdown)
        shutdown.finish()


def _say(host: str, port: int) -> None:
    shown = f"[{host}]" if ":" in host else host
    output.say(f"http://{shown}:{port}/mcp")
    output.note("Ctrl-C ends it")
