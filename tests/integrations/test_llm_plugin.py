"""The plug-in for `llm`."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("llm")
from kb.integrations import llm_plugin


def test_tool_and_fragments(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KB_STORE", str(store))
    assert llm_plugin.kb_search("kedge") == (
        "[lib/anchors.md#L1-L3]\n# Anchors\n\nThe kedge holds in mud."
    )
    assert llm_plugin.kb_search("'zzz'") == "nothing found"
    (fragment,) = llm_plugin._fragments("kedge")
    assert fragment.source == "lib/anchors.md#L1-L3"


def test_llm_finds_it() -> None:
    from llm.plugins import load_plugins, pm

    load_plugins()
    if not any("kb" in str(plugin) for plugin in pm.get_plugins()):
        pm.register(llm_plugin)
    import llm

    assert "kb_search" in llm.get_tools()
    assert "kb" in llm.get_fragment_loaders()
