"""Searches as people type them: remembered phrases, identifiers, file names, and long documents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kb import KnowledgeBase
from tests.models.weightless import Weightless

FILES = {
    "errors.md": 'The message "could not open the log file because another process has locked it" '
    "appears on Windows. Close the other program.",
    "files.md": "Open the log, then a process writes the file. Another log file is locked because "
    "it is open in another process. Could the process open it?",
    "deploy-checklist.md": "Before a release, tag the commit and tell the team.",
    "lookup.py": "def getUserName(request_id):\n    return ask(request_id)['src/kb/config.py']\n",
    "names.md": "The user of a name server requests an id. User names are long. config is a py.",
}


@pytest.fixture(params=["model", "words"])
def kb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KnowledgeBase]:
    folder = tmp_path / "files"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    encoder = Weightless() if request.param == "model" else "none"
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder=encoder) as opened:
        opened.ingest(folder)
        if request.param == "model":
            opened.embed()
        yield opened


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("could not open the log file because another process has locked it", "errors.md"),
        ("could not open the log file because process has locked it", "errors.md"),  # lost
        ("could not open the log file because another program has locked it", "errors.md"),
        ("why could not open the log file because a process has locked it here", "errors.md"),
        ("deploy-checklist", "deploy-checklist.md"),
        ("deploy-checklist.md", "deploy-checklist.md"),
        ("getUserName", "lookup.py"),
        ("getusername", "lookup.py"),
        ("request_id", "lookup.py"),
        ("src/kb/config.py", "lookup.py"),
        ("config.py", "lookup.py"),
    ],
)
def test_the_first_hit(kb: KnowledgeBase, query: str, expected: str) -> None:
    assert kb.search(query).hits[0].doc_path == f"files/{expected}"


def test_a_document_has_three_of_the_first_ten_hits(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    # Each part is a passage of its own, and no two have nearly the same words.
    words = [[f"word{part}x{n}" for n in range(200)] for part in range(17)]
    parts = [f"## Part {n}\n\nA harbour, the harbour. {' '.join(each)}\n"
             for n, each in enumerate(words[:8])]  # fmt: skip
    (folder / "long.md").write_text("\n".join(parts))
    for n in range(9):
        (folder / f"{n}.md").write_text(f"The harbour of town {n}. {' '.join(words[8 + n])}")
    with KnowledgeBase(tmp_path / "kb.sqlite", encoder="none") as kb:
        kb.ingest(folder)
        first = kb.search("harbour", top=10).hits
        long = [hit for hit in first if hit.doc_path == "files/long.md"]
        assert len(long) == 3
        assert long[-1].more_in_document == 5
        assert "5 more in this document" in long[-1].others
        everything = kb.search("harbour", top=20).hits  # they follow, below the first ten
        assert sum(hit.doc_path == "files/long.md" for hit in everything) == 8
        unlimited = kb.search("harbour", top=10, collapse=False).hits
        assert sum(hit.doc_path == "files/long.md" for hit in unlimited) > 3
