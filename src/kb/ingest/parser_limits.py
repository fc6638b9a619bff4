"""How much a file may take to be parsed, and how a parser process holds itself to it.

The time by the clock and the length of the answer are watched by the process that waits for it (see
`parser_pool`). Memory and processor time are limited inside the parser process:

    Linux     by the kernel: an allocation beyond the limit fails
    Windows   by a job object, in the same way
    macOS     by a thread that looks at the process's memory and ends it; the system has no limit
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kb.config import IngestConfig

OUT_OF_MEMORY = 86  # the exit status of a process that has ended itself
OUT_OF_TIME = -getattr(signal, "SIGPROF", 1000)  # of one that the system has ended

_MB = 1024 * 1024
_OUTPUT_BYTES = 256 * _MB
_SPARE_CPU_S = 5.0
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Limits:
    """What one file may take. `output_bytes` is the length of the answer, which is mostly text."""

    memory_bytes: int
    timeout_s: float
    output_bytes: int = _OUTPUT_BYTES

    @classmethod
    def of(cls, ingest: IngestConfig) -> Limits:
        """The limits of a small file, as they are set."""
        return cls(ingest.parse_memory_bytes, ingest.parse_timeout_s)

    def for_file(self, size_bytes: int) -> Limits:
        """The limits of a file of this size: half of the time more for each megabyte, and memory
        for its text in several shapes."""
        return replace(
            self,
            memory_bytes=self.memory_bytes + 16 * size_bytes,
            timeout_s=self.timeout_s * (1 + size_bytes / (2 * _MB)),
            output_bytes=self.output_bytes + 4 * size_bytes,
        )

    @property
    def cpu_s(self) -> float:
        """What ends a parser process that nobody waits for any more, since its parent was killed.
        Longer than `timeout_s`, so that it is never the first to end one."""
        return self.timeout_s + _SPARE_CPU_S


def limit_cpu(seconds: float) -> None:
    """Have the system end this process after so much more processor time; 0: never."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)


def limit_memory(size_bytes: int) -> None:
    """Let this process have no more memory than this in all."""
    if sys.platform == "linux":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_AS)
        size_bytes = size_bytes if most < 0 else min(size_bytes, most)
        resource.setrlimit(resource.RLIMIT_AS, (size_bytes, most))
    elif sys.platform == "win32":
        _limit_job(size_bytes)
    else:
        _watch(size_bytes)


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

    def _limit_job(size_bytes: int) -> None:
        """Put this process into a job of its own, whose limit can be changed later."""
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
    _most_bytes = 0

    def _watch(size_bytes: int) -> None:
        """End this process once it has had more memory than this. A thread can look only when the
        parser lets it, so that a single huge allocation is noticed late."""
        global _most_bytes
        first, _most_bytes = not _most_bytes, size_bytes
        if first:
            import threading

            threading.Thread(target=_look, name="kb-memory", daemon=True).start()

    def _look() -> None:
        import resource
        import time

        unit = 1 if sys.platform == "darwin" else 1024
        while resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit <= _most_bytes:
            time.sleep(_LOOK_S)
        os._exit(OUT_OF_MEMORY)
