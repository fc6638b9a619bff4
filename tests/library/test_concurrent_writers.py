"""Writers that wait for the transaction of a large document get their turn, and lose nothing."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kb import KnowledgeBase
from kb.config import Config, StoreConfig
from kb.errors import StoreBusy

LARGE = "\n\n".join(f"Paragraph {number} of the harbour log, with words." for number in range(9000))


def test_short_writes_wait_for_a_large_document(tmp_path: Path) -> None:
    path = tmp_path / "kb.sqlite"
    errors: list[Exception] = []

    def write(text: str, times: int) -> None:
        try:
            with KnowledgeBase(path, encoder="none") as kb:
                for number in range(times):
                    kb.add(f"{text} {number}")
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    threads = [
        threading.Thread(target=write, args=(LARGE, 2)),
        *(threading.Thread(target=write, args=(f"short {name}", 10)) for name in "abc"),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with KnowledgeBase(path, encoder="none") as kb:
        assert kb.status()["documents"] == 32


def test_a_write_that_waits_too_long_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "kb.sqlite"
    config = Config(store=StoreConfig(busy_timeout_s=0.2))
    with (
        KnowledgeBase(path, encoder="none") as first,
        KnowledgeBase(path, encoder="none", config=config) as second,
    ):
        first.add("before")
        with first._store._database.writing():  # type: ignore[attr-defined]
            with pytest.raises(StoreBusy) as busy:
                second.add("during")
            assert busy.value.hint
        second.add("after")
        assert second.status()["documents"] == 2
