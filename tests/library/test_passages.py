"""Opening citations: exact, moved, stale."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from unittest.mock import patch

import apsw
import pytest

from kb import Deadline, KnowledgeBase, wire
from kb.config import Config, SearchConfig
from kb.errors import InvalidCitation, NotFound
from kb.ingest.secret_files import BY_NAME
from kb.store.sqlite.connection import Database
from tests.replaced import REPLACEMENTS
from tests.schemas import validate
from tests.test_regular_files import posix, watchdog

Library = Callable[[dict[str, str]], Path]

NOTE = "# Title\n\nFirst paragraph.\n\n## Section\n\nSecond paragraph,\nof two lines.\n"


@pytest.fixture
def root(kb: KnowledgeBase, library: Library) -> Path:
    folder = library({"a.md": NOTE, "code.py": "def one():\n    return 1\n"})
    kb.ingest(folder)
    return folder


def test_an_unchanged_passage_is_exact(kb: KnowledgeBase, root: Path) -> None:
    passage = kb.get("lib/a.md#L5-L8")
    assert passage.state == "exact"
    assert passage.text == "## Section\n\nSecond paragraph,\nof two lines."
    validate(wire.passage(passage))


def test_any_lines_can_be_asked_for(kb: KnowledgeBase, root: Path) -> None:
    assert kb.get("lib/a.md#L7").text == "Second paragraph,"
    assert kb.get("lib/a.md#L3-L7").text.startswith("First paragraph.")


def test_lines_behind_the_end_are_not_cited(kb: KnowledgeBase, root: Path) -> None:
    passage = kb.get("lib/a.md#L7-L40")
    assert passage.state == "exact"
    assert passage.citation.uri == "lib/a.md#L7-L8"


def test_a_large_document_that_has_moved(kb: KnowledgeBase, library: Library) -> None:
    """Every passage is located by its first line, not line by line."""
    text = "".join(f"Line {number} of a long log.\n" for number in range(20_000))
    root = library({"log.txt": text})
    kb.ingest(root)
    (root / "log.txt").write_text("A new line.\n" + text)
    looks = count()
    unlimited = replace(Config(), search=SearchConfig(timeout_s=0.0))
    slow = Deadline(1e9, clock=lambda: float(next(looks)))
    with KnowledgeBase(kb.path, config=unlimited, encoder="none") as other, slow:
        passage = other.get("lib/log.txt#L1-L20000", count=False)
    assert (passage.state, passage.citation.uri) == ("moved", "lib/log.txt#L2-L20001")
    assert next(looks) < 20_000


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("lib/coed.py#L1", "lib/code.py"),
        ("lib/code.pyi", "lib/code.py"),
    ],
)
def test_a_name_that_is_nearly_right_is_told(
    kb: KnowledgeBase, root: Path, name: str, meant: str
) -> None:
    with pytest.raises(NotFound) as error:
        kb.get(name)
    assert error.value.hint == f"did you mean {meant}? kb list shows all documents"


def test_a_folder_is_not_a_document(kb: KnowledgeBase, root: Path) -> None:
    with pytest.raises(NotFound) as error:
        kb.get("lib")
    assert error.value.hint == "lib/ is a folder; kb list --path 'lib/**' shows its documents"


def test_a_name_like_no_other_gets_no_suggestion(kb: KnowledgeBase, root: Path) -> None:
    with pytest.raises(NotFound) as error:
        kb.get("elsewhere/thing.md")
    assert error.value.hint == "kb list shows all documents"


def test_a_passage_that_moved_is_found_again(kb: KnowledgeBase, root: Path) -> None:
    (root / "a.md").write_text("One more line above.\n\n" + NOTE)
    passage = kb.get("lib/a.md#L5-L8")
    assert passage.state == "moved"
    assert passage.citation.uri == "lib/a.md#L7-L10"
    assert passage.text == "## Section\n\nSecond paragraph,\nof two lines."
    kb.ingest(root)
    assert kb.get(passage.citation.uri).state == "exact"
    assert kb.get(passage.citation.uri).text == passage.text


def test_a_passage_that_is_gone_is_stale_and_still_shown(kb: KnowledgeBase, root: Path) -> None:
    (root / "a.md").write_text("# Title\n\nQuite another text.\n")
    passage = kb.get("lib/a.md#L5-L8")
    assert passage.state == "stale"
    assert "Second paragraph" in passage.text


def test_lines_must_be_equal_not_only_contain_the_text(kb: KnowledgeBase, library: Library) -> None:
    root = library({"a.txt": "The limit is 10\n", "b.txt": "no\n\nzzz\n"})
    kb.ingest(root)
    (root / "a.txt").write_text("The limit is 100\n")
    assert kb.get("lib/a.txt#L1").state == "stale"
    (root / "b.txt").write_text("zzz\n\nI know nothing\n")
    assert kb.get("lib/b.txt#L1").state == "stale"
    assert kb.get("lib/b.txt#L3").citation.uri == "lib/b.txt#L1"


def test_a_long_line_in_pieces_moves_as_one(kb: KnowledgeBase, library: Library) -> None:
    long = " ".join(f"word{number}" for number in range(1000))
    root = library({"a.txt": f"{long}\n"})
    kb.ingest(root)
    assert len(kb.chunks("lib/a.txt")) > 2
    assert kb.get("lib/a.txt#L1").state == "exact"
    (root / "a.txt").write_text(f"above\n\n{long}\n")
    passage = kb.get("lib/a.txt#L1")
    assert (passage.state, passage.citation.uri) == ("moved", "lib/a.txt#L3")


def test_a_whole_document_is_stale_when_its_file_has_changed(kb: KnowledgeBase, root: Path) -> None:
    (root / "a.md").write_text(NOTE + "\nOne line more.\n")
    assert kb.get("lib/a.md").state == "stale"
    assert "One line more." in kb.get("lib/a.md").text


def test_a_change_elsewhere_leaves_it_exact(kb: KnowledgeBase, root: Path) -> None:
    (root / "a.md").write_text(NOTE + "\n## Later\n\nMore.\n")
    assert kb.get("lib/a.md#L5-L8").state == "exact"


def test_a_file_that_is_gone_is_stale(kb: KnowledgeBase, root: Path) -> None:
    (root / "a.md").unlink()
    assert kb.get("lib/a.md#L5-L8").state == "stale"
    whole = kb.get("lib/a.md")
    assert whole.state == "stale"
    assert "First paragraph." in whole.text


def test_a_whole_document(kb: KnowledgeBase, root: Path) -> None:
    passage = kb.get("lib/a.md")
    assert passage.state == "exact"
    assert passage.text.strip() == NOTE.strip()


def test_code_is_cited_by_symbol(kb: KnowledgeBase, root: Path) -> None:
    (hit,) = kb.search("one", mode="lexical", filters=None).hits
    shape = wire.citation(hit.citation)
    assert (shape["kind"], shape["symbol"], shape["lang"]) == ("code", "one", "python")
    assert kb.get(hit.citation.uri).text == "def one():\n    return 1"


def test_a_note_is_always_exact(kb: KnowledgeBase) -> None:
    note = kb.add("first line\n\nsecond paragraph")
    (hit,) = kb.search("second").hits
    assert hit.doc_path == note.doc_path == "note:1"
    passage = kb.get(hit.citation.uri)
    assert passage.state == "exact"
    assert "second paragraph" in passage.text
    assert kb.get("note:1").text == "first line\n\nsecond paragraph"


@pytest.mark.parametrize("name", ["C#.md", "50%.md", "a b.md", "what?.md", "搜索.md", "#.md"])
def test_names_that_need_encoding(kb: KnowledgeBase, library: Library, name: str) -> None:
    kb.ingest(library({name: "needle here\n"}))
    (hit,) = kb.search("needle").hits
    assert kb.get(hit.citation.uri).text == "needle here"
    assert kb.get(f"lib/{name}").text.strip() == "needle here"


@pytest.mark.skipif(os.name == "nt", reason="file names are text there")
def test_a_name_that_is_not_utf8(kb: KnowledgeBase, library: Library) -> None:
    folder = library({"ok.md": "fine\n"})
    with open(os.path.join(os.fsencode(folder), b"caf\xe9.md"), "wb") as file:
        file.write(b"needle here\n")
    kb.ingest(folder)
    (hit,) = kb.search("needle").hits
    assert hit.doc_path == "lib/caf\\xe9.md"
    assert kb.get(hit.citation.uri).state == "exact"


def test_a_path_on_disk_finds_the_document(
    kb: KnowledgeBase, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kb.get(str(root / "a.md")).document.doc_path == "lib/a.md"
    monkeypatch.chdir(root)
    assert kb.get("a.md#L5").document.doc_path == "lib/a.md"


def test_a_file_is_found_by_any_of_the_roots_around_it(kb: KnowledgeBase, library: Library) -> None:
    root = library(
        {"sub/a.md": "one\n", "sub/b.md": "two\n", "sub/%41.md": "three\n", "sub/A.md": "x\n"}
    )
    kb.ingest(root / "sub" / "a.md")
    kb.ingest(root)
    assert kb.get(str(root / "sub" / "a.md")).text == "one"
    assert kb.get(str(root / "sub" / "b.md")).text == "two"
    assert kb.get(str(root / "sub" / "%41.md")).text == "three"


@pytest.mark.parametrize(
    "uri", ["lib/nosuch.md", "lib/a.md#L99", "note:99", "lib/a.md#page=2", "a%00b"]
)
def test_what_is_not_there(kb: KnowledgeBase, root: Path, uri: str) -> None:
    with pytest.raises(NotFound) as error:
        kb.get(uri)
    assert error.value.hint


@pytest.mark.parametrize("uri", ["lib/a.md#x", "lib/a.md#page=0", "lib/a.md#L3-L1"])
def test_what_is_no_citation(kb: KnowledgeBase, root: Path, uri: str) -> None:
    with pytest.raises(InvalidCitation):
        kb.get(uri)


def test_reading_counts_as_an_access_and_searching_does_not(kb: KnowledgeBase, root: Path) -> None:
    kb.search("paragraph")
    assert kb.document("lib/a.md").access_count == 0
    kb.get("lib/a.md#L5")
    kb.get("lib/a.md")
    assert kb.document("lib/a.md").access_count == 2


def test_reading_does_not_wait_for_a_writer(kb: KnowledgeBase, root: Path) -> None:
    """The access is counted with the next one."""
    with closing(apsw.Connection(str(kb.path))) as writer:
        writer.execute("BEGIN IMMEDIATE")
        waits: list[float] = []
        with patch.object(Database, "_begin", _recorded(Database._begin, waits)):
            assert kb.get("lib/a.md").state == "exact"
        assert len(waits) == 1
        assert waits[0] < 0.1
        writer.execute("ROLLBACK")
    assert kb.document("lib/a.md").access_count == 0
    kb.get("lib/code.py")
    assert [kb.document(f"lib/{name}").access_count for name in ("a.md", "code.py")] == [1, 1]


def _recorded(begin: Callable[..., None], waits: list[float]) -> Callable[..., None]:
    def begin_and_record(self: Database, connection: object, wait_s: float) -> None:
        waits.append(wait_s)
        begin(self, connection, wait_s)

    return begin_and_record


# --- replaced files -------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("kind", REPLACEMENTS)
@pytest.mark.parametrize("uri", ["lib/a.md", "lib/a.md#L5-L8"])
def test_what_takes_a_files_place_is_not_read(
    kb: KnowledgeBase, root: Path, kind: str, uri: str
) -> None:
    make, reason = REPLACEMENTS[kind]
    (root / "a.md").unlink()
    make(root / "a.md")
    with watchdog():
        passage = kb.get(uri)
        diagnosis = kb.doctor()
    assert (passage.state, passage.reason) == ("stale", f"its file was not read: {reason}")
    assert "Second paragraph," in passage.text
    assert "nobody" not in passage.text
    validate(wire.passage(passage))
    (files,) = (finding for finding in diagnosis.findings if finding.part == "files")
    assert (files.state, files.what) == ("warning", "2 files checked, 1 not readable")


@posix
def test_a_dangling_link_and_a_missing_file_are_gone(kb: KnowledgeBase, root: Path) -> None:
    (root / "a.md").unlink()
    assert kb.get("lib/a.md").reason == "its file no longer exists"
    (root / "a.md").symlink_to("nowhere")
    assert kb.get("lib/a.md").reason == "its file no longer exists"


@posix
def test_a_folder_or_a_root_behind_a_link_is_not_read(kb: KnowledgeBase, library: Library) -> None:
    root = library({"sub/a.md": NOTE})
    kb.ingest(root)
    outside = root.parent / "outside"
    (outside / "sub").mkdir(parents=True)
    (outside / "sub" / "a.md").write_text(NOTE + "nobody asked for this\n")
    for place, target in ((root / "sub", outside / "sub"), (root, outside)):
        place.rename(root.parent / f"{place.name}.aside")
        place.symlink_to(target)
        passage = kb.get("lib/sub/a.md")
        assert passage.state == "stale"
        assert passage.reason is not None
        assert passage.reason.startswith("its file was not read: ")
        assert "nobody" not in passage.text
        place.unlink()
        (root.parent / f"{place.name}.aside").rename(place)
    assert kb.get("lib/sub/a.md").state == "exact"


@posix
def test_a_link_inside_the_root_is_read(kb: KnowledgeBase, root: Path) -> None:
    (root / "a.md").rename(root / "b.md")
    (root / "a.md").symlink_to("b.md")
    assert kb.get("lib/a.md#L5-L8").state == "exact"


def test_a_file_above_the_limit_is_shown_as_it_was_indexed(
    tmp_path: Path, root: Path, kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_INGEST_MAX_FILE_BYTES", "20")
    with KnowledgeBase(kb.path) as strict:
        passage = strict.get("lib/a.md#L7-L8")
    assert passage.state == "stale"
    assert passage.reason == "its file was not read: larger than 20 bytes"
    assert passage.text == "Second paragraph,\nof two lines."


@posix
def test_a_file_that_keeps_a_secret_by_now_is_not_read(kb: KnowledgeBase, root: Path) -> None:
    """A link inside its folder is followed, but not to a secret."""
    (root / "a.md").rename(root / "server.key")
    (root / "a.md").symlink_to("server.key")
    assert kb.get("lib/a.md").reason == f"its file was not read: {BY_NAME}"


def test_a_file_that_has_become_a_key_is_not_read(kb: KnowledgeBase, root: Path) -> None:
    key = f"-----BEGIN PRIVATE KEY-----\n{'A' * 64}\n-----END PRIVATE KEY-----\n"
    (root / "a.md").write_text(key, encoding="utf-8")
    passage = kb.get("lib/a.md")
    assert "AAAA" not in passage.text
    assert passage.reason is not None
    assert "holds a private key" in passage.reason


# --- by the name of the file ----------------------------------------------------------------------


def test_a_file_name_that_only_one_document_has(kb: KnowledgeBase, library: Library) -> None:
    kb.ingest(library({"a/keys.md": NOTE, "a/x.md": NOTE, "b/x.md": NOTE + "x\n"}))
    assert kb.get("keys.md").document.doc_path == "lib/a/keys.md"
    assert kb.get("keys.md#L7").text == "Second paragraph,"
    assert kb.get("a/keys.md").document.doc_path == "lib/a/keys.md"
    with pytest.raises(NotFound) as error:
        kb.get("x.md")
    assert error.value.hint.startswith("several paths end with that: lib/a/x.md, lib/b/x.md; ")
    with pytest.raises(NotFound):
        kb.get("eys.md")
    with pytest.raises(NotFound):  # not for changes
        kb.remove("keys.md")
