"""The command line.

    socket_client   runs `kb search` through a running server, before anything is imported
    socket_server   the other end, in `kb serve` and `kb watch`
    run             one invocation: streams, errors, exit status
    root            the `kb` command, which imports subcommands on demand
    invocation      the values of the options that every command takes
    options         those options, the filters, and help with headings
    query_command   commands whose arguments are a query, including words that look like options
    output          text on stdout and stderr: color, width, JSON
    hit_view        hits and explanations as text
    compare_view    a comparison as text
    log_handlers    logging to stderr and to a file
    progress        progress bars and lines
    search          `kb search` and `kb similar`
    compare         `kb compare`
    ingest          `kb ingest` and `kb attach`
    notes           `kb add`
    documents       `kb list`, `rm`, `tag` and `gc`
    show            `kb get` and `kb status`
    maintenance     `kb doctor`, `backup`, `export` and `import`
    embed           `kb embed`
    jobs            `kb jobs` and `kb reindex`
    models          `kb models` and `kb embed-text`
    model_download  `kb models pull` and `kb models remove`
    setup           `kb init`, `config` and `completion`
    evaluation      `kb eval`
    report_files    the files that `kb eval run` writes
    serve           `kb serve`
    watch           `kb watch`
    mcp             `kb mcp`

Commands turn arguments into calls of `KnowledgeBase`, and the results into text.
"""

from __future__ import annotations


def main() -> None:
    """Run the `kb` script."""
    import gc
    import sys

    # By default Python collects garbage after every 700 new objects. Loading a command creates
    # 20,000, all of them in use: collecting would take a twentieth of the time of a search.
    gc.set_threshold(50_000)
    status = None
    if sys.argv[1:2] == ["search"]:
        from kb.cli.socket_client import forward

        status = forward(sys.argv[1:])
    if status is None:
        from kb.cli.run import run

        status = run(sys.argv[1:])
    # Python collects once more at exit, a tenth of the time of a search; the process ends anyway.
    gc.freeze()
    sys.exit(status)
