"""Runs a module's tests against its mutants, one forked child for each.

The first pass is fast: one pytest session collects the tests, and a child forked from it for each
mutant executes the changed module in place of the loaded one and runs the tests up to the first
that fails. Names that other modules have imported from it are replaced there, but not values that
they have copied, so that a mutant may survive. Each survivor is therefore tested again in a second,
slower pass: in a child that imports kb again, with the changed module in its place.

Property tests draw the same examples every time and do not shrink. Needs `os.fork`: Linux, macOS.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from math import ceil, inf
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.mutants.operators import Mutant, mutants

ROOT = Path(__file__).resolve().parents[2]
_LEAST_CPU_S, _CPU_FACTOR = 3.0, 5.0  # of processor time, since machines are shared
_WALL_FACTOR = 20.0  # for a mutant that waits instead
_OWN = ("kb", "tests", "conftest")
_NO_LIMIT_S = 600.0
SURVIVED, TIMED_OUT = 0, -24  # exit statuses, the latter by SIGXCPU; any other: a test failed


@dataclass(frozen=True, slots=True)
class Target:
    """A module below `src/kb`, the tests that should notice its mutants, and its equivalent
    mutants: those that no test can tell from the original, as (before, after) with the reason."""

    module: str
    tests: tuple[str, ...]
    equivalent: dict[tuple[str, str], str] = field(default_factory=dict)
    # Slow tests, and tests that start other processes, which run without the mutant.
    without: str = ""

    @property
    def name(self) -> str:
        return "kb." + self.module.replace("/", ".")

    @property
    def path(self) -> Path:
        return ROOT / "src" / "kb" / f"{self.module}.py"


@dataclass(slots=True)
class Result:
    """The results of a module's mutants."""

    target: Target
    killed: int = 0
    timed_out: int = 0
    equivalent: int = 0
    survivors: list[Mutant] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def share(self) -> float:
        """The share of distinguishable mutants that a test noticed. A mutant that does not end
        counts as noticed."""
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
    distinct = [one for one in picked if (one.before, one.after) not in target.equivalent]
    result.equivalent = len(picked) - len(distinct)
    statuses = _run_session(target, [mutant.source for mutant in distinct])
    limit_s = baseline(target) if SURVIVED in statuses else 0.0
    for mutant, status in zip(distinct, statuses, strict=True):
        if status == SURVIVED:
            status = run_child(target, mutant.source, limit_s)
        if status == SURVIVED:
            result.survivors.append(mutant)
            on_survivor(mutant)
        elif status == TIMED_OUT:
            result.timed_out += 1
        else:
            result.killed += 1
    result.seconds = time.perf_counter() - began
    return result


def baseline(target: Target) -> float:
    """Run the tests unchanged, load what they needed, and return the time limit of a mutant."""
    source = target.path.read_text(encoding="utf-8")
    with tempfile.NamedTemporaryFile("r", suffix=".json") as report:
        if run_child(target, source, _NO_LIMIT_S, report=report.name) != SURVIVED:
            raise BaselineFailed(f"the tests of {target.module} fail: {' '.join(target.tests)}")
        _preload(json.load(report))
    before_s = _children_s()
    run_child(target, source, _NO_LIMIT_S)
    return _limit_s(before_s)


def _limit_s(before_s: float) -> float:
    """The processor time that a mutant may take, by what children have taken since `before_s`."""
    return max(_LEAST_CPU_S, _CPU_FACTOR * (_children_s() - before_s))


def _children_s() -> float:
    import resource  # not on Windows, where these tests are skipped

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _preload(names: Sequence[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            try:
                importlib.import_module(name)
            except ImportError:  # a module that another module created
                continue


# --- fast: a child of a session -------------------------------------------------------------------


def _run_session(target: Target, sources: Sequence[str]) -> list[int]:
    """The status of every source. All `SURVIVED`, for a second look, where the module cannot be
    replaced in a running session."""
    with tempfile.NamedTemporaryFile("r", suffix=".json") as report:
        session = _Session(target, sources, report.name)
        with _forked(lambda folder: _run_tests(target, folder, session)) as child:
            os.waitpid(child, 0)
        text = report.read()
    return list(json.loads(text)) if text else [SURVIVED] * len(sources)


class _Session:
    """A pytest plugin that forks where the tests would be run."""

    def __init__(self, target: Target, sources: Sequence[str], report: str) -> None:
        self._target = target
        self._sources = sources
        self._report = Path(report)

    def pytest_runtestloop(self, session: Any) -> bool:
        before_s = _children_s()
        unchanged = self._target.path.read_text(encoding="utf-8")
        if self._status(session, unchanged, _NO_LIMIT_S) != SURVIVED:
            return True
        limit_s = _limit_s(before_s)
        statuses = [self._status(session, source, limit_s) for source in self._sources]
        self._report.write_text(json.dumps(statuses), encoding="utf-8")
        return True

    def _status(self, session: Any, source: str, limit_s: float) -> int:
        def run_items(_: str) -> int:
            _replace(self._target, source)
            following = [*session.items[1:], None]
            for item, after in zip(session.items, following, strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                if session.testsfailed:
                    return 1
            return SURVIVED

        with _forked(run_items, limit_s) as child:
            return _wait(child, _WALL_FACTOR * limit_s)


def _replace(target: Target, source: str) -> None:
    """Execute the source as the module, and put what it defines wherever the old was imported."""
    module = sys.modules[target.name]
    before = dict(vars(module))
    exec(compile(source, str(target.path), "exec"), vars(module))
    after = {id(old): vars(module)[name] for name, old in before.items() if _is_own(old, target)}
    for other in [each for name, each in sys.modules.items() if name.split(".")[0] in _OWN]:
        for name, value in list(vars(other).items()):
            if id(value) in after:
                setattr(other, name, after[id(value)])
            elif other is not module and name in before and value is before[name]:
                setattr(other, name, vars(module)[name])


def _is_own(value: object, target: Target) -> bool:
    return getattr(value, "__module__", None) == target.name and hasattr(value, "__qualname__")


# --- careful: a child that imports everything again -----------------------------------------------


def run_child(target: Target, source: str, limit_s: float, report: str | None = None) -> int:
    """The status of the tests with the module's source replaced."""

    def run_tests(folder: str) -> int:
        for name in [name for name in sys.modules if name.split(".")[0] in _OWN]:
            del sys.modules[name]
        sys.meta_path.insert(0, _Replaced(target, source))
        status = _run_tests(target, folder)
        if report is not None:
            others = [name for name in sys.modules if name.split(".")[0] not in (*_OWN, "__main__")]
            Path(report).write_text(json.dumps(others), encoding="utf-8")
        return status

    with _forked(run_tests, limit_s) as child:
        return _wait(child, _WALL_FACTOR * limit_s)


# --- children -------------------------------------------------------------------------------------


@contextmanager
def _forked(work: Callable[[str], int], limit_s: float = inf) -> Iterator[int]:
    """A child process that does `work` in a temporary folder and exits with its status. It is ended
    after `limit_s` seconds of processor time."""
    folder = tempfile.mkdtemp(prefix="kb-mutant-")
    child = os.fork()
    if child == 0:
        status = 70
        try:
            os.setpgid(0, 0)
            if limit_s < inf:
                import resource

                _, most = resource.getrlimit(resource.RLIMIT_CPU)
                resource.setrlimit(resource.RLIMIT_CPU, (ceil(limit_s), most))
            status = work(folder)
        finally:
            os._exit(status)
    try:
        yield child
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_tests(target: Target, folder: str, *plugins: object) -> int:
    quiet = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(quiet, descriptor)
    os.chdir(ROOT)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    import pytest

    options = ["-x", "-q", "--assert=plain", "--tb=no", "-p", "no:cacheprovider", "-p", "syrupy",
               "-p", "_hypothesis_pytestplugin", "--hypothesis-profile=mutants", "-m", "not slow",
               f"--basetemp={folder}/tests"]  # fmt: skip
    if target.without:
        options += ["-k", f"not ({target.without})"]
    return int(pytest.main([*options, *target.tests], plugins=[_PlainFirst(), *plugins]))


class _PlainFirst:
    """Runs property tests after the others, which take less time."""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: hasattr(getattr(item, "function", None), "hypothesis"))


def _wait(child: int, timeout_s: float) -> int:
    """The child's exit status; it is killed after `timeout_s`."""
    end = time.monotonic() + timeout_s
    pause_s = 0.001
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return TIMED_OUT
        time.sleep(pause_s)
        pause_s = min(0.02, 1.5 * pause_s)


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
