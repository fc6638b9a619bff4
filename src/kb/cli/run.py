"""One call of `kb`: from arguments to an exit status, and every error in the same words."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import click

from kb.cli import output
from kb.cli.invocation import Session
from kb.cli.root import cli
from kb.errors import KbError

INTERRUPTED = 130  # what a shell reports for a command that Ctrl-C ended
USAGE = 2
_WORDS = ("query", "text")  # arguments that are any words
COMPLETE = "_KB_COMPLETE"  # set by the scripts of `kb completion`


def run(args: Sequence[str], session: Session | None = None) -> int:
    """Run `kb` with `args`; the exit status. Never raises for what a user could bring about. With
    a `session`, on behalf of another process."""
    if session is None:
        session = Session()
        output.prepare()
    try:
        return _status(args, session)
    except (KeyboardInterrupt, click.Abort):
        below = "\n" if output.is_terminal(sys.stderr) else ""  # where the terminal shows ^C
        output.note(below + session.interrupted)
        return INTERRUPTED
    except KbError as error:
        return _fail(error.code, error.message, error.hint, args, error.exit_status)
    except click.ClickException as error:
        return _fail("usage", _message(error), _hint(error, args), args, USAGE)
    except OSError as error:
        if error.filename is not None:
            message = f"{os.fsdecode(error.filename)}: {error.strerror}"
            return _fail("file_error", message, "check the path and its permissions", args, USAGE)
        return _cannot_write(error) if _is_about_stdout(error) else _bug(error, session, args)
    except Exception as error:  # noqa: BLE001  # the last line of defence: no traceback by default
        return _bug(error, session, args)


def _status(args: Sequence[str], session: Session) -> int:
    """Not `cli.main`, which has an answer of its own to a reader that leaves."""
    if COMPLETE in os.environ:
        cli.main(prog_name="kb")  # answers the shell, and exits
    try:
        with cli.make_context("kb", list(args), obj=session) as context:
            status = cli.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    return status if isinstance(status, int) else 0


def _fail(code: str, message: str, hint: str, args: Sequence[str], status: int) -> int:
    if _wants_json(args):
        output.note_json({"code": code, "message": message, "hint": hint})
    else:
        output.error(message, hint)
    return status


def _wants_json(args: Sequence[str]) -> bool:
    """From the arguments themselves, since an error may be that they could not be parsed."""
    options = args[: args.index("--")] if "--" in args else args
    return "--json" in options or "--jsonl" in options


def _message(error: click.ClickException) -> str:
    """click names whatever is near an option that there is not; the nearest is what was meant."""
    if not (isinstance(error, click.NoSuchOption) and error.possibilities):
        return error.format_message()
    from difflib import get_close_matches

    (near,) = get_close_matches(error.option_name, error.possibilities, n=1, cutoff=0.0)
    return f"{error.message} Did you mean {near!r}?"


def _hint(error: click.ClickException, args: Sequence[str]) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    see = f"see: {context.command_path if context else 'kb'} --help"
    if context is None or not isinstance(error, click.NoSuchOption | click.BadOptionUsage):
        return see
    words = next((one for one in context.command.params if one.name in _WORDS), None)
    if words is None or words.nargs != -1:
        return see
    return f"to take it as words: {_as_words(error.option_name, args)}; {see}"


def _as_words(option: str, args: Sequence[str]) -> str:
    """The command with the option as a word of the text: behind `--`, which stands as far to the
    front as other options let it."""
    from shlex import join

    given = list(args)
    at = next((at for at, arg in enumerate(given) if arg.startswith(option)), len(given))
    if not any(arg.startswith("-") for arg in given[:at]):
        at = 1  # behind the command's name
    return join(["kb", *given[:at], "--", *given[at:]])


def _bug(error: Exception, session: Session, args: Sequence[str]) -> int:
    if session.verbose:
        import traceback

        output.note("".join(traceback.format_exception(error)).rstrip())
    hint = "" if session.verbose else "run it again with -v for the traceback, and report it"
    message = f"internal error: {type(error).__name__}: {error}"
    return _fail("internal_error", message, hint, args, USAGE)


# --- a stdout that takes no more ------------------------------------------------------------------


def _is_about_stdout(error: OSError) -> bool:
    """The store's own arrive as KbError, and those about other files with a file name."""
    return error.errno in (errno.EPIPE, errno.ENOSPC, errno.EIO)


def _cannot_write(error: OSError) -> int:
    """A reader that left (`kb search x | head -1`) has what it wanted: that is no failure."""
    _discard_stdout()
    if error.errno == errno.EPIPE:
        return 0
    output.error(f"cannot write the output: {error.strerror}", "")
    return USAGE


def _discard_stdout() -> None:
    """Python writes what is left in its buffer when it exits, and must not fail again then."""
    with suppress(OSError, ValueError, AttributeError):  # no real stdout: nothing to write either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
