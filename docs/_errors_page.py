"""The reference page of errors, from the tree in `kb.errors`. Used by reference.py."""

from __future__ import annotations

import re
from collections.abc import Iterator

from _markdown import code, page, sentence, table

from kb import errors

_TREE = re.compile(r"^ +([A-Z]\w+)(?: {2,}(\S.*))?$", re.MULTILINE)
_OF_THE_COMMAND_LINE = {
    "usage": "an option or argument that the command does not have",
    "file_error": "a file that cannot be read or written, other than one to ingest",
    "internal_error": "a bug in kb; please report it with the output of `-v`",
}
_EXITS = {
    "0": "success, also if nothing was found",
    "1": "done, but some files could not be read, or a folder was missing (`kb ingest`)",
    "2": "an error or wrong usage; nothing was done, or only what the message says",
    "130": "interrupted by Ctrl-C",
}


def errors_page() -> str:
    about = """
        Every error has a stable `code` for programs, a `message` about what happened, and a
        `hint` about what to do. The command line prints them to stderr; with `--json` or
        `--jsonl`, as [`error.v1`](shapes.md#errorv1). In Python they are subclasses of `kb.KbError`
        with these three attributes; the classes are in `kb.errors`.
    """
    rows = [
        [code(each.code), code(each.__name__), str(each.exit_status), str(each.http_status),
         sentence(meaning(each))]
        for each in every_error(errors.KbError)
    ]  # fmt: skip
    own = [[code(name), sentence(text)] for name, text in _OF_THE_COMMAND_LINE.items()]
    exits = [[code(status), sentence(text)] for status, text in _EXITS.items()]
    return page(
        "Errors",
        about,
        "## Codes",
        table(["code", "class", "exit", "HTTP", "meaning"], rows),
        "Three more codes come from the command line itself. Their exit code is 2.",
        table(["code", "meaning"], own),
        "## Exit codes",
        table(["exit code", "meaning"], exits),
    )


def every_error(kind: type[errors.KbError]) -> Iterator[type[errors.KbError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from every_error(below)


def meaning(kind: type[errors.KbError]) -> str:
    """The description in the error tree of `kb.errors`; for a base class, its subclasses."""
    tree = dict(_TREE.findall(errors.__doc__ or ""))
    if description := tree.get(kind.__name__):
        return str(description)
    members = [code(below.__name__) for below in kind.__subclasses__()]
    return f"base class of {', '.join(members)}" if members else ""
