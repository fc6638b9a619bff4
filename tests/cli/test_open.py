"""`kb open`: editors and viewers get the file and the place, and a store cannot choose either."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from kb import KnowledgeBase
from kb.cli.hit_view import passage_text
from kb.cli.output import Console
from tests.cli.conftest import Run
from tests.cli.test_contract import Valid
from tests.ingest.parsers import pdfs

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs of POSIX")

Calls = Callable[[], list[list[str]]]
NOTE = "# Retry\n\none\n\n## Storm\n\na retry storm at sea\n"


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The arguments with which the programs `vim`, `xdg-open` and `okular` were called. No other
    program can be found."""
    folder, log = tmp_path / "bin", tmp_path / "calls.jsonl"
    folder.mkdir()
    log.touch()
    for name in ("vim", "xdg-open", "okular", "xdg-mime"):
        program = folder / name
        record = f"with open({str(log)!r}, 'a') as log: print(json.dumps(args), file=log)"
        if name == "xdg-mime":
            record = "print('org.kde.okular.desktop')"
        program.write_text(
            f"#!{sys.executable} -S\nimport json, sys\n"
            f"args = [{name!r}, *sys.argv[1:]]\n{record}\nsys.exit(len(args) == 1)\n"
        )
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("EDITOR", "vim")
    monkeypatch.setenv("DISPLAY", ":0")
    for name in ("VISUAL", "WAYLAND_DISPLAY", "PAGER"):
        monkeypatch.delenv(name, raising=False)
    return lambda: [json.loads(line) for line in log.read_text().splitlines()]


@pytest.fixture
def lib(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library in a store in the current folder."""
    folder = tmp_path / "lib"
    folder.mkdir()
    (folder / "retry.md").write_text(NOTE)
    (folder / "paper.pdf").write_bytes(
        pdfs.made(pdfs.text_page("The first page."), pdfs.text_page("About barnacles."))
    )
    (folder / "page.html").write_text("<h1>Quay</h1><p>Mooring at the quay.</p>")
    (folder / "mail.eml").write_text("Subject: Tide\n\nThe tide table.\n")
    monkeypatch.chdir(tmp_path)
    run("init")
    assert run("ingest", "lib").status == 0
    return folder


def wait_for(calls: Calls) -> list[list[str]]:
    """Wait for the first call, because `kb open` does not wait for windows."""
    while not calls():
        os.sched_yield()
    return calls()


def test_a_hit_of_the_last_search(lib: Path, run: Run, calls: Calls) -> None:
    assert "lib/retry.md#L5-L7" in run("search", "storm at sea").out
    opened = run("open", "1")
    assert (opened.status, opened.out) == (0, "")
    assert opened.err == "opening lib/retry.md#L5-L7\n"
    assert calls() == [["vim", "+5", str(lib / "retry.md")]]


def test_paths_are_searches_to_open_and_json_is_not(lib: Path, run: Run, calls: Calls) -> None:
    run("search", "storm at sea", "--paths")
    run("search", "barnacles", "--json")
    run("open", "1")
    assert calls() == [["vim", "+5", str(lib / "retry.md")]]


def test_a_citation_and_a_name(lib: Path, run: Run, calls: Calls) -> None:
    run("open", "lib/retry.md#L3")
    run("open", "retry.md")
    assert calls() == [["vim", f"+{line}", str(lib / "retry.md")] for line in (3, 1)]
    assert run("list", "--path", "lib/retry.md", "--json").json[0]["access_count"] == 2


def test_a_passage_that_has_moved(lib: Path, run: Run, calls: Calls) -> None:
    run("search", "storm at sea")
    (lib / "retry.md").write_text("A new line.\n\n" + NOTE)
    assert run("open", "1").err == "opening lib/retry.md#L7-L9 (the passage has moved)\n"
    assert calls() == [["vim", "+7", str(lib / "retry.md")]]


def test_the_status_of_the_editor(
    lib: Path, run: Run, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", "/bin/false")
    assert run("open", "retry.md").status == 1
    monkeypatch.setenv("EDITOR", "nothing-like-it")
    failed = run("open", "retry.md")
    assert failed.status == 2
    assert "cannot start nothing-like-it" in failed.err


def test_a_pdf_at_its_page(
    lib: Path, run: Run, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("search", "barnacles")
    assert run("open", "1").err == "opened lib/paper.pdf#page=2\n"
    assert wait_for(calls) == [["okular", "--page", "2", str(lib / "paper.pdf")]]


def test_a_pdf_viewer_from_the_settings(
    lib: Path, run: Run, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_OPEN_PDF_VIEWER", "xdg-open -p {page} {file}")
    run("open", "paper.pdf#page=2")
    assert wait_for(calls) == [["xdg-open", "-p", "2", str(lib / "paper.pdf")]]


def test_a_page_opens_in_its_application(lib: Path, run: Run, calls: Calls) -> None:
    run("open", "page.html")
    assert wait_for(calls) == [["xdg-open", str(lib / "page.html")]]


@pytest.mark.parametrize("name", ["paper.pdf", "page.html"])
def test_without_a_display_the_text_is_shown(
    lib: Path, run: Run, calls: Calls, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("DISPLAY")
    shown = run("open", name)
    assert shown.status == 0
    assert "first page" in shown.out or "Mooring" in shown.out
    assert calls() == []


def test_notes_and_mail_are_shown(lib: Path, run: Run, calls: Calls) -> None:
    note = run("add", "Fenders go outside.\x1b[31m", "--json").json["doc_path"]
    assert run("open", note).out == "Fenders go outside.\\x1b[31m\n"
    assert "The tide table." in run("open", "mail.eml").out
    assert calls() == []


def test_extracted_text_is_wrapped_between_words(lib: Path, tmp_path: Path) -> None:
    text = "The table of tides\x1b and currents\n"
    terminal = Console(color=False, width=20)
    with KnowledgeBase(tmp_path / ".kb" / "kb.sqlite") as kb:
        mail, note = (replace(kb.get(name), text=text) for name in ("lib/mail.eml", "lib/retry.md"))
    assert passage_text(mail, terminal) == "The table of\ntides\\x1b and\ncurrents"
    assert passage_text(mail, Console(color=False, width=None)) == passage_text(note, terminal)
    assert passage_text(note, terminal) == "The table of tides\\x1b and currents"


def test_a_file_that_is_gone(lib: Path, run: Run, calls: Calls) -> None:
    (lib / "retry.md").unlink()
    shown = run("open", "lib/retry.md#L7")
    assert "its file no longer exists" in shown.err
    assert "a retry storm at sea" in shown.out
    assert calls() == []


def test_json_opens_nothing(lib: Path, run: Run, calls: Calls, valid: Valid) -> None:
    shape = run("open", "lib/retry.md#L7", "--json").json
    valid("citation.v1", shape)
    assert (shape["file"], shape["line"], shape["page"]) == (str(lib / "retry.md"), 7, None)
    assert shape["link"] == f"file://{lib}/retry.md"
    assert calls() == []


def test_no_such_hit(lib: Path, run: Run, calls: Calls) -> None:
    missing = run("open", "1")
    assert missing.status == 2
    assert "no earlier search of this store" in missing.err
    run("search", "storm at sea", "--mode", "lexical")
    assert "the last search had 1 hit" in run("open", "2").err
    assert "no hit 0" in run("open", "0").err
    assert "no document '99999999999999999999'" in run("open", "9" * 20).err


# --- a store from someone else --------------------------------------------------------------------


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    folder = tmp_path / "private"
    folder.mkdir()
    (folder / "diary.md").write_text("# Diary\n\nhunter2\n")
    return folder


def change(store: Path, sql: str, *values: Any) -> None:
    connection = apsw.Connection(str(store))
    connection.execute(sql, values)
    connection.close()


def test_an_imported_store_opens_no_file(
    lib: Path, run: Run, calls: Calls, secret: Path, tmp_path: Path
) -> None:
    stream = io.BytesIO()
    with KnowledgeBase(tmp_path / ".kb" / "kb.sqlite") as kb:
        kb.export(stream)
    text = stream.getvalue().replace(str(lib).encode(), str(secret).encode())
    text = text.replace(b"retry.md", b"diary.md")
    with KnowledgeBase(tmp_path / "other" / "kb.sqlite") as kb:
        kb.import_(io.BytesIO(text))
    for target in ("lib/diary.md", "lib/diary.md#L7", str(secret / "diary.md")):
        shown = run("open", target, "--store", tmp_path / "other")
        assert "its folder is detached" in shown.err
        assert "hunter2" not in shown.out
        shape = run("open", target, "--store", tmp_path / "other", "--json").json
        assert (shape["file"], shape["link"]) == (None, None)
    assert calls() == []


@pytest.mark.parametrize("path", ["../private/diary.md", "/etc/passwd", "link.md"])
def test_a_path_out_of_its_folder(
    lib: Path, run: Run, calls: Calls, secret: Path, tmp_path: Path, path: str
) -> None:
    (lib / "link.md").symlink_to(secret / "diary.md")
    renamed = "UPDATE documents SET path = ? WHERE path = 'retry.md'"
    change(tmp_path / ".kb" / "kb.sqlite", renamed, path)
    shown = run("open", "lib/retry.md#L7")
    assert "hunter2" not in shown.out
    assert "its file was not read" in shown.err
    assert calls() == []


def test_the_file_decides_how_it_is_opened(
    lib: Path, run: Run, calls: Calls, tmp_path: Path
) -> None:
    """The store claims that a script is a PDF, and that a launcher is a web page."""
    store = tmp_path / ".kb" / "kb.sqlite"
    (lib / "run.sh").write_text("echo a script about keels\n")
    (lib / "app.desktop").write_text("<p>[Desktop Entry] Exec=keels</p>")
    run("ingest", "lib")
    change(store, "UPDATE documents SET type = 'pdf' WHERE path = 'run.sh'")
    run("open", "run.sh")
    change(store, "UPDATE documents SET path = 'app.desktop' WHERE path = 'page.html'")
    run("open", "lib/page.html")
    (lib / "fake.pdf").write_text("[Desktop Entry]")
    change(store, "UPDATE documents SET path = 'fake.pdf' WHERE path = 'paper.pdf'")
    run("open", "lib/paper.pdf")
    assert [call for call in calls() if call[0] != "vim"] == []


def test_a_folder_chooses_no_program(lib: Path, run: Run, calls: Calls, tmp_path: Path) -> None:
    (tmp_path / ".kb" / "config.toml").write_text('[open]\neditor = "okular --evil"\n')
    opened = run("open", "retry.md")
    assert "ignored open.editor" in opened.err
    assert calls() == [["vim", "+1", str(lib / "retry.md")]]
