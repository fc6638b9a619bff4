"""A parser process, from its parent's side; `parser_worker` runs in it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from kb import __version__
from kb.errors import ParserUnavailable
from kb.ingest import parser_wire as wire

OnWait = Callable[[], None]

_WAIT_S = 0.25  # between two calls of `on_wait`
_START_S = 60.0
_END_S = 5.0
_READ_BYTES = 256 * 1024
# What programs need to start.
_VARIABLES = frozenset({
    "PATH", "HOME", "USERPROFILE", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP", "VIRTUAL_ENV",
    "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "SYSTEMROOT", "WINDIR",
    "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA",
    "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE",
})  # fmt: skip
_PREFIXES = ("LC_", "PYTHON", "XDG_", "OMP_", "OPENBLAS_", "MKL_", "COVERAGE_")
# The process gets the module search path of this one, including everything that was added to it. -P
# keeps Python from searching the current folder, which may be untrusted, before that.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[1:]; from kb.ingest.parser_worker import main; main()"
)
_ADVICE = "to see why, run: python -m kb.ingest.parser_worker < /dev/null"


class ParserProcess:
    """A process that parses one file at a time, for one thread at a time.

    It starts at once; `send` waits until it is ready. Both raise `ParserUnavailable` on failure.
    """

    def __init__(self) -> None:
        try:
            self._process = subprocess.Popen(
                [sys.executable or "", "-P", "-c", _PROGRAM, *map(os.path.abspath, sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                # Each further thread would take 64 MB of the memory limit for its own heap.
                env={**minimal_environment(), "MALLOC_ARENA_MAX": "1"},
                # Detached from the terminal: this process handles Ctrl-C and ends it.
                start_new_session=sys.platform != "win32",
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except (OSError, ValueError) as error:
            raise ParserUnavailable(f"cannot start the parser process: {error}", _ADVICE) from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        self._buffer = bytearray()
        self._ready = False
        self.idle_since = 0.0

    @property
    def pid(self) -> int:
        return self._process.pid

    def fits(self, memory_bytes: int) -> bool:
        """Whether the process is alive, and uses less than half of the memory that the next file
        may use."""
        if self._process.poll() is not None:
            return False
        return not self._ready or 2 * _memory_bytes(self.pid) <= memory_bytes

    def send(self, request: wire.Message, data: bytes, on_wait: OnWait) -> None:
        """Wait until the process is ready, then send a request and the bytes of its file."""
        if not self._ready:
            self._start(on_wait)
        with suppress(OSError):  # the process has ended; `receive` will report it
            head = wire.encode(request)
            # A short file is sent in one write, so that the process wakes up once.
            for part in (head + data,) if len(data) < _READ_BYTES else (head, data):
                rest = memoryview(part)
                while rest:
                    rest = rest[self._in.write(rest) :]

    def _start(self, on_wait: OnWait) -> None:
        started = time.monotonic()

        def tick() -> None:
            if time.monotonic() - started > _START_S:
                raise ParserUnavailable("the parser process does not respond", _ADVICE)
            on_wait()

        body = self.receive(tick)
        if body is None:
            status = describe_exit(self.wait())
            raise ParserUnavailable(f"the parser process did not start: {status}", _ADVICE)
        if (version := wire.decode(body).get("version")) != __version__:
            raise ParserUnavailable(
                f"kb {version} is installed, but this process runs kb {__version__}", "restart kb"
            )
        self._ready = True

    def receive(self, on_wait: OnWait) -> bytes | None:
        """Return the next message, undecoded, or None if the process has ended. `on_wait` is called
        a few times a second until the message arrives."""
        head = self._read(wire.SIZE.size, on_wait)
        if head is None:
            return None
        (size,) = wire.SIZE.unpack(head)
        if size > wire.FRAME_BYTES:
            raise wire.MalformedMessage(f"a message of {size:,} bytes is too long")
        return self._read(size, on_wait)

    def _read(self, size: int, on_wait: OnWait) -> bytes | None:
        while len(self._buffer) < size:
            while not _is_readable(self._out.fileno()):
                on_wait()
            data = os.read(self._out.fileno(), _READ_BYTES)
            if not data:
                return None
            self._buffer += data
        message = bytes(self._buffer[:size])
        del self._buffer[:size]
        return message

    def wait(self) -> int:
        """Wait for a process that has closed its output, and return its exit status."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        return self.kill()

    def kill(self) -> int:
        """Kill the process and return its exit status, or the negative number of the signal."""
        status = self.interrupt()
        self._close()
        return status

    def interrupt(self) -> int:
        """Kill the process while another thread waits in `receive`, which then returns."""
        self._process.kill()
        return self._process.wait()

    def forget(self) -> None:
        """Close this side only: this process is a fork of the one that uses the parser process."""
        self._process.returncode = 0
        self._close()

    def _close(self) -> None:
        with suppress(OSError):
            self._in.close()
        self._out.close()


def minimal_environment() -> dict[str, str]:
    """The environment of a process that reads untrusted files: no keys, passwords or addresses."""
    return {
        key: value
        for key, value in os.environ.items()
        if key.upper() in _VARIABLES or key.startswith(_PREFIXES)
    }


def describe_exit(status: int) -> str:
    """Describe how a process ended: `exit status 1`, `SIGSEGV`."""
    if status >= 0:
        return f"exit status {status}"
    import signal

    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def _memory_bytes(pid: int) -> int:
    """The memory that `limit_memory` limits, or 0 where the system does not show it."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


if sys.platform == "win32":
    import _winapi
    import msvcrt

    def _is_readable(descriptor: int) -> bool:
        """Wait briefly; return whether there is data or the stream has ended. Windows can only poll
        a pipe."""
        handle = msvcrt.get_osfhandle(descriptor)
        until = time.monotonic() + _WAIT_S
        try:
            while not _winapi.PeekNamedPipe(handle, 0)[0]:
                if time.monotonic() > until:
                    return False
                time.sleep(0.001)
        except BrokenPipeError:
            pass
        return True

else:
    import select

    def _is_readable(descriptor: int) -> bool:
        """Wait a moment for data or the end of the stream."""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(_WAIT_S * 1000))
