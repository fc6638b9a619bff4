"""The pre-commit hooks run what `make check` runs."""

from __future__ import annotations

from pathlib import Path

import yaml

REPOSITORY = Path(__file__).parents[1]


def test_hooks_are_the_checks_of_the_makefile() -> None:
    makefile = (REPOSITORY / "Makefile").read_text("utf-8")
    _, _, recipe = makefile.partition("\ncheck: ")
    checks = [line.strip() for line in recipe.partition("\n\n")[0].splitlines()[1:]]
    config = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text("utf-8"))
    (local,) = config["repos"]
    hooks = [hook["entry"] for hook in local["hooks"]]
    assert hooks == [check.replace("$(BIN)", ".venv/bin") for check in checks]
