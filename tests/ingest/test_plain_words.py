"""Words with soft hyphens, ligatures and invisible characters are found in every format, and the
stored text stays as it was written."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path

import apsw
import pytest

from kb import KnowledgeBase
from tests.ingest.parsers.test_docx import docx, p
from tests.store.builders import check_integrity, sqlite_store
from tests.store.make_fixture import FIXTURES

WRITTEN = "Die Ver\u00adsiche\u00adrung im oﬃce bleibt zero\u200bwidth und fest\u2060gelegt"
QUERIES = ("Versicherung", "office", "zerowidth", "festgelegt", "oﬃce", "Ver\u00adsicherung")


def _mail() -> bytes:
    mail = EmailMessage()
    mail["From"], mail["Subject"] = "a@example.org", "x"
    mail.set_content(WRITTEN)
    return bytes(mail)


def _text() -> bytes:
    return f"{WRITTEN}\n".encode()


FILES: dict[str, Callable[[], bytes]] = {
    "a.txt": _text,
    "a.md": _text,
    "heading.md": lambda: f"# {WRITTEN}\n\nThe text below.\n".encode(),
    "a.rst": _text,
    "a.org": _text,
    "a.adoc": _text,
    "a.csv": lambda: f"head,text\n1,{WRITTEN}\n".encode(),
    "a.json": lambda: json.dumps({"text": WRITTEN}).encode(),
    "a.py": lambda: f"# {WRITTEN}\nx = 1\n".encode(),
    "a.html": lambda: f"<p>{WRITTEN}</p>".encode(),
    "a.eml": _mail,
    "a.docx": lambda: docx(p(WRITTEN)),
    "a.ipynb": lambda: json.dumps(
        {"nbformat": 4, "metadata": {}, "cells": [{"cell_type": "markdown", "source": WRITTEN}]}
    ).encode(),
}


@pytest.mark.parametrize("name", FILES)
def test_words_are_found_by_their_plain_form(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / name).write_bytes(FILES[name]())
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder="none") as kb:
        kb.ingest(folder)
        for query in QUERIES:
            assert len(kb.search(query, mode="lexical").hits) == 1, query
        passage = kb.get(f"folder/{name}")
        assert passage.state == "exact"
        if name.endswith((".md", ".txt", ".csv")):
            assert WRITTEN in passage.text
        check_integrity(sqlite_store(kb))


def test_a_note_and_its_highlights(tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder="none") as kb:
        kb.add(WRITTEN)
        (hit,) = kb.search("Versicherung", mode="lexical").hits
        assert "Ver\u00adsiche\u00adrung" in hit.snippet
        ranges = kb.highlights("Versicherung", hit.snippet)
        assert [hit.snippet[start:end] for start, end in ranges] == ["Ver\u00adsiche\u00adrung"]


def test_a_zero_width_space_separates_words_too(tmp_path: Path) -> None:
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder="none") as kb:
        kb.add("harbour\u200bkeys, and ภาษา\u200bไทย")
        for query in ("harbour", "keys", "harbourkeys", "ภาษา", "ไทย", "ภาษาไทย", "ภาษา\u200bไทย"):
            assert len(kb.search(query, mode="lexical").hits) == 1, query


def test_an_old_store_is_indexed_anew(tmp_path: Path) -> None:
    path = tmp_path / "kb.sqlite"
    path.write_bytes(gzip.decompress((FIXTURES / "v7.sqlite.gz").read_bytes()))
    connection = apsw.Connection(str(path))
    connection.execute(
        "UPDATE chunks SET text = ? WHERE chunk_id = (SELECT min(chunk_id) FROM chunks)", (WRITTEN,)
    )
    connection.close()
    with KnowledgeBase(path, encoder="none") as kb:
        kb.add("another note, which opens the store for writing")
        assert len(kb.search("Versicherung", mode="lexical").hits) == 1
        check_integrity(sqlite_store(kb))


def test_damaged_text_does_not_stop_the_upgrade(tmp_path: Path) -> None:
    path = tmp_path / "kb.sqlite"
    path.write_bytes(gzip.decompress((FIXTURES / "v7.sqlite.gz").read_bytes()))
    connection = apsw.Connection(str(path))
    connection.execute("DROP TRIGGER chunks_update; DROP TRIGGER chunks_reword")
    connection.execute(
        "UPDATE chunks SET text = CAST(x'ff41c2ad41' AS TEXT) "
        "WHERE chunk_id = (SELECT max(chunk_id) FROM chunks)"
    )
    connection.close()
    with KnowledgeBase(path, encoder="none") as kb:
        kb.add("a note")
        assert kb.search("retry storm", mode="lexical").hits
