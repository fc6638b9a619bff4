"""`kb serve`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import click

from kb.cli import log_handlers, output
from kb.cli.invocation import Session, pass_session
from kb.cli.options import Command, common_options, option
from kb.errors import MissingExtra
from kb.shutdown import Shutdown


@click.command("serve", cls=Command)
@option("--host", metavar="ADDRESS", help="Where to listen.  [default: 127.0.0.1]")
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
    help="A name that the server may be called by; may be repeated.",
)
@option(
    "--ingest-from",
    metavar="FOLDER",
    multiple=True,
    help="A folder that clients may have ingested; may be repeated.  [default: this one]",
)
@common_options()
@pass_session
def serve_command(
    session: Session,
    /,
    *,
    allow_hosts: tuple[str, ...],
    ingest_from: tuple[str, ...],
    **options: Any,
) -> None:
    """Answer over HTTP, and show a page to search with.

    Open the address that is printed in a browser, or send requests: /openapi.json tells which. What
    is put in gets its vectors while the server runs. Ctrl-C ends it when what is under way is
    answered, a second one at once.

    Only this machine can reach it, unless --host says otherwise; then a token is needed.

    \b
    Examples:
      kb serve
      kb serve --port 9000 --ingest-from ~/notes
      KB_SERVE_TOKEN=... kb serve --host 0.0.0.0 --allow-host kb.example.org
    """
    from kb.cli.socket_server import answering

    try:
        from kb.server.lifecycle import read_token, serve
    except ImportError as error:
        raise MissingExtra(
            f"kb serve needs {error.name}", "install it with: pip install 'kb-search[serve]'"
        ) from error
    given = options | {"allow_hosts": ",".join(allow_hosts), "ingest_from": ",".join(ingest_from)}
    overrides = {f"serve.{name}": value for name, value in given.items() if value not in (None, "")}
    session.interrupted = "stopped"
    with Shutdown() as shutdown, session.open(overrides) as kb, ExitStack() as stack:
        is_new = not kb.path.exists()
        log_handlers.start(kb.config, verbose=session.verbose, serving=True)
        limits = kb.config.serve

        def ready(port: int) -> None:
            stack.enter_context(answering(kb))
            if is_new:  # said now: it may run for long, and the name may be mistyped
                output.note(f"new store: {output.visible(str(kb.path))}")
            _say(limits.host, port)

        serve(kb, token=read_token(limits.token_file), ready=ready, shutdown=shutdown)
        shutdown.finish()


def _say(host: str, port: int) -> None:
    shown = f"[{host}]" if ":" in host else host
    output.say(f"http://{shown}:{port}/")
    output.note("Ctrl-C ends it")
