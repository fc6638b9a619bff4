from __future__ import annotations

import pytest

from kb.text.headings import heading_text


@pytest.mark.parametrize(
    ("title", "path", "text"),
    [
        ("Ropes", (), "Ropes"),
        ("Ropes", ("Wear",), "Ropes › Wear"),
        ("Ropes", ("Ropes", "Wear"), "Ropes › Wear"),
        ("Ropes", ("Wear", "Ropes"), "Ropes › Wear › Ropes"),
    ],
)
def test_the_title_is_not_repeated(title: str, path: tuple[str, ...], text: str) -> None:
    assert heading_text(title, path) == text
