from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from kb import KnowledgeBase
from kb.ingest import front_matter, yaml_attributes
from kb.ingest.front_matter import FrontMatter, merge
from kb.metadata import LANG_CHARS, MAX_TAGS, TAG_CHARS
from kb.text.normalize import nfc
from kb.types import Attributes

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def read(*lines: str, end: str = "---") -> FrontMatter:
    return front_matter.read("\n".join(("---", *lines, end, "body")), NOW)


def test_every_key() -> None:
    front = read(
        "title: A  title",
        "tags: [one, '#two', three]",
        "kind: decision",
        "scope: project",
        "trust: secondary",
        "lang: no",
        "date: 2026-01-02",
        "updated: 2026-01-03T10:00:00+01:00",
        "expires: 2027-01-01",
    )
    assert front == FrontMatter(
        Attributes(
            title="A title",
            tags=("one", "two", "three"),
            kind="decision",
            scope="project",
            trust="secondary",
            lang="no",
            date="2026-01-02",
            created_at="2026-01-02T00:00:00Z",
            updated_at="2026-01-03T09:00:00Z",
            expires_at="2027-01-01T00:00:00Z",
        ),
        lines=11,
    )


def test_none() -> None:
    assert front_matter.read("# Heading\n\ntext", NOW) == FrontMatter()
    assert front_matter.read("", NOW) == FrontMatter()
    assert front_matter.read("---", NOW) == FrontMatter()


def test_empty() -> None:
    assert read() == FrontMatter(lines=2)


def test_closed_by_dots() -> None:
    assert read("title: x", end="...").lines == 3


@pytest.mark.parametrize(
    ("written", "tags"),
    [
        ("tags: 'one, two words, #three'", ("one", "two words", "three")),
        ("tags: '#one #two'", ("one", "two")),
        ("tags: one two", ("one", "two")),
        ("tags: one", ("one",)),
        ("tags: 2026", ("2026",)),
        ("tags: [a, a, ' ', b]", ("a", "b")),
        ("tags:", ()),
        ("tags:\n- yes\n- 1.0", ("yes", "1.0")),
    ],
)
def test_tags(written: str, tags: tuple[str, ...]) -> None:
    assert read(written).attributes.tags == tags


def test_text_is_kept_as_written() -> None:
    assert read("title: 1.10").attributes.title == "1.10"
    assert read("title: Yes").attributes.title == "Yes"
    assert read("title: null").attributes.title is None


def test_keys_in_other_spellings() -> None:
    front = read("Title: x", "created_at: 2026-01-02", "Expires-At: 2026-05-01")
    assert front.attributes.title == "x"
    assert front.attributes.date == "2026-01-02"
    assert front.attributes.expires_at == "2026-05-01T00:00:00Z"


def test_unknown_keys_are_metadata_that_json_can_carry() -> None:
    front = read(
        "rating: 5", "ratio: 0.5", "done: yes", "due: 2026-02-30", "seen: 2026-01-02 10:00:00",
        "nan: .nan", "inf: -.inf", "at: 12:30", "id: 007", "huge: " + "9" * 5000, "none: ~",
        "1: one", "nested: {a: [1, b]}", "? [x, y]\n: pair",
    )  # fmt: skip
    metadata = dict(front.attributes.metadata)
    assert metadata.pop("huge") == "9" * 5000
    assert metadata == {
        "rating": 5, "ratio": 0.5, "done": True, "due": "2026-02-30",
        "seen": "2026-01-02T10:00:00Z", "nan": ".nan", "inf": "-.inf", "at": "12:30", "id": "007",
        "none": None, "1": "one", "nested": {"a": [1, "b"]}, "['x', 'y']": "pair",
    }  # fmt: skip
    json.dumps(metadata, allow_nan=False)


@pytest.mark.parametrize(
    "line",
    [
        "kind: gossip",
        "scope: galaxy",
        "trust: blind",
        "date: soon",
        "ttl: soon",
        "expires: later",
        "title: [a]",
        "tags: [[a], b]",
        "kind: {a: b}",
    ],
)
def test_a_value_that_cannot_be_used_is_a_warning(line: str) -> None:
    front = read(line)
    (warning,) = front.warnings
    assert line.partition(":")[0] in warning
    assert front.lines == 3


def test_ttl_counts_from_the_date_it_names() -> None:
    assert read("ttl: 7d", "date: 2026-01-01").attributes.expires_at == "2026-01-08T00:00:00Z"


def test_ttl_counts_from_now_without_a_date() -> None:
    assert read("ttl: 12h").attributes.expires_at == "2026-03-02T00:00:00Z"


def test_ttl_never() -> None:
    assert read("ttl: never") == FrontMatter(lines=3)


def test_expires_goes_before_ttl() -> None:
    front = read("ttl: 7d", "expires: 2030-01-01")
    assert front.attributes.expires_at == "2030-01-01T00:00:00Z"
    assert read("ttl: 7d", "expires: never").attributes.expires_at is None


def test_duplicate_keys_warn_and_the_last_counts() -> None:
    front = read("title: one", "Title: two", "x: 1", "x: 2")
    assert front.attributes.title == "two"
    assert front.attributes.metadata == {"x": 2}
    assert len(front.warnings) == 2


@pytest.mark.parametrize(
    "lines",
    [
        ["title: [unclosed"],
        ["a: b: c"],
        ["\tx: 1"],
        ["x: \x07"],
        ["a: 1", "--- b"],
        ["x: '\\U00110000", '"\\U00110000"'],
    ],
)
def test_broken_yaml_is_text_with_a_warning(lines: list[str]) -> None:
    front = read(*lines)
    assert front.lines == 0
    assert front.attributes == Attributes()
    assert "read as text" in front.warnings[0]


def test_a_paragraph_between_two_rules_is_text() -> None:
    assert read("just words") == FrontMatter()
    assert read("- a", "- b") == FrontMatter()


def test_a_block_without_end_is_text() -> None:
    front = front_matter.read("---\ntitle: x\n\ntext", NOW)
    assert front.lines == 0
    assert front.warnings


def test_billion_laughs_are_refused() -> None:
    lines = ["a: &a [x, x]"] + [f"{b}: &{b} [*{a}, *{a}]" for a, b in ("ab", "bc", "cd", "de")]
    front = read(*lines)
    assert front.lines == 0
    assert "aliases" in front.warnings[0]


@pytest.mark.parametrize("loader", ["SafeLoader", "CSafeLoader"])
@pytest.mark.parametrize("text", ["[" * 5000, "- " * 5000, "{a: " * 5000, "? " * 5000])
def test_deep_nesting_is_refused(text: str, loader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_attributes, "_Loader", getattr(yaml, loader, yaml.SafeLoader))
    assert read(text).lines == 0


@pytest.mark.parametrize(("extra", "is_read"), [(0, True), (1, False)])
def test_a_block_has_at_most_64_kib(extra: int, is_read: bool) -> None:
    padding = "x" * (front_matter.LIMIT_CHARS - len("title: one\nabout: \n") + extra)
    found = read("title: one", f"about: {padding}")
    assert (found.attributes.title == "one") == is_read
    told = "front matter has 65,537 characters; the limit is 65,536, so it is read as text"
    assert found.warnings == (() if is_read else (told,))


def test_a_line_that_only_begins_like_the_end_does_not_end_a_long_block() -> None:
    padding = "x" * (front_matter.LIMIT_CHARS - len("title: one\nabout: \n") - 2)
    found = read("title: one", f"about: {padding}", "---not the end")
    assert found.lines == 0
    assert "limit" in found.warnings[0]


def test_tags_of_python_objects_are_plain_text() -> None:
    assert read("x: !!python/name:os.system a").attributes.metadata == {"x": "a"}


yaml_like = st.text(alphabet=st.sampled_from(list("ab1:-#&*!|>'\"%@`{}[],?~.\n\t \\é\x00\ufeff")))


@given(st.text() | yaml_like)
@example("a: &x 1\nb: *x")
@example("!!binary x: !!set {a}\n<<: {c: d}")
def test_no_text_raises(block: str) -> None:
    front = front_matter.read(nfc(f"---\n{block}\n---\nbody"), NOW)
    json.dumps(dict(front.attributes.metadata), allow_nan=False)
    json.dumps(dict(front.attributes.metadata), ensure_ascii=False).encode()


@given(st.text())
def test_no_file_raises(text: str) -> None:
    front_matter.read(nfc(text), NOW)


def test_merged() -> None:
    asked = Attributes(title="asked", tags=("a",), metadata={"x": 1})
    written = Attributes(title="written", tags=("b", "a"), kind="lesson", metadata={"x": 0, "y": 2})
    assert merge(asked, written) == Attributes(
        title="asked", tags=("a", "b"), kind="lesson", metadata={"x": 1, "y": 2}
    )


# --- unknown keys ---------------------------------------------------------------------------------


def test_keys_that_are_not_known_are_text() -> None:
    front = read("title: x", "tags: [a]", "owner: Zacharias", "# why", "date: 2026-01-01")
    (block,) = front.blocks()
    assert block.text == "owner: Zacharias\n# why\ndate: 2026-01-01\n---"
    assert (block.span.start, block.span.end) == (4, 7)


def test_values_that_are_ignored_are_text() -> None:
    assert read("title: x", "kind: gossip").text == "kind: gossip\n---"
    assert read("title: one", "kind: note", "title: two").text.startswith("title: one\n")
    assert read("title: x", "tags: a", "date: 2026-01-01", "ttl: 7d").blocks() == []


@pytest.mark.parametrize("name", ["a.md", "a.txt", "a.rst", "a.adoc", "a.org"])
def test_the_first_passage_has_it(kb: KnowledgeBase, tmp_path: Path, name: str) -> None:
    (tmp_path / "notes").mkdir()
    text = "---\ntitle: Chain\nowner: Zacharias\nports: [Lisbon, {Genoa: 7}]\n---\n\nThe body.\n"
    (tmp_path / "notes" / name).write_text(text)
    kb.ingest(tmp_path / "notes")
    for word in ("Zacharias", "Lisbon", "Genoa"):
        hit, *_ = kb.search(word, mode="lexical")
        assert hit.citation.uri == f"notes/{name}#L3-L7"
        passage = kb.get(hit.citation.uri)
        assert (passage.state, passage.text) == ("exact", text[text.index("owner") :].strip())


def test_a_note_is_not_named_after_it(kb: KnowledgeBase) -> None:
    written = kb.add("---\nowner: Zacharias\n---\n\nOrder more chain\n")
    assert kb.get(written.doc_path).document.title == "Order more chain"


def test_tags_and_a_language_beyond_the_bounds_stay_text() -> None:
    tags = [f"t{n:04}" for n in range(MAX_TAGS + 1)]
    long = "longest" * TAG_CHARS
    front = read(f"tags: [{long}, {', '.join(tags)}]", f"lang: {'zyx' * LANG_CHARS}")
    assert front.attributes.tags == tuple(tags[:MAX_TAGS])
    assert front.attributes.lang is None
    assert len(front.warnings) == 3
    assert "longer than 200 characters" in front.warnings[0]
    assert "after the first 1,000 are ignored: 't1000'" in front.warnings[1]
    assert "longer than 35 characters" in front.warnings[2]
    assert all(len(warning) < 300 for warning in front.warnings)
    assert long in front.text
    assert tags[-1] in front.text


def test_metadata_beyond_the_bound_stays_text(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    text = f"---\nshort: 1\nlong: {'漢' * 30_000} needle\nlast: 2\n---\nbody\n"
    (folder / "a.md").write_text(text, encoding="utf-8")
    with KnowledgeBase(tmp_path / "kb.sqlite") as kb:
        report = kb.ingest(folder)
        assert "metadata beyond 65,536 bytes is ignored: 'long'" in str(report)
        (document,) = kb.documents()
        assert document.metadata == {"short": 1, "last": 2}
        assert len(kb.search("needle").hits) == 1


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["title: Winter # zacharias", "kind: fact"], "title: Winter # zacharias\nkind: fact\n---"),
        (["kind: decision", "# zacharias", "lang: de"], "# zacharias\nlang: de\n---"),
        (["tags:", "  - boat  # zacharias"], "  - boat  # zacharias\n---"),
        (["tags: [boat, #", "  shed]"], "tags: [boat, #\n  shed]\n---"),
        (["title: C# and F#", "tags: ['#boat', \"a #b\"]"], ""),
        (["title: >", "  one # two", "  three", "lang: de"], ""),
        (["title: größe # größer"], "title: größe # größer\n---"),
    ],
)
def test_comments_are_text(lines: list[str], text: str) -> None:
    assert read(*lines).text == text


def test_a_title_beyond_the_bound_is_cut_and_stays_text() -> None:
    front = read("kind: decision", f"title: {'word ' * 500}zacharias")
    assert front.attributes.title == ("word " * 100).rstrip()
    assert front.text.startswith("title: word word")
    assert "zacharias" in front.text
    assert front.warnings == ("front matter: the title is cut after 500 characters",)
