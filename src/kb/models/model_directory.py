"""The folder of pulled models: `models` in the user's data folder, with one folder per model.

Models in it are always complete: a pull gathers the files in a staging folder beside the target and
renames it at the end.
"""

from __future__ import annotations

import os
from pathlib import Path

from kb.errors import InvalidRequest, ModelMissing
from kb.locations import data_folder
from kb.models import manifest as manifests
from kb.models.lookup import is_plain


def folder() -> Path:
    """The folder of pulled models."""
    return data_folder() / "models"


def path_of(name: str) -> Path | None:
    """The folder of a model, which may not exist; None if the name is not allowed."""
    return folder() / name if is_plain(name) else None


def names() -> list[str]:
    """The names of the pulled models, without staging folders, which start with a dot."""
    paths = folder().glob(f"*/{manifests.NAME}")
    return sorted(path.parent.name for path in paths if is_plain(path.parent.name))


def install(staged: Path, target: Path) -> None:
    """Move a complete staging folder to its target. Raises `InvalidRequest` if another model is
    there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(staged, target)
    except OSError as error:
        if not target.exists():
            raise
        raise name_conflict(target) from error


def name_conflict(target: Path) -> InvalidRequest:
    """The error for a target that contains another model."""
    return InvalidRequest(
        f"{target} contains another model",
        f"run kb models remove {target.name}, or choose another folder with --to",
    )


def remove(name: str) -> Path:
    """Remove a pulled model: a rename hides it at once, then its files are deleted. Returns its
    folder. Raises `ModelMissing`."""
    import shutil  # importing it takes longer than a search

    target = path_of(name)
    if target is None or not target.is_dir():
        pulled = ", ".join(names()) or "none"
        raise ModelMissing(
            f"{name!r} is not a pulled model", f"pulled models: {pulled}; others cannot be removed"
        )
    gone = target.with_name(f".{name}.gone")
    shutil.rmtree(gone, ignore_errors=True)
    os.rename(target, gone)
    shutil.rmtree(gone, ignore_errors=True)
    for staged in folder().glob(f".{name}.*.part"):  # remains of interrupted pulls
        shutil.rmtree(staged, ignore_errors=True)
    return target
