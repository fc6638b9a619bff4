"""A store with vectors of kb-mini 2 stays searchable, and can switch to kb-mini 3."""

from __future__ import annotations

from pathlib import Path

import pytest

from kb import KnowledgeBase

NOTES = {
    "backup": "Make a backup of the database every night, and keep the copies for a week.",
    "ja": "アカウントの新しいパスワードを選ぶには、メールのリンクをクリックします。",
}


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """A store as kb wrote it when kb-mini was an English model."""
    path = tmp_path / "kb.sqlite"
    with KnowledgeBase(path, encoder="kb-mini-english") as kb:
        for title, text in NOTES.items():
            kb.add(text, title=title)
        kb.embed()
    return path


def test_its_vectors_are_used(earlier: Path) -> None:
    with KnowledgeBase(earlier, encoder="kb-mini") as kb:
        response = kb.search("how often are copies made", mode="vector")
        assert response.hits[0].title == "backup"
        assert not [one for one in response.degraded if one.reason == "model_mismatch"]
        kb.add("The train leaves from platform four.", title="train")
        kb.embed()
        assert kb.search("railway", mode="vector").hits[0].title == "train"
        encoder = kb.encoder()
        assert encoder is not None
        assert encoder.spec.version == "2"


def test_it_switches_with_reindex(earlier: Path) -> None:
    with KnowledgeBase(earlier, encoder="kb-mini") as kb:
        kb.reindex("kb-mini", grace_s=0)
        assert kb.search("How can I change my password?").hits[0].title == "ja"
    with KnowledgeBase(earlier, encoder="kb-mini") as kb:
        encoder = kb.encoder()
        assert encoder is not None
        assert encoder.spec.version == "3"
        assert kb.search("How can I change my password?").hits[0].title == "ja"
