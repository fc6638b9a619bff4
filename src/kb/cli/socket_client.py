"""The client side of `kb search` through a running `kb serve` or `kb watch` of the same store.

A search by meaning spends most of its time loading: Python modules, a model, vectors. A running
process has loaded them already. So before it imports anything else, `kb search` sends its arguments
to the socket beside the store and prints the response. If anything about the socket, its owner, its
version or the response is unexpected, `forward` returns None, and the command runs the search in
its own process, as it does when no server is running.

Imports next to nothing: only the C core of `socket`, because its Python layer (every constant as an
enum) takes a third of the total time. The server side is `kb.cli.socket_server`.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper  # already loaded by Python

from kb.paths import find_store

PROTOCOL = 4
SUFFIX = ".sock"
CONNECT_S, ACKNOWLEDGE_S, ANSWER_S = 0.5, 1.0, 10.0
ACKNOWLEDGEMENT = b"\n"  # precedes the response, and is white space in JSON
_LOCAL_ARGS = ("-", "-h", "--help", "-v", "-vv", "--verbose")  # these apply to this process
_FOLDER_VARIABLES = (
    "HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME",
)  # fmt: skip
_NO_LINKS = ("", "dumb", "linux", "eterm")  # terminals that would show the address of a link
_IRRELEVANT_VARIABLES = ("KB_STORE", "KB_SERVE_TOKEN")


def forward(args: list[str]) -> int | None:
    """Run the search in a server and print its output. Return the exit status, or None if the
    command has to run in this process."""
    if args[:1] != ["search"] or any(arg in _LOCAL_ARGS for arg in args) or os.name != "posix":
        return None
    if "_KB_COMPLETE" in os.environ or sys.stdout is None or sys.stderr is None:
        return None
    try:
        rest, location = split_store_option(args)
        found = find_store(location)
        store = os.path.realpath(found)
        is_link = os.path.islink(found) or os.path.islink(os.path.dirname(found))
        # Leave it to this process to check where a link leads.
        if is_link or not is_own_socket(store + SUFFIX):
            return None
        response = _exchange(store + SUFFIX, _request(rest, store))
        return None if response is None else _print(response)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n" if sys.stderr.isatty() else "interrupted\n")
        return 130


def split_store_option(args: list[str]) -> tuple[list[str], str | None]:
    """Return the arguments without `--store`, and the last value of `--store`."""
    rest: list[str] = []
    store = None
    index = 0
    while index < len(args):
        arg = args[index]
        if arg == "--":
            return rest + args[index:], store
        if arg == "--store" and index + 1 < len(args):
            store, index = args[index + 1], index + 1
        elif arg.startswith("--store="):
            store = arg[len("--store=") :]
        else:
            rest.append(arg)
        index += 1
    return rest, store


def is_own_socket(path: str) -> bool:
    """Whether `path` is a socket that belongs to this user."""
    import stat

    try:
        info = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISSOCK(info.st_mode) and info.st_uid == os.getuid()


def is_served(store: str) -> bool:
    """Whether a `kb serve` or `kb watch` of this user runs on the store, whose path is absolute."""
    if os.name != "posix" or not is_own_socket(store + SUFFIX):
        return False
    import _socket

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(CONNECT_S)
        connection.connect(store + SUFFIX)
        return peer_uid(connection) == os.getuid()
    except OSError:
        return False
    finally:
        connection.close()


def peer_uid(connection: object) -> int | None:
    """Return the user id of the other process; None if the system does not provide it."""
    import _socket
    import struct

    assert isinstance(connection, _socket.socket)
    if hasattr(_socket, "SO_PEERCRED"):
        raw = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", raw)[1])
    if sys.platform == "darwin":
        raw = connection.getsockopt(0, 1, 76)  # LOCAL_PEERCRED: a version, then the user
        return int(struct.unpack("2I", raw[:8])[1])
    return None


# --- request and response -------------------------------------------------------------------------


def settings_variables(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment variables that affect the settings."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name in _FOLDER_VARIABLES
        or (name.startswith("KB_") and name not in _IRRELEVANT_VARIABLES)
    }


def _request(args: list[str], store: str) -> dict[str, object]:
    from kb import __version__

    return {
        "protocol": PROTOCOL,
        "version": __version__,
        "prefix": sys.prefix,
        "store": store,
        "settings": settings_variables(dict(os.environ)),
        "args": args,
        "out": _capabilities(sys.stdout),
        "err": _capabilities(sys.stderr),
        "terminal": terminal_name(),
    }


def terminal_name() -> str:
    """Return the name of this process's terminal and the id of its session; empty without one."""
    for descriptor in range(3):
        try:
            return f"{os.ttyname(descriptor)} {os.getsid(0)}"
        except (AttributeError, OSError):  # Windows; not a terminal
            continue
    return ""


def shows_links(terminal: bool) -> bool:
    """Whether to write hyperlinks (OSC 8). Terminals that do not support them ignore them, except
    for the few in `_NO_LINKS`. NO_COLOR disables them."""
    kind = os.environ.get("TERM", "" if os.name == "posix" else "windows")
    plain = bool(os.environ.get("NO_COLOR")) or kind.split("-")[0] in _NO_LINKS
    return terminal and not plain


def _capabilities(stream: object) -> dict[str, object]:
    """Return what `kb.cli.output` would determine about the stream."""
    terminal = bool(stream.isatty())  # type: ignore[attr-defined]  # a text stream
    if os.environ.get("NO_COLOR"):
        color = False
    else:
        forced = bool(os.environ.get("FORCE_COLOR"))
        color = forced or (terminal and os.environ.get("TERM") != "dumb")
    encoding = getattr(stream, "encoding", None) or "ascii"
    return {
        "terminal": terminal,
        "color": color,
        "links": shows_links(terminal),
        "columns": _columns(),
        "encoding": encoding,
    }


def _columns() -> int:
    return _terminal_size("COLUMNS", 0, 80)


def _terminal_size(variable: str, dimension: int, default: int) -> int:
    """Return the terminal's width or height, as `shutil.get_terminal_size` does."""
    try:
        size = int(os.environ.get(variable, "0"))
    except ValueError:
        size = 0
    if size > 0:
        return size
    try:
        return os.get_terminal_size(sys.__stdout__.fileno())[dimension] or default  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return default


def _exchange(path: str, request: dict[str, object]) -> dict[str, object] | None:
    """Send the request and return the response; None if the server declined, or does not begin to
    respond soon: it is suspended or busy, and the search is faster in this process."""
    import _socket
    import json

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(CONNECT_S)
        connection.connect(path)
        if peer_uid(connection) != os.getuid():
            return None
        connection.settimeout(ACKNOWLEDGE_S)
        connection.sendall(json.dumps(request).encode())
        connection.shutdown(_socket.SHUT_WR)
        parts = [connection.recv(1)]
        connection.settimeout(ANSWER_S)
        while part := connection.recv(1 << 16):
            parts.append(part)
    finally:
        connection.close()
    response = json.loads(b"".join(parts))
    return response if response["answered"] is True else None


def _print(response: dict[str, object]) -> int:
    status, out, err = response["status"], response["out"], response["err"]
    if not (isinstance(status, int) and isinstance(out, str) and isinstance(err, str)):
        raise TypeError
    if not (response["paged"] is True and sys.stdout.isatty() and _page(out)):
        _write(sys.stdout, out)
    try:
        _write(sys.stderr, err)
    except OSError:  # a retry in this process would print the hits twice
        return 1
    return status


def _page(text: str) -> bool:
    """Show `text` in the pager; False if it fits on the screen, or if there is no pager."""
    if text.count("\n") < _terminal_size("LINES", 1, 24):
        return False  # without loading the pager
    from kb.cli.pager import page

    return page(text.removesuffix("\n"), color=bool(_capabilities(sys.stdout)["color"]))


def _write(stream: object, text: str) -> None:
    assert isinstance(stream, TextIOWrapper)
    stream.reconfigure(errors="backslashreplace")
    stream.write(text)
    stream.flush()
