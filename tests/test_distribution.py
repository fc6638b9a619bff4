"""The source distribution, and the wheel that is built from it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from tests.docs.website import build as build_site

REPOSITORY = Path(__file__).parents[1]
NEEDED = ("Makefile", "constraints.txt", "pyproject.toml", "bench", "tests", "training")  # by make

pytestmark = pytest.mark.slow
posix = pytest.mark.skipif(sys.platform == "win32", reason="programs of POSIX")


def load(script: Path) -> Any:
    """A script as a module."""
    spec = spec_from_file_location(script.stem, script)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


clean_install = load(REPOSITORY / "packaging" / "clean_install.py")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked."""
    folder = tmp_path_factory.mktemp("source")
    with tarfile.open(built("sdist", REPOSITORY, folder)) as archive:
        archive.extractall(folder, filter="data")
    return next(each for each in folder.iterdir() if each.is_dir())


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built from the source distribution."""
    return built("wheel", source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that an install of it would create."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment into which pip has installed the wheel, and nothing else. Its
    dependencies are those of this environment: nothing is downloaded."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", f"{folder}/bin/python", "install"]
    done = subprocess.run(
        [*pip, "--no-index", "--no-deps", str(wheel)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return folder


def built(kind: str, root: Path, into: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory"]
    subprocess.run([*command, into], cwd=root, check=True, capture_output=True)
    return next(each for each in into.iterdir() if each.suffix in (".gz", ".whl"))


def contents(package: Path) -> set[str]:
    return {
        str(path.relative_to(package))
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_package_is_all_there(installed: Path) -> None:
    assert contents(installed / "kb") == contents(REPOSITORY / "src" / "kb")


def test_the_manual_page_and_completions_are_installed(installed: Path) -> None:
    (shared,) = installed.glob("*.data/data/share")
    assert contents(shared) == contents(REPOSITORY / "packaging" / "share")


@posix
def test_an_installed_wheel_ingests_finds_and_opens(environment: Path, tmp_path: Path) -> None:
    kb = environment / "bin" / "kb"
    where = [f"{environment}/bin/python", "-c", "import kb; print(kb.__file__)"]
    assert str(environment) in subprocess.run(where, capture_output=True, text=True).stdout
    assert clean_install.check(kb, tmp_path) == []


@posix
def test_the_man_program_finds_the_manual_page(environment: Path) -> None:
    assert (environment / "share" / "man" / "man1" / "kb.1").read_text("utf-8").startswith(".TH")
    for name in clean_install.SHARED:
        assert (environment / name).is_file()


def test_builds_are_the_same(tmp_path: Path) -> None:
    for kind in ("sdist", "wheel"):
        first, second = (built(kind, REPOSITORY, tmp_path / name / kind) for name in "ab")
        assert first.read_bytes() == second.read_bytes()


def test_the_licences_come_with_the_weights(installed: Path) -> None:
    (licences,) = installed.glob("*.dist-info/licenses")
    assert contents(licences) == {"LICENSE", "NOTICE"}


def test_the_source_has_what_make_needs(source: Path) -> None:
    assert [name for name in NEEDED if not (source / name).exists()] == []
    site = build_site(source)
    assert (site.returncode, site.stderr) == (0, "")


def test_what_is_installed_searches_the_example_library(installed: Path, source: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(installed), "KB_MODELS_ENCODER": "kb-mini"}
    command = [sys.executable, "-m", "kb", "--store", str(installed / "kb.sqlite")]

    def kb(*args: str | Path) -> str:
        done = subprocess.run(
            [*command, *args], cwd=installed, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert str(installed) in kb("models", "list", "--json")
    kb("ingest", source / "examples" / "library" / "lessons")
    assert "retry-storm.md" in kb("search", "-n", "1", "who made it worse by asking again?")
