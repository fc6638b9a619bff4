"""One parser process, seen from the process that has started it: see `parser_worker`."""

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
_SECRETS = ("KB_ENDPOINT_KEY", "KB_SERVE_TOKEN")
# The same modules as here are found there, whatever has been added to the path; -P keeps the
# current folder, which may be anybody's, from being searched before that.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[1:]; from kb.ingest.parser_worker import main; main()"
)
_ADVICE = "try: python -m kb.ingest.parser_worker < /dev/null; no file is parsed without it"


class ParserProcess:
    """A process that parses one file at a time, for one thread at a time. It is started at once,
    and waited for when it gets its first file. Raises `ParserUnavailable` if that fails."""

    def __init__(self) -> None:
        try:
            self._process = subprocess.Popen(
                [sys.executable or "", "-P", "-c", _PROGRAM, *map(os.path.abspath, sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                env={key: value for key, value in os.environ.items() if key not in _SECRETS},
                # Apart from the terminal: Ctrl-C is for us, and we end it.
                start_new_session=sys.platform != "win32",
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except (OSError, ValueError) as error:
            raise ParserUnavailable(
                f"the process that parses files cannot be started: {error}", _ADVICE
            ) from error
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
        """Whether it can take another file: it is alive, and what is left in its memory of earlier
        files is less than half of what the next one may take."""
        if self._process.poll() is not None:
            return False
        return not self._ready or 2 * _memory_bytes(self.pid) <= memory_bytes

    def send(self, request: wire.Message, data: bytes, on_wait: OnWait) -> None:
        """Send a request with the bytes of its file, once the process is ready."""
        if not self._ready:
            self._start(on_wait)
        with suppress(OSError):  # it has ended: whoever waits for the answer learns how
            head = wire.encode(request)
            # What is short is sent at once, so that the process wakes up once.
            for part in (head + data,) if len(data) < _READ_BYTES else (head, data):
                left = memoryview(part)
                while left:
                    left = left[self._in.write(left) :]

    def _start(self, on_wait: OnWait) -> None:
        started = time.monotonic()

        def tick() -> None:
            if time.monotonic() - started > _START_S:
                raise ParserUnavailable("the process that parses files does not answer", _ADVICE)
            on_wait()

        body = self.receive(tick)
        if body is None:
            how = ending(self.end())
            raise ParserUnavailable(f"the process that parses files did not start: {how}", _ADVICE)
        if (version := wire.decode(body).get("version")) != __version__:
            raise ParserUnavailable(
                f"kb {version} is installed, but this is kb {__version__}", "start kb again"
            )
        self._ready = True

    def receive(self, on_wait: OnWait) -> bytes | None:
        """The next message, not decoded; None if the process has ended. `on_wait` is called a few
        times a second until it comes."""
        head = self._read(wire.SIZE.size, on_wait)
        if head is None:
            return None
        (size,) = wire.SIZE.unpack(head)
        if size > wire.FRAME_BYTES:
            raise wire.Malformed(f"a message of {size:,} bytes")
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

    def end(self) -> int:
        """Wait for a process that has closed its output; its exit status."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        return self.kill()

    def kill(self) -> int:
        """End it, whatever it does; its exit status, or minus the signal that has ended it."""
        status = self.interrupt()
        self._close()
        return status

    def interrupt(self) -> int:
        """End it while another thread waits for its answer, which then ends."""
        self._process.kill()
        return self._process.wait()

    def forget(self) -> None:
        """Let go of it without ending it: this process is a fork of the one that uses it."""
        self._process.returncode = 0
        self._close()

    def _close(self) -> None:
        with suppress(OSError):
            self._in.close()
        self._out.close()


def ending(status: int) -> str:
    """How a process has ended: `exit status 1`, `SIGSEGV`."""
    if status >= 0:
        return f"exit status {status}"
    import signal

    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def _memory_bytes(pid: int) -> int:
    """The memory that `limit_memory` counts, where the system shows it; else 0."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


if sys.platform == "win32":
    import _winapi
    import msvcrt

    def _is_readable(descriptor: int) -> bool:
        """Whether there are bytes to read, or the end; waits a little for them. A pipe cannot be
        waited for in Windows, only looked at."""
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
        """Whether there are bytes to read, or the end; waits a little for them."""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(_WAIT_S * 1000))
