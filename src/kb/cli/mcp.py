"""`kb mcp`."""

from __future__ import annotations

import click

from kb.cli import output
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.options import Command, common_options, option
from kb.errors import MissingExtra


@click.command("mcp", cls=Command)
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
    http: str | None,
    token_file: str | None,
    allow_hosts: tuple[str, ...],
) -> None:
    """Serve the tools search, fetch, add and status to AI agents.

    An agent starts this command itself and speaks the Model Context Protocol over stdin and
    stdout. With --http, one server serves many agents. It listens on this machine only, unless
    HOST is another address, which requires a token.

    New notes are embedded while the server runs.

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


def _write_url(host: str, port: int) -> None:
    name = f"[{host}]" if ":" in host else host
    output.write(f"http://{name}:{port}/mcp")
    output.note("press Ctrl-C to stop")
