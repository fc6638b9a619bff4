"""`kb add`, `list`, `rm`, `tag`, `gc`."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.test_contract import Valid

# --- add ------------------------------------------------------------------------------------------


def test_a_note_is_found_at_once(here: Path, run: Run) -> None:
    added = run("add", "The", "spare", "shackles", "are", "in", "locker", "4")
    assert (added.status, added.out, added.err) == (0, "note:27\n", "")
    assert run("search", "spare shackles").lines[0].startswith("1.  note:27#L1")


def test_every_attribute_of_a_note(here: Path, run: Run, valid: Valid) -> None:
    added = run(
        "add", "-", "--title", "Locker", "--tags", "mooring,stock", "--tags", "x", "--kind",
        "temp_note", "--scope", "project", "--trust", "secondary", "--lang", "en", "--ttl", "7d",
        "--json", stdin="Schäkel in 4\n".encode(),
    )  # fmt: skip
    valid("document.v1", added.json)
    said = added.json
    assert said["title"] == "Locker"
    assert said["tags"] == ["mooring", "stock", "x"]
    assert [said[name] for name in ("kind", "scope", "trust", "lang")] == [
        "temp_note", "project", "secondary", "en",
    ]  # fmt: skip
    assert said["expires_at"] > said["created_at"]
    assert run("get", "note:27").out == "Schäkel in 4\n"


def test_a_note_in_another_encoding(here: Path, run: Run) -> None:
    """Text from another program is decoded like a file."""
    text = "Grüße aus Köln: schöne Straßen"
    old = run("add", "-", stdin=f"{text}\n".encode("cp1252"))
    assert (old.status, old.out) == (0, "note:27\n")
    assert "warning: not UTF-8: read as Windows-1252" in old.err
    wide = run("add", "-", stdin=f"{text}\r\n".encode("utf-16"))
    assert (wide.status, wide.out, wide.err) == (0, "note:28\n", "")
    assert [run("get", f"note:{number}").out for number in (27, 28)] == [f"{text}\n"] * 2


@pytest.mark.parametrize("data", [b"\0\0abc", bytes(range(128, 256)), b"caf\xc3\xa9 \x90\xff"])
def test_bytes_that_are_not_text_are_no_note(here: Path, run: Run, data: bytes) -> None:
    refused = run("add", "-", stdin=data)
    assert (refused.status, refused.out) == (2, "")
    assert "the note is not text" in refused.err
    assert "note:" not in run("list").out


def test_ignored_front_matter_of_a_note_is_a_warning(here: Path, run: Run) -> None:
    added = run("add", "-", stdin=b"---\nkind: poem\n---\nShackles in 4\n")
    assert (added.status, added.out) == (0, "note:27\n")
    assert "warning: front matter: kind is ignored: 'poem' is not one of" in added.err


@pytest.mark.parametrize(
    "args", [("add",), ("add", " "), ("add", "x", "--kind", "y"), ("add", "x", "--ttl", "soon")]
)
def test_invalid_notes(here: Path, run: Run, args: tuple[str, ...]) -> None:
    refused = run(*args)
    assert (refused.status, refused.out) == (2, "")


# --- edit -----------------------------------------------------------------------------------------


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`editor(code)`: sets $EDITOR to a program that runs `code` with the file's `path`."""

    def set_editor(code: str) -> None:
        program = tmp_path / "editor.py"
        program.write_text(f"import sys, pathlib\npath = pathlib.Path(sys.argv[-1])\n{code}\n")
        monkeypatch.setenv("EDITOR", f"{sys.executable} {program}")
        monkeypatch.delenv("VISUAL", raising=False)
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        monkeypatch.setattr(tempfile, "tempdir", None)

    return set_editor


REPLACE = "path.write_text(path.read_text().replace('4', '5'))"


def test_a_note_is_edited_in_the_editor(
    here: Path, run: Run, editor: Callable[[str], None], tmp_path: Path
) -> None:
    run("add", "Shackles are in locker 4", "--tags", "stock", "--kind", "lesson")
    editor(REPLACE)
    edited = run("edit", "note:27")
    assert (edited.status, edited.out, edited.err) == (0, "note:27\n", "")
    assert run("get", "note:27").out == "Shackles are in locker 5\n"
    (line,) = run("list", "--long", "--path", "note:27").lines
    assert "lesson" in line
    assert line.endswith("note:27  Shackles are in locker 5  #stock")
    assert not list(tmp_path.glob("kb-note-*"))


def test_a_hit_is_edited_and_an_unchanged_note_is_not_stored(
    here: Path, run: Run, editor: Callable[[str], None]
) -> None:
    run("add", "Shackles are in locker 4")
    run("search", "shackles locker 4", "--path", "note:*")
    editor("")
    assert run("edit", "1").err == "note:27 is unchanged\n"


def test_a_note_is_changed_without_an_editor(here: Path, run: Run, valid: Valid) -> None:
    run("add", "Shackles are in locker 4", "--title", "Locker", "--tags", "stock")
    edited = run("edit", "note:27", "--tags", "stock,boat", "--ttl", "7d", "--json")
    valid("document.v1", edited.json)
    assert set(edited.json["tags"]) == {"stock", "boat"}
    assert edited.json["expires_at"] is not None
    assert run("edit", "note:27", "-", stdin=b"Shackles are lost").status == 0
    document = run("list", "--path", "note:27", "--json").json[0]
    assert (document["title"], set(document["tags"])) == ("Locker", {"stock", "boat"})
    assert run("get", "note:27").out == "Shackles are lost\n"


def test_an_editor_that_writes_another_encoding(
    here: Path, run: Run, editor: Callable[[str], None], tmp_path: Path
) -> None:
    run("add", "Schäkel in Köln")
    editor("path.write_bytes('Größere Schäkel in Köln'.encode('cp1252'))")
    edited = run("edit", "note:27")
    assert (edited.status, edited.out) == (0, "note:27\n")
    assert "warning: not UTF-8: read as Windows-1252" in edited.err
    assert run("get", "note:27").out == "Größere Schäkel in Köln\n"
    editor("path.write_bytes(b'\\0 is no text')")
    edited = run("edit", "note:27")
    assert (edited.status, edited.out) == (2, "")
    assert "the note is not text" in edited.err
    (kept,) = tmp_path.glob("kb-note-*")
    assert kept.read_bytes() == b"\0 is no text"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_an_editor_that_leaves_a_named_pipe(
    here: Path, run: Run, editor: Callable[[str], None], tmp_path: Path
) -> None:
    """Reading it would wait for ever."""
    run("add", "Shackles are in locker 4")
    editor("import os; path.unlink(); os.mkfifo(path)")
    edited = run("edit", "note:27")
    assert (edited.status, edited.out) == (2, "")
    assert "not a regular file" in edited.err
    assert run("get", "note:27").out == "Shackles are in locker 4\n"


def test_an_editor_that_removes_the_file(
    here: Path, run: Run, editor: Callable[[str], None], tmp_path: Path
) -> None:
    run("add", "Shackles are in locker 4")
    editor("path.unlink()")
    edited = run("edit", "note:27")
    assert (edited.status, edited.out) == (2, "")
    assert "nothing was stored" in edited.err
    assert "is kept in" not in edited.err


def test_an_edit_that_fails_keeps_the_text(
    here: Path, run: Run, editor: Callable[[str], None], tmp_path: Path
) -> None:
    run("add", "Shackles are in locker 4")
    command = [sys.executable, "-m", "kb", "edit", "note:27", "Somebody was faster", "--no-embed"]
    editor(f"import subprocess\nsubprocess.run({command!r}, check=True)\n{REPLACE}")
    edited = run("edit", "note:27")
    assert edited.status == 2
    assert "was changed in the meantime" in edited.err
    (kept,) = tmp_path.glob("kb-note-*")
    assert str(kept) in edited.err
    assert kept.read_text() == "Shackles are in locker 5"
    assert run("get", "note:27").out == "Somebody was faster\n"


def test_a_file_is_not_edited(here: Path, run: Run) -> None:
    refused = run("edit", "library/lessons/retry-storm.md", "x")
    assert refused.status == 2
    assert "is a file" in refused.err


# --- list -----------------------------------------------------------------------------------------


def test_list(here: Path, run: Run) -> None:
    listed = run("list")
    assert len(listed.lines) == 26
    assert listed.lines == sorted(listed.lines)
    assert run("list", "--path", "library/code/*", "--limit", "2").lines == [
        "library/code/gateway.go",
        "library/code/ingest_validate.py",
    ]


def test_the_newest_first(here: Path, run: Run) -> None:
    dates = [line[:10] for line in run("list", "--newest", "--long").lines]
    assert dates == sorted(dates, reverse=True)
    assert len(set(dates)) > 1
    run("add", "Shackles are in locker 4")
    assert run("list", "--newest", "--limit", "1").lines == ["note:27"]


def test_a_name_instead_of_a_pattern(here: Path, run: Run) -> None:
    """A pattern matches a whole path, which people do not expect."""
    hint = "no document has the path '{}'; did you mean: --path '{}'\n"
    for name, pattern in (
        ("gateway.go", "**/gateway.go"), ("library/code", "library/code/**"),
        ("code/", "**/code/**"), ("gatew", "**gatew**"),
    ):  # fmt: skip
        listed = run("list", "--path", name)
        assert listed.err == "no documents match these filters\n" + hint.format(name, pattern)
        assert hint.format(name, pattern) in run("search", "retry", "--path", name).err
    assert "did you mean" not in run("list", "--path", "nowhere").err
    assert "did you mean" not in run("list", "--path", "library/code/*.xyz").err


def test_list_long(here: Path, run: Run) -> None:
    (line,) = run("list", "--long", "--path", "library/lessons/retry*").lines
    assert line == (
        "2026-03-10  markdown  lesson  library/lessons/retry-storm.md  "
        "The retry storm after gw-skerry returned  #backoff  #gateway  #incident  #ingestion"
    )


def test_list_in_json(here: Path, run: Run, valid: Valid) -> None:
    listed = run("list", "--type", "code", "--json").json
    assert len(listed) == 3
    lines = run("list", "--type", "code", "--jsonl").lines
    assert [json.loads(line) for line in lines] == listed
    for document in listed:
        valid("document.v1", document)


def test_nothing_to_list(here: Path, run: Run) -> None:
    assert run("list", "--lang", "xx").err == "no documents match these filters\n"
    assert run("list", "--lang", "xx", "--json").json == []
    assert run("list", "--lang", "xx", "--jsonl").out == ""


# --- rm -------------------------------------------------------------------------------------------


def test_rm(here: Path, run: Run, filled: Path) -> None:
    gone = run("rm", "library/code/gateway.go", "library/notes/")
    assert gone.lines == [
        "library/code/gateway.go",
        "library/notes/field-log-heron-point.txt",
        "library/notes/packing-list.txt",
    ]
    assert gone.err == "3 documents removed; files on disk are untouched\n"
    assert (filled / "library" / "code" / "gateway.go").exists()
    assert len(run("list").lines) == 23
    again = run("rm", "library/code/gateway.go")
    assert (again.status, again.out) == (2, "")


def test_rm_in_json_and_by_the_path_of_a_file(here: Path, run: Run, filled: Path) -> None:
    file = filled / "library" / "code" / "gateway.go"
    assert run("rm", file, "--json").json == ["library/code/gateway.go"]


def test_rm_removes_all_or_nothing(here: Path, run: Run) -> None:
    assert run("rm", "library/code/gateway.go", "nope").status == 2
    assert len(run("list").lines) == 26


# --- tag ------------------------------------------------------------------------------------------


def test_every_tag_most_common_first(here: Path, run: Run) -> None:
    tags = run("tag")
    counts = [int(line.split()[0]) for line in tags.lines]
    assert counts == sorted(counts, reverse=True)
    assert "5  ingestion" in tags.lines
    assert run("tag", "--json").json["ingestion"] == 5


def test_tags_of_a_document(here: Path, run: Run, valid: Valid) -> None:
    name = "library/code/gateway.go"
    bare = run("tag", name)
    assert (bare.out, bare.err) == ("", f"{name} has no tags\n")
    assert run("tag", name, "--add", "go,gateway").lines == ["gateway", "go"]
    assert run("tag", name, "--remove", "go", "--add", "x").lines == ["gateway", "x"]
    shape = run("tag", name, "--json").json
    valid("document.v1", shape)
    assert shape["tags"] == ["gateway", "x"]
    assert run("search", "gateway", "--tags", "x", "--json").json["returned"] > 0


def test_tags_that_cannot_be_removed(here: Path, run: Run) -> None:
    assert run("tag", "library/code/gateway.go", "--remove", "nope").status == 2
    written = run("tag", "library/lessons/retry-storm.md", "--remove", "backoff")
    assert "front matter" in written.err
    assert run("tag", "--add", "x").status == 2


def test_no_tags_at_all(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run("add", "x")
    assert (run("tag").out, run("tag").err) == ("", "no tags\n")


# --- gc -------------------------------------------------------------------------------------------


def test_gc(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("add", "for now", "--ttl", "1h")
    assert run("gc").err == "0 documents expired and removed\n"
    later = time.time() + 7200
    monkeypatch.setattr("kb.library.knowledge_base.KnowledgeBase._now", lambda _: time.strftime(
        "%Y-%m-%dT%H:%M:%SZ", time.gmtime(later)))  # fmt: skip
    planned = run("gc", "--dry-run")
    assert (planned.out, planned.err) == ("note:27\n", "1 document expired\n")
    assert run("gc", "--dry-run", "--json").json == ["note:27"]
    assert run("gc").err == "1 document expired and removed\n"
    assert run("gc", "--json").json == []


def test_gc_gives_space_back(here: Path, run: Run) -> None:
    paths = [one["doc_path"] for one in run("list", "--json").json]
    run("rm", *paths)
    store = next(here.rglob("kb.sqlite"))
    before = store.stat().st_size
    assert "0 B of disk space freed" in run("gc", "--compact", "--dry-run").err
    compacted = run("gc", "--compact")
    assert compacted.err.endswith("of disk space freed\n0 documents expired and removed\n")
    assert store.stat().st_size < before
    assert run("doctor").err == "healthy\n"


def test_long_output_on_a_terminal_goes_to_the_pager(
    run: Run, tmp_path: Path, on_terminal: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KB_STORE", str(tmp_path / "kb.sqlite"))
    (tmp_path / "lib").mkdir()
    for number in range(40):
        (tmp_path / "lib" / f"{number:02}.md").write_text(f"note {number}\n")
    (tmp_path / "lib" / "long.md").write_text("\n".join(f"line {number}" for number in range(60)))
    run("ingest", "--no-embed", "lib")
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho PAGED; cat >/dev/null\n")
    pager.chmod(0o755)
    search = ("search", "--mode", "lexical", "note", "-n", "20")
    for command in (("list",), ("list", "--long"), ("get", "lib/long.md"), search):
        assert "PAGED" in on_terminal(*command, PAGER=str(pager))
        for none in ("", "cat"):
            assert "PAGED" not in on_terminal(*command, PAGER=none)
    assert "PAGED" not in on_terminal(*search[:-1], "2", PAGER=str(pager))
    assert "PAGED" not in on_terminal(*search, "--json", PAGER=str(pager))
    monkeypatch.setenv("PAGER", str(pager))
    assert len(run(*search, "--jsonl").lines) == 20
    assert "PAGED" not in run(*search).out  # not a terminal
    assert "PAGED" not in on_terminal("list", "--limit", "5", PAGER=str(pager))
    assert "lib/39.md" in run("list").lines


def test_the_pager_gets_colors_and_links(
    run: Run, tmp_path: Path, on_terminal: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KB_STORE", str(tmp_path / "kb.sqlite"))
    (tmp_path / "lib").mkdir()
    for number in range(20):
        (tmp_path / "lib" / f"{number:02}.md").write_text(f"note {number}\n")
    run("ingest", "--no-embed", "lib")
    less = tmp_path / "bin" / "less"
    less.parent.mkdir()
    monkeypatch.setenv("PATH", f"{less.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("LESS", raising=False)
    search = ("search", "--mode", "lexical", "note", "-n", "20")
    for version, links in ((590, True), (551, False)):
        less.write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && echo "less {version} (GNU)" && exit\n'
            'echo "PAGED $LESS"; cat\n'
        )
        less.chmod(0o755)
        shown = on_terminal(*search, PAGER="less")
        assert "PAGED FRX" in shown
        assert "\x1b[" in shown
        assert ("\x1b]8;" in shown) == links
    assert "\x1b[" not in on_terminal(*search, PAGER="less", NO_COLOR="1")
    assert "\x1b" not in on_terminal(*search, PAGER="less", LESS="S").split("PAGED")[1]
