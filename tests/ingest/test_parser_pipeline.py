"""Short files are parsed ahead, in one process. If a file crashes the process, only that file
fails."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from kb.ingest import indexer, parser_pool
from kb.ingest.decode import Unreadable
from kb.ingest.parser_limits import Limits
from kb.ingest.parser_pipeline import MAX_FILE_BYTES, ParserPipeline, PipelinedParsing
from kb.ports import Source
from tests.ingest.conftest import Library

LIMITS = Limits(1 << 30, 60.0)
BAD = "tests.ingest.plug_ins:Misbehaving"


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    parser_pool.close()


@pytest.fixture
def pipeline() -> Iterator[ParserPipeline]:
    pipeline = ParserPipeline(1800, LIMITS, lambda: None)
    yield pipeline
    pipeline.close()


def markdown(pipeline: ParserPipeline, text: str) -> PipelinedParsing:
    return pipeline.start("markdown", Source("a.md", text.encode()))


def bad(pipeline: ParserPipeline, words: str) -> PipelinedParsing:
    return pipeline.start(BAD, Source("a.bad", words.encode()))


def text_of(parsing: PipelinedParsing) -> str:
    with parsing:
        return " ".join(chunk.text for chunk in parsing.document().chunks)


def test_each_file_gets_its_own_result(pipeline: ParserPipeline) -> None:
    sent = [markdown(pipeline, f"text {number}") for number in range(50)]
    assert [text_of(parsing) for parsing in sent] == [f"text {number}" for number in range(50)]


def test_in_any_order(pipeline: ParserPipeline) -> None:
    sent = [markdown(pipeline, f"text {number}") for number in range(9)]
    assert [text_of(parsing) for parsing in reversed(sent)] == [
        f"text {number}" for number in reversed(range(9))
    ]


def test_more_than_the_pipe_holds(pipeline: ParserPipeline) -> None:
    """The two sides do not deadlock."""
    texts = [f"{number} " + "words " * (MAX_FILE_BYTES // 6 - 20) for number in range(30)]
    sent = [markdown(pipeline, text) for text in texts]
    assert all(text_of(one).split() == text.split() for one, text in zip(sent, texts, strict=True))


def test_all_files_run_in_one_process(pipeline: ParserPipeline) -> None:
    pids = set()
    for parsing in [bad(pipeline, "behave") for _ in range(5)]:
        with parsing:
            pids.add(parsing.document().attributes.metadata["pid"])
    assert len(pids) == 1


@pytest.mark.parametrize("how", ["crash", "leave", "raise_much"])
def test_a_bad_file_fails_alone(pipeline: ParserPipeline, how: str) -> None:
    sent = [markdown(pipeline, "before"), bad(pipeline, how)]
    sent += [markdown(pipeline, f"after {number}") for number in range(3)]
    assert text_of(sent[0]) == "before"
    with pytest.raises(Unreadable):
        text_of(sent[1])
    assert [text_of(parsing) for parsing in sent[2:]] == ["after 0", "after 1", "after 2"]


def test_a_bad_file_whose_turn_comes_later(pipeline: ParserPipeline) -> None:
    """Its result arrives while a later file waits for its own."""
    culprit = bad(pipeline, "crash")
    later = markdown(pipeline, "later")
    assert text_of(later) == "later"
    with pytest.raises(Unreadable, match="crashed"):
        text_of(culprit)


def test_a_file_that_is_given_up(pipeline: ParserPipeline) -> None:
    first, second = markdown(pipeline, "first"), markdown(pipeline, "second")
    first.close()
    assert text_of(second) == "second"


def test_the_language_comes_with_the_document(pipeline: ParserPipeline) -> None:
    with markdown(pipeline, "数据库连接失败的时候，请检查网络设置。") as parsing:
        document = parsing.document()
    assert (document.lang, document.lang_detected) == ("zh", True)
    with markdown(pipeline, "---\nlang: fr\n---\ntexte") as parsing:
        document = parsing.document()
    assert (document.attributes.lang, document.lang_detected) == ("fr", False)


def test_a_large_folder_is_indexed_as_a_small_one(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same documents and passages, with and without a pipeline."""
    for number in range(40):
        library.put(f"{number:02}.md", f"# Note {number}\n\nThe gateway {number} waits.\n")
    library.put("20.txt", "word " * 20_000)  # too long for the pipeline
    library.put("30.md", "---\ntitle: Thirty\ntags: [a]\n---\ntext\n")
    library.put("31.md", b"\xff\xfe\x00binary\x00")
    library.put("32.md", "")

    def content() -> list[object]:
        return [
            (one.doc_path, one.title, one.lang, one.tags, one.content_hash,
             [chunk.text for chunk in library.store.catalog.chunks(one.doc_id)])
            for one in library.documents().values()
        ]  # fmt: skip

    report = library.ingest("")
    expected = content()
    library.store.catalog.delete_documents([one.doc_id for one in library.documents().values()])
    monkeypatch.setattr(indexer, "_WORTH_PIPELINE", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    again = library.ingest("")
    assert content() == expected
    assert (again.added, again.failed, again.skipped) == (
        report.added, report.failed, report.skipped,
    )  # fmt: skip
