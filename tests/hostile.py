"""A store with a search that takes minutes, unless it is stopped."""

from __future__ import annotations

import random
from pathlib import Path

from kb import KnowledgeBase

# Each prefix is every word of every passage, and is read twice: to match, and to rank.
EXPRESSION = f"'{' OR '.join(['a*'] * 250)}'"
_PARAGRAPHS, _WORDS = 1_000, 280


def make(path: Path) -> None:
    """Passages whose words all begin with an a, and one that is found quickly."""
    chance = random.Random(7)
    words = [f"a{chance.randrange(10**6):x}" for _ in range(40_000)]
    folder = path.parent / "lib"
    folder.mkdir(parents=True)
    paragraphs = (" ".join(chance.choices(words, k=_WORDS)) for _ in range(_PARAGRAPHS))
    (folder / "hostile.txt").write_text("\n\n".join(paragraphs))
    (folder / "harbour.txt").write_text("The harbour master keeps the keys.\n")
    with KnowledgeBase(path, encoder="none") as kb:
        kb.ingest(folder)
