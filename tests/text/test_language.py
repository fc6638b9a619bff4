from __future__ import annotations

import importlib.util

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb import Filters, KnowledgeBase
from kb.text import language
from kb.text.language import detect_language

needs_langid = pytest.mark.skipif(
    importlib.util.find_spec("py3langid") is None, reason="the extra `lang` is not installed"
)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("数据库连接失败的时候，请检查网络设置。", "zh"),
        ("データベースの接続に失敗した場合は、確認してください。", "ja"),
        ("데이터베이스에 연결할 수 없으면 확인하세요.", "ko"),
        ("ฐานข้อมูลเชื่อมต่อไม่ได้", "th"),
        ("使用 kubernetes 部署服务, then run kubectl apply", "zh"),
        ("Η βάση δεδομένων δεν απαντά.", "el"),
        ("1234 5678 !?", None),
        ("", None),
    ],
)
def test_script_decides(text: str, code: str | None) -> None:
    assert detect_language(text) == code


def test_a_name_in_another_script_does_not_decide() -> None:
    text = "The paper of 王小明 is about databases and how they store what was written. " * 3
    assert detect_language(text) != "zh"


@needs_langid
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("The database did not answer, so we had to look at the log of the night before.", "en"),
        ("Die Datenbank antwortete nicht, deshalb sahen wir uns das Protokoll der Nacht an.", "de"),
        ("La base de données ne répondait pas, alors nous avons regardé le journal.", "fr"),
        ("База данных не отвечала, поэтому мы посмотрели журнал за прошлую ночь.", "ru"),
    ],
)
def test_words_decide_within_a_script(text: str, code: str) -> None:
    assert detect_language(text) == code


def test_without_the_library_the_language_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "_identifier", lambda: None)
    assert detect_language("The database did not answer, so we had to look at the log.") is None


@needs_langid
@given(st.text(min_size=1))
def test_all_bytes_at_once_score_as_one_by_one(text: str) -> None:
    """The faster walk through the automaton of py3langid ends in the same states."""
    from py3langid.langid import LanguageIdentifier

    identifier = language._identifier()
    encoded = identifier._encode(text)
    ours, theirs = (
        method(identifier, encoded)
        for method in (language._raw_score, LanguageIdentifier._raw_score)
    )
    assert ours.tolist() == pytest.approx(theirs.tolist(), rel=1e-4, abs=1e-3)


@given(st.text())
def test_any_text_has_a_language_or_none(text: str) -> None:
    code = detect_language(text)
    assert code is None or 2 <= len(code) <= 3


def test_notes_can_be_filtered_by_language(kb: KnowledgeBase) -> None:
    kb.add("数据库 kubernetes", title="zh")
    kb.add("データベース kubernetes", title="ja")
    kb.add("kubernetes", title="said", lang="ja")
    found = kb.search("kubernetes", filters=Filters(lang="ja"))
    assert {hit.title for hit in found} == {"ja", "said"}
