"""`kb search` through a running `kb serve` or `kb watch` of the same store, where there is one.

Most of the time of a search by meaning is that of loading: Python's modules, a model, the vectors.
A process that runs already has all that. So before anything else is imported, the arguments are
sent to the socket beside the store, and what comes back is what the command would have printed.
Whatever is odd about the socket, its owner, its version or its answer, `ask` gives None: the
command then does the work itself, as it does where nobody listens.

Imports next to nothing: of `socket` only its core, since what is above it (lists of every constant,
as enums) takes a third of the time that all of this does. The other side is `kb.cli.socket_server`.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper  # which Python has loaded already

PROTOCOL = 1
SUFFIX = ".sock"
CONNECT_S, ANSWER_S = 0.5, 10.0
_ALONE = ("-", "-h", "--help", "-v", "-vv", "--verbose")  # they are about this very process
_PLACES = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")
_OWN = ("KB_STORE", "KB_SERVE_TOKEN")  # said otherwise, or of no concern


def ask(args: list[str]) -> int | None:
    """The exit status, when everything is printed; None: do it yourself."""
    if args[:1] != ["search"] or any(arg in _ALONE for arg in args) or os.name != "posix":
        return None
    if "_KB_COMPLETE" in os.environ or sys.stdout is None or sys.stderr is None:
        return None
    try:
        rest, named = without_store(args)
        store = os.path.realpath(store_file(named))
        if not is_ours(store + SUFFIX):
            return None
        answer = _exchange(store + SUFFIX, _request(rest, store))
        return None if answer is None else _print(answer)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n" if sys.stderr.isatty() else "interrupted\n")
        return 130


# --- which store ----------------------------------------------------------------------------------


def without_store(args: list[str]) -> tuple[list[str], str | None]:
    """The arguments without `--store`, and what it said last."""
    rest: list[str] = []
    named = None
    at = 0
    while at < len(args):
        arg = args[at]
        if arg == "--":
            return rest + args[at:], named
        if arg == "--store" and at + 1 < len(args):
            named, at = args[at + 1], at + 1
        elif arg.startswith("--store="):
            named = arg[len("--store=") :]
        else:
            rest.append(arg)
        at += 1
    return rest, named


def store_file(given: str | None) -> str:
    """As `kb.config.store_path` has it, whose imports take longer than all of this."""
    named = given if given is not None else os.environ.get("KB_STORE")
    if named:
        return _inside(os.path.abspath(os.path.expanduser(named)))
    here = os.getcwd()
    while True:
        if os.path.isdir(os.path.join(here, ".kb")):
            return os.path.join(here, ".kb", "kb.sqlite")
        if here == os.path.dirname(here):
            break
        here = os.path.dirname(here)
    if sys.platform != "linux":
        raise OSError("the user's folder is for platformdirs to say")
    data = os.environ.get("XDG_DATA_HOME", "")
    folder = data if data.strip() else os.path.expanduser("~/.local/share")
    return os.path.join(folder, "kb", "kb.sqlite")


def _inside(path: str) -> str:
    if os.path.isfile(path) or path.endswith((".sqlite", ".sqlite3", ".db")):
        return path
    if os.path.basename(path) != ".kb" and os.path.isdir(os.path.join(path, ".kb")):
        return os.path.join(path, ".kb", "kb.sqlite")
    return os.path.join(path, "kb.sqlite")


# --- asking ---------------------------------------------------------------------------------------


def is_ours(path: str) -> bool:
    """Whether a socket is there, and is this user's."""
    import stat

    try:
        info = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISSOCK(info.st_mode) and info.st_uid == os.getuid()


def peer_uid(connection: object) -> int | None:
    """Who is at the other end; None where the system does not tell."""
    import _socket
    import struct

    assert isinstance(connection, _socket.socket)
    if hasattr(_socket, "SO_PEERCRED"):
        told = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", told)[1])
    if sys.platform == "darwin":
        told = connection.getsockopt(0, 1, 76)  # LOCAL_PEERCRED: a version, then the user
        return int(struct.unpack("2I", told[:8])[1])
    return None


def settings_of(environment: dict[str, str]) -> dict[str, str]:
    """The variables that settings depend on."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name in _PLACES or (name.startswith("KB_") and name not in _OWN)
    }


def _request(args: list[str], store: str) -> dict[str, object]:
    from kb import __version__

    return {
        "protocol": PROTOCOL,
        "version": __version__,
        "prefix": sys.prefix,
        "store": store,
        "settings": settings_of(dict(os.environ)),
        "args": args,
        "out": _sheet(sys.stdout),
        "err": _sheet(sys.stderr),
    }


def _sheet(stream: object) -> dict[str, object]:
    """What `page` would find out about the stream."""
    terminal = bool(stream.isatty())  # type: ignore[attr-defined]  # a text stream
    if os.environ.get("NO_COLOR"):
        colour = False
    else:
        forced = bool(os.environ.get("FORCE_COLOR"))
        colour = forced or (terminal and os.environ.get("TERM") != "dumb")
    encoding = getattr(stream, "encoding", None) or "ascii"
    return {"terminal": terminal, "colour": colour, "columns": _columns(), "encoding": encoding}


def _columns() -> int:
    """As `shutil.get_terminal_size` has it."""
    try:
        columns = int(os.environ.get("COLUMNS", "0"))
    except ValueError:
        columns = 0
    if columns > 0:
        return columns
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return 80


def _exchange(path: str, request: dict[str, object]) -> dict[str, object] | None:
    import _socket
    import json

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(CONNECT_S)
        connection.connect(path)
        if peer_uid(connection) != os.getuid():
            return None
        connection.settimeout(ANSWER_S)
        connection.sendall(json.dumps(request).encode())
        connection.shutdown(_socket.SHUT_WR)
        parts = []
        while part := connection.recv(1 << 16):
            parts.append(part)
    finally:
        connection.close()
    answer = json.loads(b"".join(parts))
    return answer if answer["answered"] is True else None


def _print(answer: dict[str, object]) -> int:
    status, out, err = answer["status"], answer["out"], answer["err"]
    if not (isinstance(status, int) and isinstance(out, str) and isinstance(err, str)):
        raise TypeError
    _write(sys.stdout, out)
    try:
        _write(sys.stderr, err)
    except OSError:  # then it is said to nobody, and what was printed is not printed again
        return 1
    return status


def _write(stream: object, text: str) -> None:
    assert isinstance(stream, TextIOWrapper)
    stream.reconfigure(errors="backslashreplace")
    stream.write(text)
    stream.flush()
