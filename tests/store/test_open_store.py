"""Opening stores by URL, and passing one to a knowledge base."""

from __future__ import annotations

from pathlib import Path

import pytest

import kb.store
from kb import KnowledgeBase
from kb.errors import InvalidRequest
from kb.store import local_path, open_store


@pytest.mark.parametrize("prefix", ["", "sqlite://"])
def test_a_path_and_its_url_open_the_same_store(tmp_path: Path, prefix: str) -> None:
    file = tmp_path / "my store.sqlite"
    store = open_store(f"{prefix}{file}")
    assert store.path == local_path(f"{prefix}{file}") == file
    store.create()
    assert file.exists()
    store.close()


def test_a_path_may_begin_with_two_slashes(tmp_path: Path) -> None:
    for url in (f"/{tmp_path}/kb.sqlite", f"sqlite:///{tmp_path}/kb.sqlite"):
        with KnowledgeBase(url) as kb:
            kb.add("text")
            assert kb.documents()


def test_urls_are_decoded(tmp_path: Path) -> None:
    assert local_path(f"sqlite://{tmp_path}/my%20store.sqlite") == tmp_path / "my store.sqlite"


def test_an_unknown_scheme_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    for call in (open_store, local_path, KnowledgeBase):
        with pytest.raises(InvalidRequest, match="mysql://") as error:
            call("mysql://localhost/kb")
        assert "sqlite:///" in error.value.hint


def test_a_knowledge_base_opens_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite://{tmp_path}/kb.sqlite"
    with KnowledgeBase(url) as one:
        one.add("text")
        assert one.path == tmp_path / "kb.sqlite"
    monkeypatch.setenv("KB_STORE", url)
    with KnowledgeBase() as same:
        assert len(same.documents()) == 1


def test_a_store_can_be_injected(tmp_path: Path) -> None:
    store = open_store(tmp_path / "own.sqlite")
    with KnowledgeBase(store=store) as one:
        one.add("text")
        assert one.path == store.path
    with KnowledgeBase(tmp_path / "own.sqlite") as same:
        assert len(same.documents()) == 1


def test_a_kind_of_store_is_one_line_of_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with the two functions is all that another scheme needs."""
    monkeypatch.setitem(kb.store._PACKAGES, "broken", "tests.store.broken_store")
    with KnowledgeBase("broken://somewhere") as one:
        assert repr(one) == "KnowledgeBase('/nowhere/somewhere')"
        with pytest.raises(NotImplementedError):
            one.documents()
