"""The command line door.

    instant    `kb search` through a process that runs already; answering is its other side
    run        one call of `kb`: streams, errors, exit status
    root       the `kb` command, which loads the others when they are used
    session    what the options that every command takes have said
    options    those options, the filters, and help under headings
    page       text on stdout and stderr: colour, width, JSON
    hits       hits as a person reads them
    log_handlers   where logs go
    progress   how far a long command is
    search, ingest, notes, documents, reading, care, embed, models, setup, evaluation, serve, watch,
    mcp
               the commands

Thin: the commands turn arguments into calls of `KnowledgeBase`, and its answers into text.
"""

from __future__ import annotations


def main() -> None:
    """The `kb` script."""
    import gc
    import sys

    # Python looks for garbage after every 700 new objects. To load a command makes 20,000, of which
    # none is any: a twentieth of the time that a search takes.
    gc.set_threshold(50_000)
    status = None
    if sys.argv[1:2] == ["search"]:
        from kb.cli.socket_client import ask

        status = ask(sys.argv[1:])
    if status is None:
        from kb.cli.run import run

        status = run(sys.argv[1:])
    # On its way out Python looks for garbage among all objects there are, a tenth of the time that
    # a search takes. There is none worth finding: the process ends.
    gc.freeze()
    sys.exit(status)
