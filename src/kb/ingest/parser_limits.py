"""Limits on the parsing of one file, and how a parser process enforces them.

The waiting process checks the elapsed time and the length of the result (see `parser_pool`). Memory
and CPU time are limited inside the parser process:

    Linux     by the kernel: an allocation beyond the limit fails
    Windows   by a job object, in the same way
    macOS     by a thread that checks the memory and exits, since the system has no such limit

The process also exits when its parent exits, because the parent's end of the pipe between them is
then closed.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.config import IngestConfig

OUT_OF_MEMORY = 86  # exit status of a parser process that reached its memory limit
OUT_OF_TIME = -getattr(signal, "SIGPROF", 1000)  # exit status of one that the system stopped

_MB = 1024 * 1024
_OUTPUT_BYTES = 256 * _MB
_OCR_BYTES = 1536 * _MB
_OCR_S = 1200.0
_SPARE_CPU_S = 5.0
_CHECK_INTERVAL_S = 0.05
_PARENT_INTERVAL_S = 1.0  # Windows can only poll a pipe


@dataclass(frozen=True, slots=True)
class Limits:
    """The resources that one file may use. `output_bytes` limits the result, mostly text."""

    memory_bytes: int
    timeout_s: float
    output_bytes: int = _OUTPUT_BYTES

    @classmethod
    def from_config(cls, ingest: IngestConfig) -> Limits:
        """The configured limits, which apply to a small file."""
        return cls(ingest.parse_memory_bytes, ingest.parse_timeout_s)

    def for_file(self, size_bytes: int) -> Limits:
        """The limits for a file of this size: each megabyte adds half of the time limit, and memory
        for several copies of its text."""
        return replace(
            self,
            memory_bytes=self.memory_bytes + 16 * size_bytes,
            timeout_s=self.timeout_s * (1 + size_bytes / (2 * _MB)),
            output_bytes=self.output_bytes + 4 * size_bytes,
        )

    def for_ocr(self) -> Limits:
        """The limits of a parser that may read pictures: recognition takes a gigabyte, and seconds
        for every page."""
        return replace(
            self,
            memory_bytes=self.memory_bytes + _OCR_BYTES,
            timeout_s=self.timeout_s + _OCR_S,
        )

    @property
    def cpu_s(self) -> float:
        """The CPU time after which the system ends a parser process, even if it is in a library
        that lets no other thread run. Longer than `timeout_s`, which the parent process checks."""
        return self.timeout_s + _SPARE_CPU_S


def limit_cpu(seconds: float) -> None:
    """Have the system end this process after this much more CPU time; 0 removes the limit."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)


def exit_with_parent(pipe: int) -> None:
    """Have this process end as soon as the other end of `pipe`, which only its parent holds, is
    closed. Does not use `PR_SET_PDEATHSIG`: Linux sends that signal when the thread that started
    the process ends, even if the parent is still running."""
    import _thread  # `threading` takes longer to import

    _thread.start_new_thread(_wait_for_close, (pipe,))


def limit_memory(size_bytes: int) -> None:
    """Limit the total memory of this process."""
    if sys.platform == "linux":
        import resource

        _, hard_limit = resource.getrlimit(resource.RLIMIT_AS)
        size_bytes = size_bytes if hard_limit < 0 else min(size_bytes, hard_limit)
        resource.setrlimit(resource.RLIMIT_AS, (size_bytes, hard_limit))
    elif sys.platform == "win32":
        _limit_job(size_bytes)
    else:
        _start_watching(size_bytes)


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    class _BasicLimits(ctypes.Structure):
        _fields_ = (
            ("PerProcessUserTimeLimit", ctypes.c_int64),
            ("PerJobUserTimeLimit", ctypes.c_int64),
            ("LimitFlags", wintypes.DWORD),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", wintypes.DWORD),
            ("SchedulingClass", wintypes.DWORD),
        )

    class _ExtendedLimits(ctypes.Structure):
        _fields_ = (
            ("BasicLimitInformation", _BasicLimits),
            ("IoInfo", ctypes.c_uint64 * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        )

    _EXTENDED_LIMITS, _LIMIT_PROCESS_MEMORY = 9, 0x100
    _job: int | None = None

    def _wait_for_close(pipe: int) -> None:
        import _winapi
        import msvcrt
        import time

        handle = msvcrt.get_osfhandle(pipe)
        try:
            while True:
                _winapi.PeekNamedPipe(handle, 0)
                time.sleep(_PARENT_INTERVAL_S)
        except OSError:
            os._exit(0)

    def _limit_job(size_bytes: int) -> None:
        """Assign this process to a job object, whose limit can be changed later."""
        global _job
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        kernel.CreateJobObjectW.restype = wintypes.HANDLE
        kernel.GetCurrentProcess.restype = wintypes.HANDLE
        kernel.AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
        kernel.SetInformationJobObject.argtypes = (
            wintypes.HANDLE, ctypes.c_int, ctypes.c_void_p, wintypes.DWORD,
        )  # fmt: skip
        if _job is None:
            _job = kernel.CreateJobObjectW(None, None)
            if not kernel.AssignProcessToJobObject(_job, kernel.GetCurrentProcess()):
                raise ctypes.WinError(ctypes.get_last_error())
        limits = _ExtendedLimits()
        limits.BasicLimitInformation.LimitFlags = _LIMIT_PROCESS_MEMORY
        limits.ProcessMemoryLimit = size_bytes
        if not kernel.SetInformationJobObject(
            _job, _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits)
        ):
            raise ctypes.WinError(ctypes.get_last_error())

else:
    _memory_limit_bytes = 0

    def _wait_for_close(pipe: int) -> None:
        import select

        poll = select.poll()
        poll.register(pipe, 0)  # a closed pipe is reported anyway
        poll.poll()
        os._exit(0)

    def _start_watching(size_bytes: int) -> None:
        """Exit once this process uses more than `size_bytes` of memory. The thread runs only when
        the parser lets it, so a single huge allocation is noticed late."""
        global _memory_limit_bytes
        first, _memory_limit_bytes = not _memory_limit_bytes, size_bytes
        if first:
            import threading

            threading.Thread(target=_watch_memory, name="kb-memory", daemon=True).start()

    def _watch_memory() -> None:
        import resource
        import time

        unit = 1 if sys.platform == "darwin" else 1024
        while resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit <= _memory_limit_bytes:
            time.sleep(_CHECK_INTERVAL_S)
        os._exit(OUT_OF_MEMORY)
