"""Links and tags in Markdown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.text.wikilinks import inline_tags, keys_of, link_key, links_in


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[[Anchors]] and [[sea/Tide#Neap|the tide]]", ("anchors", "sea/tide")),
        ("![[hull.png]] ![x](pictures/keel.jpg)", ("hull.png", "pictures/keel.jpg")),
        ("[a](../Sea/Anchors.md#kedge) [b](<with space.md>)", ("sea/anchors", "with space")),
        ('[a](a%20b.md "title") [[a b]]', ("a b",)),
        ("[[Note\\|in a table]] [[Note^block]]", ("note",)),
        ("[web](https://example.org/a.md) [mail](mailto:a@b.c) [top](#top)", ()),
        ("`[[code]]`\n\n```\n[[fenced]]\n```\n\n    [[indented]]\n", ()),
        ("%% [[hidden]] %% <!-- [[hidden]] --> [[shown]]", ("shown",)),
        ('[r][ref]\n\n[ref]: data.md\n  [b]: <a b.md#c> "t"\n[c]:\n/d.md', ("data", "a b", "d")),
        ("[^1]: note.md\n[x]: two words\n[w]: https://a.example\n\n    [code]: x.md\n[]: y.md", ()),
        ("[[]] [[ ]] [](x [[a\nb]]", ()),
        ("``[[code]] ` more`` [[a]] ` [[b]] <!-- [[c]] %% [[d]] %% [[e]] -->`", ("a",)),
        ("`` [[a]] ` [[b]]\n` <!-- [[c]] %% [[d]]", ("a", "b", "c", "d")),
        ("%% <!-- %% [[a]] --> [[b]] <!-- %% --> [[c]] %%", ("a", "b", "c")),
    ],
)
def test_links(text: str, wanted: tuple[str, ...]) -> None:
    assert links_in(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("#boat and (#winter) #sea/tide #größe-2", ("boat", "winter", "sea/tide", "größe-2")),
        ("# Heading\n## Another\n#123 #fff #a1b2c3 a#b x/#y ##no #", ()),
        ("`#code`\n```\n#fenced\n```", ()),
        ("#a, #b. #c!", ("a", "b", "c")),
        ("see [Counting](#counting), [](#types) and [x][r]\n\n[r]: #anchor", ()),
    ],
)
def test_tags(text: str, wanted: tuple[str, ...]) -> None:
    assert inline_tags(text) == wanted


def test_keys() -> None:
    assert keys_of("lib/Sea/Anchors.md#L3") == ("lib/sea/anchors", "sea/anchors", "anchors")
    assert link_key("./a/../b.markdown") == "b"


@given(st.text(alphabet="[]()#|`~%<!-ab. \n/\\"))
def test_any_text(text: str) -> None:
    assert all(key and key == key.casefold() for key in links_in(text))
    assert all(inline_tags(text))
    keys_of(text)


def test_long_texts_take_linear_time() -> None:
    units = ("[[", "[](", "`", "~~~\n", "%%", "<!--", "#a ", "[[a|", "](<")
    for unit in (*units, "[a]:", "[a]: b ", "\n[", "[a]:\n"):
        links_in(unit * 100_000)
        inline_tags(unit * 100_000)


def test_hostile_texts_take_linear_time() -> None:
    """An endless search would stop the tests; the units are searched for only with a link."""
    for unit in ("`", "`a``b", "``a", "%% <!--", "<!--", "<!-- %%", "\t`", "[[a#b", '](a "'):
        links_in("[[x]] #t " + unit * 200_000)
        inline_tags("[[x]] #t " + unit * 200_000)
