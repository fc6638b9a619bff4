"""Whatever happens to a folder, and whenever the watcher is killed, the store finally equals that
of a fresh ingest."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.watch.conftest import Process, contents, fresh

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

_WORDS = "buoy anchor tide gateway battery slot radio harbour jitter queue frame drift".split()
_NAMES = ("a", "b", "notes", "tide log", "ünïcode", "2026-03-01", "x#1")
_ENDS = (".md", ".txt", ".py", ".rst")
_SETTLED = "settled"
_FOLDERS = ("", "sub", "sub/deep", "other", "build")


class Chaos:
    """Random changes to a folder, always the same for the same seed."""

    def __init__(self, root: Path, away: Path, seed: int) -> None:
        self.root = root
        self.away = away  # removed files, which may be put back
        self.random = random.Random(seed)
        self.done: list[str] = []
        away.mkdir()

    def step(self) -> None:
        change = self.random.choice(
            [self.write] * 5
            + [self.append] * 3
            + [self.save_atomically] * 3
            + [self.rename] * 4
            + [self.move_over] * 1
            + [self.delete] * 2
            + [self.take_out] * 2
            + [self.put_back] * 3
            + [self.rename_folder] * 1
            + [self.copy] * 1
            + [self.ignore] * 1
            + [self.move_root_away_and_back] * 1
        )
        self.done.append(change.__name__)
        change()

    # --- changes ----------------------------------------------------------------------------------

    def write(self) -> None:
        path = self._new_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._text(), encoding="utf-8")

    def append(self) -> None:
        for path in self._some(1):
            with path.open("a", encoding="utf-8") as file:
                file.write(f"\n## {self._words(1)}\n\n{self._words(8)}\n")

    def save_atomically(self) -> None:
        for path in self._some(1):
            part = path.with_name(f".{path.name}.part")
            part.write_text(self._text(), encoding="utf-8")
            os.replace(part, path)

    def rename(self) -> None:
        for path in self._some(1):
            to = self._new_path().with_suffix(path.suffix)
            if not to.exists():
                to.parent.mkdir(parents=True, exist_ok=True)
                path.rename(to)

    def move_over(self) -> None:
        for one, other in zip(self._some(1), self._some(1), strict=False):
            os.replace(one, other)

    def copy(self) -> None:
        for path in self._some(1):
            to = self._new_path().with_suffix(path.suffix)
            to.parent.mkdir(parents=True, exist_ok=True)
            if to != path:
                shutil.copy2(path, to)

    def delete(self) -> None:
        for path in self._some(2):
            path.unlink(missing_ok=True)

    def take_out(self) -> None:
        """Remove a folder with its content."""
        for folder in self._some_folder():
            folder.rename(self.away / f"{len(self.done)}-{folder.name}")

    def put_back(self) -> None:
        out = sorted(self.away.iterdir())
        if out:
            taken = self.random.choice(out)
            to = self.root / taken.name.partition("-")[2]
            if not to.exists():
                taken.rename(to)

    def rename_folder(self) -> None:
        for folder in self._some_folder():
            to = self.root / f"moved-{self.random.randrange(3)}"
            if not to.exists():
                folder.rename(to)

    def ignore(self) -> None:
        file = self.root / ".kbignore"
        if file.exists():
            file.unlink()
        else:
            file.write_text("build/\n*.rst\n", encoding="utf-8")

    def move_root_away_and_back(self) -> None:
        aside = self.root.with_name("aside")
        self.root.rename(aside)
        aside.rename(self.root)

    # --- helpers ----------------------------------------------------------------------------------

    def _some(self, most: int) -> list[Path]:
        files = sorted(path for path in self.root.rglob("*")
                       if path.is_file() and not path.name.startswith(".")
                       and path.parent.name != _SETTLED)  # fmt: skip
        return self.random.sample(files, min(most, len(files)))

    def _some_folder(self) -> list[Path]:
        folders = sorted(path for path in self.root.iterdir()
                         if path.is_dir() and path.name != _SETTLED)  # fmt: skip
        return self.random.sample(folders, min(1, len(folders)))

    def _new_path(self) -> Path:
        name = self.random.choice(_NAMES) + self.random.choice(_ENDS)
        return self.root / self.random.choice(_FOLDERS) / name

    def _words(self, count: int) -> str:
        return " ".join(self.random.choices(_WORDS, k=count))

    def _text(self) -> str:
        parts = [f"# {self._words(2)}"]
        for _ in range(self.random.randrange(1, 4)):
            parts += [f"## {self._words(1)}", self._words(self.random.randrange(3, 30))]
        return "\n\n".join(parts) + "\n"


def settle(process: Process, root: Path, number: int) -> None:
    """Wait until all changes are in the store, by a last change, which is reported last. It is in
    its own folder, because its folder is read again."""
    (root / _SETTLED / f"{number}.md").write_text(f"# Settled {number}\n", encoding="utf-8")
    process.read(f"{root.name}/{_SETTLED}/{number}.md")


def follow(root: Path, store: Path, tmp_path: Path, *, seed: int, steps: int, kills: int) -> None:
    chaos = Chaos(root, tmp_path / "away", seed)
    killed_at = {steps * (number + 1) // (kills + 1) for number in range(kills)}
    (root / _SETTLED).mkdir()
    process = Process(store, root)
    for number in range(steps):
        chaos.step()
        if number in killed_at:  # with changes that it has not read, and then some more
            process.end(signal.SIGKILL)
            for _ in range(7):
                chaos.step()
            process = Process(store, root)
        elif number % 5 == 0:
            settle(process, root, number)
            assert contents(store) == fresh(root), f"after {chaos.done}"
    settle(process, root, steps)
    assert process.end(signal.SIGTERM)[0] == 0
    assert contents(store) == fresh(root), f"after {chaos.done}"


@pytest.mark.parametrize("seed", [1, 2])
def test_a_few_changes(root: Path, store: Path, tmp_path: Path, seed: int) -> None:
    follow(root, store, tmp_path, seed=seed, steps=40, kills=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 4])
def test_five_hundred_changes(root: Path, store: Path, tmp_path: Path, seed: int) -> None:
    follow(root, store, tmp_path, seed=seed, steps=500, kills=5)


def test_every_change_happens(root: Path, tmp_path: Path) -> None:
    chaos = Chaos(root, tmp_path / "away", 3)
    for _ in range(500):
        chaos.step()
    changes: list[Callable[[], None]] = [
        chaos.write, chaos.append, chaos.save_atomically, chaos.rename, chaos.move_over,
        chaos.delete, chaos.take_out, chaos.put_back, chaos.rename_folder, chaos.copy,
        chaos.ignore, chaos.move_root_away_and_back,
    ]  # fmt: skip
    assert set(chaos.done) == {change.__name__ for change in changes}
    assert any(root.rglob("*.md"))
