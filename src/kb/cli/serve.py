"""`kb serve`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import click

from kb.cli import log_handlers, output
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.options import Command, common_options, option
from kb.errors import MissingExtra
from kb.shutdown import Shutdown


@click.command("serve", cls=Command)
@option("--host", metavar="ADDRESS", help="The address to listen on.  [default: 127.0.0.1]")
@option("--port", type=click.IntRange(0, 65535), metavar="N", help="The port.  [default: 8765]")
@option(
    "--token-file",
    metavar="FILE",
    help="A file with the token that clients must send; or set KB_SERVE_TOKEN.",
)
@option(
    "--allow-host",
    "allow_hosts",
    metavar="NAME",
    multiple=True,
    help="An additional host name for the server; can be repeated.",
)
@option(
    "--ingest-from",
    metavar="FOLDER",
    multiple=True,
    help="A folder that clients may ingest; can be repeated.  [default: the current folder]",
)
@common_options()
@pass_invocation
def serve_command(
    invocation: Invocation,
    /,
    *,
    allow_hosts: tuple[str, ...],
    ingest_from: tuple[str, ...],
    **options: Any,
) -> None:
    """Serve the HTTP API and a search page.

    Open the printed address in a browser, or send requests; /openapi.json describes them. New
    documents are embedded while the server runs. Ctrl-C stops the server after pending requests
    are answered; a second Ctrl-C stops it at once.

    The server listens on this machine only, unless --host is another address, which requires a
    token.

    \b
    Examples:
      kb serve
      kb serve --port 9000 --ingest-from ~/notes
      KB_SERVE_TOKEN=... kb serve --host 0.0.0.0 --allow-host kb.example.org
    """
    from kb.cli.socket_server import serve_socket

    try:
        from kb.server.lifecycle import read_token, serve
    except ImportError as error:
        raise MissingExtra(
            f"kb serve needs {error.name}", "install it with: pip install 'kb-search[serve]'"
        ) from error
    settings = options | {
        "allow_hosts": ",".join(allow_hosts),
        "ingest_from": ",".join(ingest_from),
    }
    overrides = {
        f"serve.{name}": value for name, value in settings.items() if value not in (None, "")
    }
    invocation.interrupt_message = "stopped"
    with Shutdown() as shutdown, invocation.open(overrides) as kb, ExitStack() as stack:
        is_new = not kb.exists()
        log_handlers.start(kb.config, verbose=invocation.verbose, serving=True)
        limits = kb.config.serve

        def ready(port: int) -> None:
            stack.enter_context(serve_socket(kb))
            if is_new:  # printed now, in case the path is a typo
                output.note(f"new store: {output.escape(kb.location)}")
            _write_url(limits.host, port)

        serve(kb, token=read_token(limits.token_file), ready=ready, shutdown=shutdown)
        shutdown.finish()


def _write_url(host: str, port: int) -> None:
    name = f"[{host}]" if ":" in host else host
    output.write(f"http://{name}:{port}/")
    output.note("press Ctrl-C to stop")
