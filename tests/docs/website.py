"""Builds the documentation website from a copy of its pages, for tests."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from tests.docs.pages import DOCS, REPOSITORY


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kb_docs_website", DOCS / "website.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


website = load()


def copy(folder: Path) -> Path:
    """Copy the sources of the website to a folder where tests can change them."""
    shutil.copytree(DOCS, folder / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    for name in website.OUTSIDE:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / name, folder / name)
    return folder


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(folder / "docs" / "website.py")]
    return subprocess.run(command, capture_output=True, encoding="utf-8")
