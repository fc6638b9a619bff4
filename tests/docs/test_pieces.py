"""Blocks that are not commands, with the environment they need."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from zlib import crc32

import pytest

from tests.docs.pages import DOCS, Block, blocks
from tests.docs.reading import Reader
from tests.docs.reading import reader as reader_at
from tests.models.serving import Answer, ReceivedRequest, answer, serving

WORDS = {"KB_MODELS_ENCODER": "none"}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the reader has a POSIX shell")


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return reader_at(tmp_path)


def block_of(page: str, language: str, holding: str) -> Block:
    (found,) = (
        block
        for block in blocks(DOCS / "how-to" / page)
        if block.language == language and holding in block.text
    )
    return found


def bag_of_words(text: str, dimension: int) -> list[float]:
    """The simplest possible model."""
    vector = [0.0] * dimension
    for word in text.lower().split():
        vector[crc32(word.encode()) % dimension] += 1.0
    return vector


def test_programs_and_links_as_the_page_sets_them(reader: Reader) -> None:
    (reader.folder / ".kb").mkdir()
    told = block_of("code.md", "toml", "editor =").text.replace("code --goto", "echo")
    (reader.folder / ".kb" / "config.toml").write_text(told, encoding="utf-8")
    (reader.folder / "a.md").write_text("# Ropes\n\nsplice them\n", encoding="utf-8")
    steps = "kb config trust --yes && kb ingest a.md && kb search splice --json && kb open a.md#L3"
    status, printed = reader.run(steps, **WORDS)
    assert status == 0, printed
    assert "/a.md:3" in printed
    assert "vscode://file/" in printed


def test_a_language_model_as_the_page_sets_it(reader: Reader) -> None:
    told = block_of("ask.md", "toml", "endpoint_url").text
    settings = tomllib.loads(told)["ask"]
    event = {"choices": [{"delta": {"content": "They are four seconds wide. [1]"}}]}

    def respond(asked: ReceivedRequest) -> Answer:
        assert asked.path == "/v1/chat/completions"
        assert asked.json["model"] == settings["endpoint_model"]
        body = f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n".encode()
        return Answer(200, body, {"Content-Type": "text/event-stream"})

    with serving(respond) as server:
        own = reader.folder / "settings.toml"
        own.write_text(told.replace(settings["endpoint_url"], f"{server.url}/v1"), encoding="utf-8")
        (reader.folder / "a.md").write_text("# Slots\n\nThe slots are four seconds wide.\n")
        steps = "kb ingest a.md && kb ask how wide are the slots"
        status, printed = reader.run(steps, **WORDS, KB_CONFIG=str(own))
    assert status == 0, printed
    assert "They are four seconds wide. [1]" in printed
    assert "a.md#L" in printed


def test_an_endpoint_as_the_page_sets_it(reader: Reader) -> None:
    """A server with OpenAI's API, at another address than on the page."""
    told = block_of("models.md", "toml", "endpoint_url").text
    settings = tomllib.loads(told)["models"]
    prefixes = settings["endpoint_query_prefix"], settings["endpoint_passage_prefix"]

    def respond(asked: ReceivedRequest) -> Answer:
        assert (asked.path, asked.json["model"]) == ("/v1/embeddings", settings["endpoint_model"])
        texts = asked.json["input"]
        assert all(text.startswith(prefixes) for text in texts), texts
        vectors = [bag_of_words(text, settings["endpoint_dimension"]) for text in texts]
        return answer({"data": [{"index": at, "embedding": it} for at, it in enumerate(vectors)]})

    with serving(respond) as server:
        (reader.folder / ".kb").mkdir()
        (reader.folder / ".kb" / "config.toml").write_text(
            re.sub(r"http://localhost:\d+", server.url, told), encoding="utf-8"
        )
        assert reader.run("kb config trust --yes")[0] == 0
        status, printed = reader.run('kb embed-text "a text"')
        assert (status, "768 dimensions" in printed) == (0, True), printed
        untried = {"KB_MODELS_EXAM": "false"}  # the model would fail it
        reindex = "kb add --no-embed Ropes && kb reindex --model endpoint"
        status, printed = reader.run(reindex, **untried)
        assert (status, "searches now use" in printed) == (0, True), printed
    listed = reader.run("kb models")[1]
    assert f"* endpoint {settings['endpoint_model']}" in listed


def test_a_parser_of_another_package(reader: Reader) -> None:
    """The page's program and entry point work when installed as pip installs them."""
    program = block_of("papers.md", "python", "class BibParser")
    ((group, names),) = tomllib.loads(block_of("papers.md", "toml", "kb_bib").text)["project"][
        "entry-points"
    ].items()
    site = reader.home / "site"
    about = site / "kb_bib-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "kb_bib.py").write_text(program.text, encoding="utf-8")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: kb-bib\nVersion: 1.0\n")
    named = [f"{name} = {place}" for name, place in names.items()]
    (about / "entry_points.txt").write_text("\n".join([f"[{group}]", *named, ""]))
    (reader.folder / "mooring.bib").write_text("@book{ropes,\n  title = {Ropes}\n}\n")
    installed = {**WORDS, "PYTHONPATH": str(site)}
    status, printed = reader.run("kb init && kb ingest mooring.bib", **installed)
    assert (status, "1 added" in printed) == (0, True), printed
    assert "mooring.bib#L1-L3" in reader.run("kb search --type bib ropes", **installed)[1]
