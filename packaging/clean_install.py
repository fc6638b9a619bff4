"""Install a wheel into clean environments, and try it: `clean_install.py WHEEL PYTHON...`.

For each Python, prints how long the install took, the size of what was installed with and without
bytecode, and runs the installed command: it ingests a note, finds it, opens it in an editor that
records its arguments, and shows where the manual page and the completions are. Needs the network.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

MAX_MB = 330  # of the base install, without bytecode
_NOTE = "# Keys\n\nRotate the keys on the first Monday.\n"
SHARED = (
    "share/man/man1/kb.1",
    "share/bash-completion/completions/kb",
    "share/zsh/site-functions/_kb",
    "share/fish/vendor_completions.d/kb.fish",
)


def main(wheel: str, pythons: Sequence[str]) -> int:
    """Try the wheel on each Python. Returns the exit status."""
    failures = 0
    for python in pythons:
        with tempfile.TemporaryDirectory() as folder:
            failures += not _try(wheel, python, Path(folder))
    return int(failures > 0)


def _try(wheel: str, python: str, folder: Path) -> bool:
    environment = folder / "environment"
    _run(python, "-m", "venv", environment)
    before = _megabytes(environment)
    started = time.monotonic()
    _run(environment / "bin" / "python", "-m", "pip", "install", "--quiet", wheel)
    seconds = time.monotonic() - started
    size, bytecode = (now - then for now, then in zip(_megabytes(environment), before, strict=True))
    version = _run(environment / "bin" / "python", "--version").strip()
    print(f"{version}: {seconds:.0f} s, {size:.0f} MB and {bytecode:.0f} MB of bytecode")
    missing = [name for name in SHARED if not (environment / name).is_file()]
    if missing:
        print(f"{version}: not installed: {', '.join(missing)}")
    return check(environment / "bin" / "kb", folder) and not missing and size <= MAX_MB


def check(kb: Path, folder: Path) -> bool:
    """Ingest, find and open a note with the command `kb`, in `folder`."""
    (folder / "notes").mkdir()
    (folder / "notes" / "keys.md").write_text(_NOTE)
    editor = folder / "editor"
    editor.write_text(f'#!/bin/sh\necho "$@" > {folder}/opened\n')
    editor.chmod(0o755)
    variables = {"EDITOR": f"{editor} {{line}} {{file}}", "HOME": str(folder), "PATH": os.defpath}
    for command in (["ingest", "notes"], ["search", "when are keys rotated"], ["open", "keys.md"]):
        done = subprocess.run([kb, *command], cwd=folder, env=variables, capture_output=True)
        if done.returncode:
            print(f"kb {' '.join(command)}: {done.stderr.decode()}")
            return False
    return (folder / "opened").read_text().split() == ["1", str(folder / "notes" / "keys.md")]


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
