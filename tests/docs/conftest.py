"""The documentation website, built once for all its tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.website import build, copy


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copy(tmp_path_factory.mktemp("repository"))
    done = build(folder)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout == "build/site/index.html\n"
    return folder / "build" / "site"
