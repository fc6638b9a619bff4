"""Loggers that stay silent until a program configures logging."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "kb"
# The modules that configure logging; a parser process sends its logs to its parent.
SETTING = {
    "logs.py",
    "cli/log_handlers.py",
    "ingest/parser_worker.py",
    "ingest/parser_support/ocr.py",  # silences a library
}

WARN = "from kb.logs import logger; logger('kb.search').warning('degraded')"


def said(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stderr


def test_silent_unless_a_program_configures_logging() -> None:
    assert said(WARN) == ""
    assert said(f"import logging; logging.basicConfig(); {WARN}") == "WARNING:kb.search:degraded\n"


def test_a_search_logs_to_configured_handlers(tmp_path: Path) -> None:
    search = (
        f"from kb import KnowledgeBase; kb = KnowledgeBase({str(tmp_path / 'kb.sqlite')!r})\n"
        "kb.add('retry storm'); kb.search('retry', mode='lexical')"
    )
    assert said(search) == ""
    assert "search took" in said(f"import logging; logging.basicConfig(level=20)\n{search}")


def test_a_server_logs_json_if_the_settings_say_so() -> None:
    start = (
        "from dataclasses import replace; from kb.cli import log_handlers\n"
        "from kb.config import Config, ServeConfig\n"
        "config = Config(serve=replace(ServeConfig(), log_format='json'))\n"
        "log_handlers.start(config, serving=True)\n"
        "from kb.logs import logger; log = logger('kb.server')\n"
    )
    (line,) = said(f"{start}log.warning('a %s\\nline', 'second')").splitlines()
    record = json.loads(line)
    assert record.pop("time").endswith("Z")
    assert record == {"level": "warning", "logger": "kb.server", "message": "a second\nline"}
    failed = f"{start}\ntry: 1 / 0\nexcept ZeroDivisionError: log.exception('failed')"
    assert "ZeroDivisionError" in json.loads(said(failed))["exception"]


def test_every_logger_comes_from_this_function() -> None:
    """Any other logger would write its warnings to the stderr of every program."""
    own = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if "logging.getLogger" in path.read_text(encoding="utf-8")
    }
    assert own == SETTING
