"""Runs `kb` with its arguments, prints errors in one format, and returns the exit status."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from kb.cli import INTERRUPTED, is_interrupt, output
from kb.cli.arguments import parse_search
from kb.cli.invocation import Invocation
from kb.errors import KbError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import click

USAGE = 2
_WORDS = ("query", "text")  # arguments that take free text
COMPLETE = "_KB_COMPLETE"  # set by the completion scripts


def run(args: Sequence[str], invocation: Invocation | None = None) -> int:
    """Run `kb` with `args` and return its exit status. Every error is printed, none is raised. An
    `invocation` is given when the command runs on behalf of another process."""
    if invocation is None:
        invocation = Invocation()
        output.configure_streams()
    try:
        return _status(args, invocation)
    except KeyboardInterrupt:
        return _report_interrupt(invocation)
    except KbError as error:
        return _fail(error.code, error.message, error.hint, args, error.exit_status)
    except OSError as error:
        if error.filename is not None:
            message = f"{os.fsdecode(error.filename)}: {error.strerror}"
            return _fail(
                "file_error",
                message,
                "check that the path exists and that you have permission",
                args,
                USAGE,
            )
        return _cannot_write(error) if _is_about_stdout(error) else _bug(error, invocation, args)
    except Exception as error:  # noqa: BLE001  # the last resort: no traceback without -v
        return _other_error(error, invocation, args)


def _other_error(error: Exception, invocation: Invocation, args: Sequence[str]) -> int:
    """Report an error of click, an interrupt, or a bug."""
    if "click" in sys.modules:  # a search does not need click (see `kb.cli.arguments`)
        import click

        if isinstance(error, click.Abort):
            return _report_interrupt(invocation)
        if isinstance(error, click.ClickException):
            return _fail("usage", _message(error), _hint(error, args), args, USAGE)
    return _report_interrupt(invocation) if is_interrupt(error) else _bug(error, invocation, args)


def _report_interrupt(invocation: Invocation) -> int:
    newline = "\n" if output.is_terminal(sys.stderr) else ""  # after the terminal's ^C
    output.note(newline + invocation.interrupt_message)
    return INTERRUPTED


def _status(args: Sequence[str], invocation: Invocation) -> int:
    """Run the usual search, or else any command by click. Avoids `cli.main`, which handles broken
    pipes itself."""
    if COMPLETE not in os.environ:
        parameters = parse_search(args, invocation)
        if parameters is not None:
            from kb.cli.search_run import run_search

            run_search(invocation, **parameters)
            return 0
    import click

    from kb.cli.root import cli

    if COMPLETE in os.environ:
        cli.main(prog_name="kb")  # prints the completions and exits
    try:
        with cli.make_context("kb", list(args), obj=invocation) as context:
            status = cli.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    return status if isinstance(status, int) else 0


def _current_folder_exists() -> bool:
    try:
        os.getcwd()
    except OSError:
        return False
    return True


def _fail(code: str, message: str, hint: str, args: Sequence[str], status: int) -> int:
    if _wants_json(args):
        output.note_json({"code": code, "message": message, "hint": hint})
    else:
        output.error(message, hint)
    return status


def _wants_json(args: Sequence[str]) -> bool:
    """Whether --json is given. Reads the raw arguments, since parsing them may be what failed."""
    options = args[: args.index("--")] if "--" in args else args
    return "--json" in options or "--jsonl" in options


def _message(error: click.ClickException) -> str:
    """Return click's message in kb's style, with only the closest of the suggested options."""
    import click

    if not (isinstance(error, click.NoSuchOption) and error.possibilities):
        message = error.format_message()
    else:
        from difflib import get_close_matches

        (near,) = get_close_matches(error.option_name, error.possibilities, n=1, cutoff=0.0)
        message = f"{error.message} Did you mean {near!r}?"
    return message[:1].lower() + message[1:].removesuffix(".")


def _hint(error: click.ClickException, args: Sequence[str]) -> str:
    import click

    context = error.ctx if isinstance(error, click.UsageError) else None
    see = f"see: {context.command_path if context else 'kb'} --help"
    if context is None or not isinstance(error, click.NoSuchOption | click.BadOptionUsage):
        return see
    words = next((param for param in context.command.params if param.name in _WORDS), None)
    if words is None or words.nargs != -1:
        return see
    return f"to pass it as text: {_as_words(error.option_name, args)}; {see}"


def _as_words(option: str, args: Sequence[str]) -> str:
    """Return the command line with the option as text after `--`, placed as early as the other
    options allow."""
    from shlex import join

    words = list(args)
    index = next((i for i, arg in enumerate(words) if arg.startswith(option)), len(words))
    if not any(arg.startswith("-") for arg in words[:index]):
        index = 1  # after the command's name
    return join(["kb", *words[:index], "--", *words[index:]])


def _bug(error: Exception, invocation: Invocation, args: Sequence[str]) -> int:
    if not _current_folder_exists():  # relative paths fail in several ways
        message = "the current folder no longer exists"
        return _fail("file_error", message, "change to another folder", args, USAGE)
    if invocation.verbose:
        import traceback

        output.note("".join(traceback.format_exception(error)).rstrip())
    hint = "" if invocation.verbose else "please report this, with the traceback that -v prints"
    message = f"internal error: {type(error).__name__}: {error}"
    return _fail("internal_error", message, hint, args, USAGE)


# --- stdout that cannot be written ----------------------------------------------------------------


def _is_about_stdout(error: OSError) -> bool:
    """Whether the error is about stdout: errors about the store are `KbError`s, and errors about
    other files carry a file name."""
    return error.errno in (errno.EPIPE, errno.ENOSPC, errno.EIO)


def _cannot_write(error: OSError) -> int:
    """Report that stdout cannot be written, and return the exit status. A closed pipe (`kb search x
    | head -1`) is a success: the reader has what it needs."""
    _discard_stdout()
    if error.errno == errno.EPIPE:
        return 0
    output.error(f"cannot write the output: {error.strerror}", "")
    return USAGE


def _discard_stdout() -> None:
    """Point stdout to /dev/null, so that the flush at exit does not fail again."""
    with suppress(
        OSError, ValueError, AttributeError
    ):  # stdout has no file descriptor: nothing to flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
