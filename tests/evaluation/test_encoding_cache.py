"""An encoder that caches passages."""

from __future__ import annotations

from pathlib import Path

from kb.evaluation.encoding_cache import FILE, PROBE, cached_encoder
from kb.ports import ModelTraits, traits_of
from tests.models.weightless import Weightless

ALL = frozenset({"dense", "sparse", "tokens"})


def test_a_second_run_encodes_nothing_again(tmp_path: Path) -> None:
    texts = ["copper guard", "battery", "copper guard"]
    plain = Weightless().encode(texts, want=ALL)
    for fresh in (True, False):
        inner = Weightless()
        with cached_encoder(inner, tmp_path) as encoder:
            assert encoder.encode(texts, want=ALL) == plain
        expected = [(PROBE,), ("copper guard", "battery")] if fresh else [(PROBE,)]
        assert inner.calls == expected


def test_queries_are_encoded_every_time(tmp_path: Path) -> None:
    """The cost of a query is measured."""
    inner = Weightless()
    with cached_encoder(inner, tmp_path) as encoder:
        encoder.encode(["q"], as_query=True)
        encoder.encode(["q"], as_query=True)
    assert inner.calls.count(("q",)) == 2


def test_progress_and_the_batch_size(tmp_path: Path) -> None:
    class Sized(ModelTraits, Weightless):
        batch_size = 3

    inner = Sized()
    told: list[int] = []
    with cached_encoder(inner, tmp_path) as encoder:
        encoder.encode(["a", "b"], on_progress=told.append)
        assert traits_of(encoder).batch_size == 3
        assert encoder.spec is inner.spec
    assert told == [2]


def test_without_a_usable_folder(tmp_path: Path) -> None:
    inner = Weightless()
    (tmp_path / "file").write_text("in the way")
    for folder in (None, tmp_path / "file"):
        with cached_encoder(inner, folder) as encoder:
            assert encoder is inner
    assert not (tmp_path / FILE).exists()
