"""`kb ingest`: the report, the exit status, the progress."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kb.cli import ingest, progress
from kb.cli.progress import _line_reporter, _shorten
from kb.ingest.progress import Progress
from tests.cli.conftest import Run
from tests.cli.test_contract import ESCAPE, Valid
from tests.ingest.parsers.pdfs import made, text_page

Library = Callable[[dict[str, str | bytes]], Path]


@pytest.fixture(autouse=True)
def _own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_STORE", str(tmp_path / "kb.sqlite"))


def test_the_report(run: Run, library: Library) -> None:
    root = library({"a.md": "# A\n\nalpha\n", "b.txt": "beta\n", "c.png": b"\x89PNG\r\n\0\0"})
    first = run("ingest", root)
    assert first.status == 0
    assert first.lines[0].startswith("skipped 1: ")
    summary = "2 added, 0 changed, 0 unchanged, 0 removed, 1 skipped, 0 failed in "
    assert first.lines[1].startswith(summary)
    assert first.err.startswith("new store: ")
    (root / "a.md").write_text("# A\n\ngamma gamma\n")
    (root / "b.txt").unlink()
    again = run("ingest")
    summary = "0 added, 1 changed, 0 unchanged, 1 removed, 1 skipped, 0 failed in "
    assert again.lines[-1].startswith(summary)


def test_in_json(run: Run, library: Library, valid: Valid) -> None:
    root = library({"a.md": "# A\n\nalpha\n", "bad.md": b"\xff\xfe\x00\xd8", "c.bin": b"\0\1"})
    told = run("ingest", root, "--json")
    valid("ingest_report.v1", told.json)
    assert told.json["added"] == ["lib/a.md"]
    assert [note["path"] for note in told.json["failed"]] == ["lib/bad.md"]
    assert (told.status, told.err) == (1, "")


def test_a_file_that_fails(run: Run, library: Library) -> None:
    root = library({"a.md": "# A\n\nalpha\n", "bad.md": b"\xff\xfe\x00\xd8"})
    told = run("ingest", root)
    assert told.status == 1
    assert told.lines[-1].startswith("1 added,")
    assert told.err.splitlines()[1].startswith("failed: lib/bad.md: ")


def test_a_warning(run: Run, library: Library) -> None:
    told = run("ingest", library({"a.md": "---\ntags: [\n---\n# A\n\nalpha\n"}))
    assert told.status == 0
    assert told.err.splitlines()[1].startswith("warning: lib/a.md: ")


def test_the_new_store_is_named_once(run: Run, library: Library, tmp_path: Path) -> None:
    root = library({"a.md": "# A\n\nalpha\n"})
    assert run("ingest", "--dry-run", root).err == ""
    assert run("ingest", root).err == f"new store: {tmp_path / 'kb.sqlite'}\n"
    assert run("ingest", root).err == ""


def test_a_note_creates_a_store_too(run: Run, tmp_path: Path) -> None:
    assert run("add", "a note").err == f"new store: {tmp_path / 'kb.sqlite'}\n"
    assert run("add", "another").err == ""
    assert run("add", "a third", "--store", tmp_path / "other.sqlite", "--json").err == ""


def test_a_model_for_its_language_is_suggested(
    run: Run, library: Library, valid: Valid, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_MODELS_ENCODER", "kb-mini-english")
    root = library({"zh.md": "每天凌晨三点自动备份数据库，保留最近七天的副本。"})
    told = run("ingest", "--no-embed", root)
    assert told.status == 0
    assert "1 of 1 document is in Chinese, which kb-mini 2 does not read" in told.err
    assert "kb reindex --model kb-mini\n" in told.err
    assert "kb reindex" not in run("ingest", "--no-embed", root).err
    shape = run("ingest", "--no-embed", "--force", library({"ja.md": "会議のメモ"}), "--json").json
    valid("ingest_report.v1", shape)
    assert "Chinese and Japanese" in shape["notes"][0]


def test_an_encrypted_file_is_skipped(run: Run, library: Library) -> None:
    told = run("ingest", library({"a.pdf": made(text_page("x"), password="secret")}))
    assert told.status == 0
    assert told.lines[0] == "skipped 1: encrypted: save a copy without a password"


def test_a_dry_run_only_reports(run: Run, library: Library, valid: Valid) -> None:
    root = library({"a.md": "# A\n\nalpha\n"})
    told = run("ingest", "--dry-run", root)
    assert told.lines[0] == "+ lib/a.md"
    assert told.lines[1].startswith("dry run: 1 added")
    valid("ingest_report.v1", run("ingest", "--dry-run", root, "--json").json)
    assert run("status").status == 2


def test_verbose_lists_everything(run: Run, library: Library) -> None:
    root = library({"a.md": "# A\n\nalpha\n", "c.bin": b"\0\1"})
    lines = run("ingest", "-v", root).lines
    assert lines[0] == "+ lib/a.md"
    assert lines[1].startswith("skipped lib/c.bin: ")
    (root / "a.md").write_text("other text")
    assert run("ingest", "-v").lines[0] == "~ lib/a.md"
    (root / "a.md").unlink()
    assert run("ingest", "-v").lines[0] == "- lib/a.md"


def test_a_missing_root_is_named(run: Run, library: Library, valid: Valid) -> None:
    root = library({"a.md": "# A\n\nalpha\n"})
    run("ingest", root)
    shutil.rmtree(root)
    told = run("ingest")
    assert told.status == 1
    assert told.err == f"missing: {root} does not exist; its documents were kept\n"
    assert run("list").lines == ["lib/a.md"]
    valid("ingest_report.v1", run("ingest", "--json").json)


def test_a_missing_path(run: Run, tmp_path: Path) -> None:
    told = run("ingest", tmp_path / "nope")
    assert told.status == 2
    assert told.err.startswith("error: ")


def test_hidden_and_linked_files_of_an_earlier_run_are_kept(
    run: Run, library: Library, tmp_path: Path
) -> None:
    """So are their tags, which exist nowhere else."""
    root = library({".hidden.md": "# H\n\nhidden\n", "a.md": "# A\n", "b.md": "# B\n"})
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "c.md").write_text("# C\n\nlinked\n")
    (root / "link").symlink_to(tmp_path / "elsewhere")
    run("ingest", root, "--hidden", "--follow-links")
    for name in ("lib/.hidden.md", "lib/link/c.md"):
        run("tag", name, "--add", "mine")
    (root / "b.md").unlink()
    told = run("ingest")
    assert "\n0 added, 0 changed, 1 unchanged, 1 removed" in told.out
    assert "lib/: 2 documents are kept, but not updated without --hidden" in told.err
    assert run("list", "--tags", "mine").lines == ["lib/.hidden.md", "lib/link/c.md"]
    (root / ".hidden.md").unlink()
    (root / "link").unlink()
    told = run("ingest")
    assert "2 removed" in told.out
    assert "kept" not in told.err


def test_hidden_files_and_links(run: Run, library: Library, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("# Outside\n\nelsewhere\n")
    root = library({".hidden.md": "# H\n\nhidden\n"})
    (root / "link.md").symlink_to(outside)
    run("ingest", root)
    assert run("list").out == ""
    run("ingest", root, "--hidden")
    assert run("list").lines == ["lib/.hidden.md"]
    run("ingest", root, "--hidden", "--follow-links")
    assert run("list").lines == ["lib/.hidden.md", "lib/link.md"]


def test_a_bar_on_a_terminal(library: Library, on_terminal: Callable[..., str]) -> None:
    root = library({f"{number}.md": f"# N{number}\n\ntext\n" for number in range(30)})
    assert "30 added" in on_terminal("ingest", str(root))
    plain = on_terminal("ingest", str(root), TERM="dumb")
    assert ESCAPE not in plain


def test_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    show = _line_reporter(lambda: now[0])
    for second in range(12):
        now[0] = second
        show("read", second, 12, "a.md")
    show("indexing", 100, 0, "")
    now[0] = 60
    show("indexing", 200, 0, "")
    now[0] = 70
    show("read", 3.4, 12, "lib/long.txt", "40 %, 512 passages")
    told = capsys.readouterr()
    assert told.err == (
        "read: 5 of 12\nread: 10 of 12\nindexing: 200\n"
        "read: 3 of 12, lib/long.txt: 40 %, 512 passages\n"
    )
    assert told.out == ""


def test_a_file_that_is_partly_read_counts_in_part() -> None:
    shown: list[tuple[object, ...]] = []

    def show(stage: str, done: float, total: int, item: str, detail: str = "") -> None:
        shown.append((stage, done, total, item, detail))

    for now in (
        Progress("read", 3, 9, "a.txt"),
        Progress("read", 3, 9, "a.txt", part=1, parts=4),
        Progress("read", 3, 9, "a.txt", part=4, parts=4, chunks=1024),
        Progress("read", 3, 9, "a.txt", chunks=256),
    ):
        ingest._show(now, show)
    assert shown == [
        ("read", 3.0, 9, "a.txt", ""),
        ("read", 3.25, 9, "a.txt", "25 %"),
        ("read", 3.99, 9, "a.txt", "100 %, 1,024 passages"),
        ("read", 3.0, 9, "a.txt", "256 passages"),
    ]


def test_an_interruption_inside_a_long_file(
    run: Run, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interruption is like Ctrl-C. There is a single file, so that the store has no root
    either."""
    root = library({"long.txt": "\n\n".join("word " * 300 for _ in range(600))})

    @contextmanager
    def interrupting(_invocation: object) -> Iterator[progress.ProgressReporter]:
        def show(stage: str, done: float, total: int, item: str, detail: str = "") -> None:
            if detail:
                raise KeyboardInterrupt

        yield show

    with monkeypatch.context() as patched:
        patched.setattr(progress, "reporter", interrupting)
        told = run("ingest", root / "long.txt")
    assert (told.status, told.out) == (130, "")
    said = "interrupted: finished files are in the store; to read the rest, run the same command"
    assert told.err.startswith(said)
    assert run("list").out == ""
    assert run("doctor").status == 0
    assert run("ingest", root / "long.txt").lines[-1].startswith("1 added,")
    assert run("doctor").status == 0


def test_long_paths_keep_their_end() -> None:
    assert _shorten("a/b.md") == "a/b.md"
    assert _shorten("x" * 100 + "/b.md") == "…" + "x" * 34 + "/b.md"


def test_a_renamed_file_is_reported(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".kb").mkdir()
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "a.md").write_text("# A\n\ntext\n")
    monkeypatch.chdir(tmp_path)
    run("ingest", "lib")
    (tmp_path / "lib" / "a.md").rename(tmp_path / "lib" / "b.md")
    told = run("ingest", "-v").lines
    assert told[0] == "~ lib/a.md -> lib/b.md"
    assert " 1 renamed in " in told[1]
    assert "renamed" not in run("ingest").out
