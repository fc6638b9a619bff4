"""The command line.

    socket_client   runs `kb search` through a running server, before anything is imported
    socket_server   its server side, in `kb serve` and `kb watch`
    run             one invocation: streams, errors, exit status
    arguments       the values of arguments, and a typical `kb search`, parsed without click
    root            the `kb` command, which imports subcommands on demand
    invocation      the values of the options that all commands share
    options         those options, the filters, and help with headings
    completions     the values that the shell offers for options and arguments
    query_command   commands whose arguments are a query, including words that look like options
    output          text on stdout and stderr: color, width, JSON
    hit_output      the response of a search: text, JSON, or paths
    last_hits       the hits of the last search in this terminal
    hit_number      a hit's number in place of its citation
    hit_view        hits and explanations as text
    compare_view    a comparison as text
    log_handlers    logging to stderr and to a file
    progress        progress bars and lines
    search          `kb search` and `kb similar`
    search_run      runs them, without click
    find            `kb find`: search as you type
    find_state      the state and the screen of `kb find`
    ask             `kb ask`
    answer_view     answers as text
    compare         `kb compare`
    map             `kb map`
    map_layout      where the map's points and names are drawn
    map_svg         the map as SVG
    map_png         the map as PNG
    ingest          `kb ingest` and `kb attach`
    notes           `kb add` and `kb edit`
    documents       `kb list`, `rm`, `tag` and `gc`
    show            `kb get` and `kb status`
    open            `kb open`
    pager           shows long text screen by screen
    path_hint       a hint for --path NAME, which must match a whole path
    programs        the command lines of editors and viewers
    maintenance     `kb doctor`, `backup`, `copy`, `export` and `import`
    embed           `kb embed`
    jobs            `kb jobs` and `kb reindex`
    models          `kb models` and `kb embed-text`
    model_download  `kb models pull` and `kb models remove`
    setup           `kb init`, `config` and `completion`
    config_edit     `kb config set` and `unset`
    evaluation      `kb eval`
    report_files    the files that `kb eval run` writes
    serve           `kb serve`
    watch           `kb watch`
    mcp             `kb mcp`
    token           `kb token`

Commands turn arguments into calls of `KnowledgeBase`, and the results into text.
"""

from __future__ import annotations

INTERRUPTED = 130  # the status that a shell reports after Ctrl-C


def main() -> None:
    """Run the `kb` script."""
    import sys

    try:
        status = _run(sys.argv[1:])
    except BaseException as error:
        if not is_interrupt(error):
            raise
        _note_interrupt()
        status = INTERRUPTED
    if status == INTERRUPTED:
        _exit(status)
    if _is_search(sys.argv[1:]):
        _exit(status)
    import gc

    # At exit, Python collects garbage once more, which takes a tenth of the time of a search.
    gc.freeze()
    sys.exit(status)


def is_interrupt(error: BaseException) -> bool:
    """Whether Ctrl-C caused the error. During an import, Python may wrap a `KeyboardInterrupt` in
    another exception."""
    chain: BaseException | None = error
    seen: set[int] = set()
    while chain is not None and id(chain) not in seen:
        if isinstance(chain, KeyboardInterrupt):
            return True
        seen.add(id(chain))
        chain = chain.__cause__ or chain.__context__
    return False


def _run(args: list[str]) -> int:
    import gc

    # By default, Python collects garbage after every 700 new objects. Loading a command creates
    # 20,000 objects, all of which stay in use: collecting would take a twentieth of the time of a
    # search.
    gc.set_threshold(50_000)
    if args[:1] == ["search"]:
        from kb.cli.socket_client import forward

        status = forward(args)
        if status is not None:
            return status
    from kb.cli.run import run

    return run(args)


def _note_interrupt() -> None:
    """Print the message of an interrupt that occurred before the command could handle it."""
    import sys

    try:
        newline = "\n" if sys.stderr.isatty() else ""  # after the terminal's ^C
        sys.stderr.write(f"{newline}interrupted\n")
    except (AttributeError, OSError, ValueError, KeyboardInterrupt):
        return  # there is no stderr, or a second Ctrl-C


def _is_search(args: list[str]) -> bool:
    """Whether the process has only searched. Its store is closed, so nothing is left to do at exit,
    and freeing each module would take a twentieth of the time."""
    return args[:1] == ["search"] or (args[:1] == ["--store"] and args[2:3] == ["search"])


def _exit(status: int) -> None:
    """Flush the output, run the exit handlers, and end the process.

    Without `os._exit`, Python ends an interrupted process by a signal if a `KeyboardInterrupt`
    passed through an `exec`, even though it was handled. Named tuples and dataclasses use `exec`.
    """
    import os
    import sys

    try:
        import atexit

        if status == INTERRUPTED:
            import signal

            signal.signal(signal.SIGINT, signal.SIG_IGN)
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except BaseException:  # noqa: BLE001  # a second Ctrl-C, or nobody reads the output anymore
        os._exit(status)
    os._exit(status)
