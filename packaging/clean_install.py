"""Install a wheel into clean environments, and try it: `clean_install.py WHEEL PYTHON...`.

For each Python, installs the wheel into a new virtual environment and runs the installed command:
it ingests some of the example library, finds passages by their words and by their meaning, and
opens one in an editor that records its arguments. The command has no network where the system can
take it away, and a warning that something in `kb` is deprecated is an error. Prints a row of a
table: how long the install took, and the size of what was installed, without and with bytecode.
Installing needs the network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

LIBRARY = Path(__file__).parents[1] / "examples" / "library"
MAX_MB = 330  # of the base install, without bytecode
SHARED = (
    "share/man/man1/kb.1",
    "share/bash-completion/completions/kb",
    "share/zsh/site-functions/_kb",
    "share/fish/vendor_completions.d/kb.fish",
)

_FOLDERS = ("code", "lessons", "notebooks", "papers")  # of the library; the base install reads them
_NOTE = "# Keys\n\nRotate the keys on the first Monday.\n"
# Python imports this module when it starts. The option -W cannot name a package and its modules.
_STRICT = """\
import warnings
for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
    warnings.filterwarnings("error", category=category, module=r"kb(\\.|$)")
"""
_HEAD = """\
| Python | installed in | size | bytecode |
|---|---|---|---|"""


class Try(NamedTuple):
    """A command, and what its output must contain."""

    command: tuple[str, ...]
    expected: str


TRIES = (
    Try(("--version",), "kb"),
    Try(("ingest", "notes", *_FOLDERS), " 0 skipped, 0 failed"),
    Try(("search", "-n", "1", "--mode", "lexical", "rotate Monday"), "notes/keys.md"),
    Try(("search", "-n", "1", "--mode", "vector", "how often do we change keys"), "notes/keys.md"),
    Try(("search", "-n", "1", "who made it worse by asking again"), "retry-storm.md"),
    Try(("search", "-n", "1", "--type", "pdf", "tension in the line"), "mooring-study.pdf#page="),
    Try(("ask", "when are the keys rotated"), "first Monday"),
    Try(("open", "notes/keys.md"), ""),
    Try(("doctor",), ""),
)


def main(wheel: str, pythons: Sequence[str]) -> int:
    """Try the wheel on each Python. Returns the exit status."""
    print(_HEAD, flush=True)
    failures = 0
    for python in pythons:
        with tempfile.TemporaryDirectory() as folder:
            failures += not _try(wheel, python, Path(folder))
    return int(failures > 0)


def _try(wheel: str, python: str, folder: Path) -> bool:
    environment = folder / "environment"
    executable = environment / "bin" / "python"
    _run(python, "-m", "venv", environment)
    before = _megabytes(environment)
    started = time.monotonic()
    _run(executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    seconds = time.monotonic() - started
    size, bytecode = (now - then for now, then in zip(_megabytes(environment), before, strict=True))
    problems = [f"not installed: {name}" for name in SHARED if not (environment / name).is_file()]
    if size > MAX_MB:
        problems.append(f"larger than {MAX_MB} MB")
    problems += [*_warnings_of_the_compiler(executable), *check(environment / "bin" / "kb", folder)]
    version = _run(executable, "-c", "import platform; print(platform.python_version())").strip()
    print(f"| {version} | {seconds:.0f} s | {size:.0f} MB | {bytecode:.0f} MB |")
    for problem in problems:
        print(f"{version}: {problem}", flush=True)
    return not problems


def check(kb: Path, folder: Path) -> list[str]:
    """Run the command `kb` in `folder`: ingest, search, ask, open. Returns what went wrong."""
    (folder / "notes").mkdir()
    (folder / "notes" / "keys.md").write_text(_NOTE)
    for name in _FOLDERS:
        shutil.copytree(LIBRARY / name, folder / name)
    editor = folder / "editor"
    editor.write_text(f'#!/bin/sh\necho "$@" > {folder}/opened\n')
    editor.chmod(0o755)
    (folder / "strict").mkdir()
    (folder / "strict" / "sitecustomize.py").write_text(_STRICT)
    variables = {
        "EDITOR": f"{editor} {{line}} {{file}}",
        "HOME": str(folder),
        "PATH": os.defpath,
        "PYTHONPATH": str(folder / "strict"),
    }
    for command, expected in TRIES:
        done = subprocess.run(
            [*_without_network(), str(kb), *command],
            cwd=folder,
            env=variables,
            capture_output=True,
            text=True,
        )
        if done.returncode or expected not in done.stdout:
            return [f"kb {' '.join(command)}: {done.stdout}{done.stderr}"]
    opened = (folder / "opened").read_text()
    if opened.split() != ["1", str(folder / "notes" / "keys.md")]:
        return [f"kb open: the editor was started with {opened}"]
    return []


def _warnings_of_the_compiler(python: Path) -> list[str]:
    """What the compiler of this Python warns of in the source of `kb`."""
    where = _run(python, "-c", "import kb; print(kb.__path__[0])").strip()
    command = [str(python), "-W", "error", "-m", "compileall", "-q", "-f", where]
    done = subprocess.run(command, capture_output=True, text=True)
    return [done.stdout] if done.returncode else []


def _without_network() -> list[str]:
    """The command that runs another one without a network; empty if the system has none."""
    command = ["unshare", "--user", "--map-root-user", "--net"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"]).returncode:
        return []
    return command


def _run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _megabytes(folder: Path) -> tuple[float, float]:
    """The sizes of the files in a folder, and of its bytecode."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    bytecode = sum(path.stat().st_size for path in files if path.suffix == ".pyc") / 1e6
    return sum(path.stat().st_size for path in files) / 1e6 - bytecode, bytecode


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
