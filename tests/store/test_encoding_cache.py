"""Cached encodings are identical bit for bit, bounded in size, and optional."""

from __future__ import annotations

from array import array
from pathlib import Path

import apsw
import pytest

from kb.store.encoding_cache import EncodingCache
from kb.types import Encoding
from tests.models.weightless import Weightless

ENCODER = Weightless()
PARTS = frozenset({"dense", "sparse", "tokens"})


def encoded(*texts: str) -> dict[str, Encoding]:
    return dict(zip(texts, ENCODER.encode(texts, want=PARTS), strict=True))


def number(cache: EncodingCache, encoder: Weightless = ENCODER) -> int:
    model_id = cache.model(encoder.spec, encoder.encode(["probe"], want=PARTS)[0])
    assert model_id is not None
    return model_id


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "encodings.sqlite"


def test_another_process_reads_the_same_encodings(path: Path) -> None:
    made = encoded("copper guard", "ログ", "")
    first = EncodingCache(path)
    first.put(number(first), made)
    first.close()
    second = EncodingCache(path)
    assert second.get(number(second), made, PARTS) == made
    assert second.get(number(second), ["other"], PARTS) == {}
    second.close()


def test_only_requested_parts_are_returned(path: Path) -> None:
    cache = EncodingCache(path)
    cache.put(number(cache), encoded("a"))
    [found] = cache.get(number(cache), ["a"], {"dense"}).values()
    assert found.dense is not None
    assert (found.sparse, found.tokens) == (None, None)


def test_a_part_that_was_not_kept_is_not_known(path: Path) -> None:
    cache = EncodingCache(path)
    cache.put(number(cache), {"a": Encoding(dense=array("f", [1.0]))})
    assert cache.get(number(cache), ["a"], {"dense"})
    assert cache.get(number(cache), ["a"], {"dense", "sparse"}) == {}


def test_other_weights_under_the_same_name_drop_the_cache(path: Path) -> None:
    """A model that was trained further under the same name must not be measured with old
    vectors."""
    cache = EncodingCache(path)
    cache.put(number(cache), encoded("a"))
    other = cache.model(ENCODER.spec, Encoding(dense=array("f", [0.5, 0.5])))
    assert other is not None
    assert cache.get(other, ["a"], {"dense"}) == {}
    assert cache.get(number(cache), ["a"], {"dense"}) == {}


def test_models_do_not_see_each_other(path: Path) -> None:
    cache = EncodingCache(path)
    cache.put(number(cache), encoded("a"))
    newer = Weightless(version="2")
    assert cache.get(number(cache, newer), ["a"], {"dense"}) == {}
    assert cache.get(number(cache), ["a"], {"dense"})


@pytest.mark.parametrize("change", ["dense = zeroblob(length(dense))", "dense = 'text'"])
def test_a_changed_row_is_ignored(path: Path, change: str) -> None:
    cache = EncodingCache(path)
    model_id = number(cache)
    cache.put(model_id, encoded("a", "b"))
    cache.close()
    with apsw.Connection(str(path)) as db:
        db.execute(f"UPDATE encodings SET {change} WHERE rowid = 1")
    again = EncodingCache(path)
    assert list(again.get(model_id, ["a", "b"], {"dense"})) == ["b"]


@pytest.mark.parametrize("content", [b"not a database, though long enough" * 100, b""])
def test_a_damaged_file_is_deleted(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    cache = EncodingCache(path)
    assert cache.usable
    cache.put(number(cache), encoded("a"))
    assert cache.get(number(cache), ["a"], {"dense"})


def test_a_file_with_another_layout_is_deleted(path: Path) -> None:
    path.parent.mkdir()
    with apsw.Connection(str(path)) as db:
        db.execute("PRAGMA user_version = 99")
    cache = EncodingCache(path)
    assert cache.usable
    assert cache.get(number(cache), ["a"], {"dense"}) == {}


def test_without_a_folder_nothing_is_cached(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = EncodingCache(tmp_path / "file" / "encodings.sqlite")
    assert not cache.usable
    assert cache.model(ENCODER.spec, encoded("a")["a"]) is None
    cache.put(1, encoded("a"))
    assert cache.get(1, ["a"], {"dense"}) == {}
    cache.close()


def test_it_stays_within_bounds(path: Path) -> None:
    texts = [f"text number {at}" for at in range(200)]
    made = encoded(*texts)
    cache = EncodingCache(path, limit_bytes=20_000)
    model_id = number(cache)
    cache.put(model_id, made)
    cache.close()
    again = EncodingCache(path, limit_bytes=20_000)
    kept = again.get(model_id, texts, {"dense"})
    assert 0 < len(kept) < 200
    assert texts[-1] in kept  # the first written goes first
    assert texts[0] not in kept
    again.close()
    assert path.stat().st_size < 100_000
