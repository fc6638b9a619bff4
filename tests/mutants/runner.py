"""Runs a module's tests against its mutants, one forked child for each.

The parent has everything loaded that a test needs except kb and the tests, so a child starts at
once, imports kb with the mutated module in its place, and stops at the first test that fails.
Property tests draw the same examples every time and do not shrink. Needs `os.fork`: Linux, macOS.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.mutants.operators import Mutant, mutants

ROOT = Path(__file__).resolve().parents[2]
_LEAST_TIMEOUT_S, _TIMEOUT_FACTOR = 20.0, 5.0
_OWN = ("kb", "tests", "conftest", "__main__")


@dataclass(frozen=True, slots=True)
class Target:
    """A module below `src/kb`, the tests that should notice its mutants, and its equivalent
    mutants: those that no test can tell from the original, as (before, after) with the reason."""

    module: str
    tests: tuple[str, ...]
    equivalent: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "kb." + self.module.replace("/", ".")

    @property
    def path(self) -> Path:
        return ROOT / "src" / "kb" / f"{self.module}.py"


@dataclass(slots=True)
class Result:
    """What became of a module's mutants."""

    target: Target
    killed: int = 0
    timed_out: int = 0
    equivalent: int = 0
    survivors: list[Mutant] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def share(self) -> float:
        """Of the mutants that can be told from the original, those that a test noticed. One that
        does not come to an end is noticed."""
        noticed = self.killed + self.timed_out
        return noticed / max(1, noticed + len(self.survivors))


class BaselineFailed(Exception):
    """The tests fail without any mutation, so they cannot tell anything about one."""


def chosen(target: Target, sample: int | None, seed: int) -> list[Mutant]:
    """The mutants of a module, or a seeded sample of them."""
    every = mutants(target.path.read_text(encoding="utf-8"))
    if sample is None or sample >= len(every):
        return every
    picked = random.Random(f"{seed} {target.module}").sample(range(len(every)), sample)
    return [every[at] for at in sorted(picked)]


def run(
    target: Target, picked: Sequence[Mutant], on_survivor: Callable[[Mutant], None] = lambda _: None
) -> Result:
    """Run the target's tests against every mutant in `picked`."""
    result = Result(target)
    began = time.perf_counter()
    timeout_s = baseline(target)
    for mutant in picked:
        if (mutant.before, mutant.after) in target.equivalent:
            result.equivalent += 1
            continue
        match run_child(target, mutant.source, timeout_s):
            case None:
                result.timed_out += 1
            case 0:
                result.survivors.append(mutant)
                on_survivor(mutant)
            case _:
                result.killed += 1
    result.seconds = time.perf_counter() - began
    return result


def baseline(target: Target) -> float:
    """Run the tests unchanged, load what they needed, and return the time limit of a mutant."""
    source = target.path.read_text(encoding="utf-8")
    with tempfile.NamedTemporaryFile("r", suffix=".json") as report:
        if run_child(target, source, 600.0, report=report.name) != 0:
            raise BaselineFailed(f"the tests of {target.module} fail: {' '.join(target.tests)}")
        _preload(json.load(report))
    began = time.perf_counter()
    run_child(target, source, 600.0)
    return max(_LEAST_TIMEOUT_S, _TIMEOUT_FACTOR * (time.perf_counter() - began))


def _preload(names: Sequence[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            try:
                importlib.import_module(name)
            except ImportError:  # a module that another one made
                continue


# --- the child ------------------------------------------------------------------------------------


def run_child(
    target: Target, source: str, timeout_s: float, report: str | None = None
) -> int | None:
    """The exit status of the tests with the module's source replaced; None after `timeout_s`."""
    folder = tempfile.mkdtemp(prefix="kb-mutant-")
    child = os.fork()
    if child == 0:
        status = 70
        try:
            os.setpgid(0, 0)
            status = _run_tests(target, source, folder, report)
        finally:
            os._exit(status)
    try:
        return _wait(child, timeout_s)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_tests(target: Target, source: str, folder: str, report: str | None) -> int:
    quiet = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(quiet, descriptor)
    os.chdir(ROOT)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.dont_write_bytecode = False
    sys.meta_path.insert(0, _Replaced(target, source))
    import pytest

    options = ["-x", "-q", "--assert=plain", "--no-header", "--tb=no", "-p", "no:cacheprovider",
               "-p", "syrupy", "-p", "_hypothesis_pytestplugin", "--hypothesis-profile=mutants",
               f"--basetemp={folder}/tests"]  # fmt: skip
    status = int(pytest.main([*options, "-m", "not slow", *target.tests], plugins=[_PlainFirst()]))
    if report is not None:
        others = [name for name in sys.modules if name.split(".")[0] not in _OWN]
        Path(report).write_text(json.dumps(others), encoding="utf-8")
    return status


class _PlainFirst:
    """Runs property tests after the others, which take less time."""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: hasattr(getattr(item, "function", None), "hypothesis"))


def _wait(child: int, timeout_s: float) -> int | None:
    descriptor = os.pidfd_open(child) if hasattr(os, "pidfd_open") else None
    end = time.monotonic() + timeout_s
    try:
        while True:
            if descriptor is not None:
                select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
            else:
                time.sleep(0.01)
            if (done := os.waitpid(child, os.WNOHANG))[0]:
                return os.waitstatus_to_exitcode(done[1])
            if time.monotonic() > end:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return None
    finally:
        if descriptor is not None:
            os.close(descriptor)


class _Replaced(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from the source given here."""

    def __init__(self, target: Target, source: str) -> None:
        self._target = target
        self._source = source

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name != self._target.name:
            return None
        return importlib.util.spec_from_file_location(name, self._target.path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._source, str(self._target.path), "exec"), module.__dict__)
