from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kb import KnowledgeBase
from kb.ingest.escapes import unescape
from kb.text.normalize import nfc


@pytest.mark.parametrize(
    ("name", "text", "decoded"),
    [
        ("a.json", r'"M\u00fcnchen"', '"München"'),
        ("a.json", r'"Mu\u0308nchen"', '"München"'),
        ("a.json", r'"\u6771\u4eac"', '"東京"'),
        ("a.json", r'"\ud83d\ude00 \ud83d x"', '"😀 \ufffd x"'),
        ("a.json", r'"one\ntwo\tthree\r\nfour"', '"one two three  four"'),
        ("a.json", r'"C:\\new \"quoted\" \/ \u0022 \u005c"', r'"C:\\new \"quoted\" / \" \\"'),
        ("a.json", r'"a\u2028b\u0000c\u0085d\u00a0e"', '"a b c d e"'),
        ("a.json", r'"soft\u00adhyphen"', '"soft\u00adhyphen"'),
        ("a.json", r'"\u12" \x "\u', r'"\u12" \x "\u'),
        ("a.yaml", r'a: "\u6771\u4EAC M\xFCnchen \U0001F600 \x41 \\u00fc C:\new"',
         r'a: "東京 München 😀 \x41 \\u00fc C:\new"'),
        ("a.properties", r"city=M\u00fcnchen", "city=München"),
        ("a.toml", r'city = "M\u00fcnchen"', 'city = "München"'),
        ("a.xml", "<p>M&#252;nchen &#x6771; &uuml; &amp; &lt;b&gt; &unheard;</p>",
         "<p>München 東 ü &amp; &lt;b&gt; &unheard;</p>"),
        ("a.py", r'"M\u00fcnchen"', r'"M\u00fcnchen"'),
        ("a.txt", r"M\u00fcnchen", r"M\u00fcnchen"),
    ],
)  # fmt: skip
def test_escapes(name: str, text: str, decoded: str) -> None:
    assert unescape(name, text) == decoded


def test_a_text_without_escapes_is_the_same_object() -> None:
    text = 'C:\\\\ "quoted" &amp;'
    assert unescape("a.json", text) is text
    assert unescape("a.xml", text) is text


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp", "Zs"])))
def test_what_is_decoded_stays_json(text: str) -> None:
    assert json.loads(unescape("a.json", json.dumps(text))) == nfc(text)


@given(st.text())
def test_lines_stay_lines(text: str) -> None:
    for name, dumped in (("a.json", json.dumps([text], indent=1)), ("a.yaml", yaml.dump([text]))):
        assert unescape(name, dumped).count("\n") == dumped.count("\n")


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.yaml", "a.xml"])
def test_a_passage_is_opened_as_it_was_indexed(
    kb: KnowledgeBase, tmp_path: Path, name: str
) -> None:
    escaped = "&#26481;&#20140;" if name == "a.xml" else r"\u6771\u4eac"
    (tmp_path / name).write_text(f'"one"\n"two {escaped} zacharias"\n"three"\n')
    kb.ingest(tmp_path / name)
    (hit,) = kb.search("東京", mode="lexical").hits
    passage = kb.get(hit.citation.uri)
    assert passage.state == "exact"
    assert "東京 zacharias" in passage.text
    assert kb.get(f"{hit.doc_path}#L2").text == '"two 東京 zacharias"'
