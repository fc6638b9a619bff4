"""The folder of models that were pulled: `models` in the user's data folder, a folder a model.

What stands here is whole: a model is put together beside its place and moved there by one rename.
"""

from __future__ import annotations

import os
from pathlib import Path

from kb.config import data_folder
from kb.errors import InvalidRequest, ModelMissing
from kb.models import manifest as manifests
from kb.models.lookup import is_plain


def folder() -> Path:
    return data_folder() / "models"


def place(name: str) -> Path | None:
    """Where a model of that name is, or would be; None for what cannot be a name."""
    return folder() / name if is_plain(name) else None


def names() -> list[str]:
    """Of those that are there. What is being pulled begins with a dot."""
    found = folder().glob(f"*/{manifests.NAME}")
    return sorted(path.parent.name for path in found if is_plain(path.parent.name))


def put(staged: Path, target: Path) -> None:
    """Move a finished folder to its place."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(staged, target)
    except OSError as error:
        if not target.exists():
            raise
        raise taken(target) from error


def taken(target: Path) -> InvalidRequest:
    return InvalidRequest(
        f"there is another model in {target}", f"kb models remove {target.name}, or use --to"
    )


def remove(name: str) -> Path:
    """Take a pulled model away: at once out of sight, then from the disk."""
    import shutil  # which takes longer to load than a search to answer

    target = place(name)
    if target is None or not target.is_dir():
        pulled = ", ".join(names()) or "none"
        raise ModelMissing(
            f"no model {name!r} was pulled", f"pulled models: {pulled}; others cannot be removed"
        )
    gone = target.with_name(f".{name}.gone")
    shutil.rmtree(gone, ignore_errors=True)
    os.rename(target, gone)
    shutil.rmtree(gone, ignore_errors=True)
    for staged in folder().glob(f".{name}.*.part"):  # what an interrupted pull has left
        shutil.rmtree(staged, ignore_errors=True)
    return target
