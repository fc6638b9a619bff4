"""The judge that runs an ONNX graph: a score for a query and a passage that are read together.

Pairs go in one a run and side by side in threads, which share one loaded graph. So a pair's score
is the same to the last bit whatever else is scored: an int8 graph finds its scales over the whole
batch.

Reading a pair costs what its tokens cost, so a pair is cut: the query after 64 tokens, and the
passage after 192, or after what the query leaves of 224. With four layers in int8, 100 passages of
150 tokens take 1.4 s of one core, and no passage can make that much longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from kb.errors import InvalidRequest, ModelBroken, ModelError
from kb.models import manifest as manifests
from kb.models.manifest import MEND, SCORE, Manifest
from kb.models.onnx import cores
from kb.models.session import Session, load
from kb.types import ModelSpec
from kb.words import nfc

if TYPE_CHECKING:
    from tokenizers import Encoding as Pieces

QUERY_TOKENS = 64
PASSAGE_TOKENS = 192
PAIR_TOKENS = 224  # both, without the special tokens
# No token is made of more characters than that, but for words that become a single unknown one:
# what follows cannot be seen, and need not be cut into tokens first.
_TOKEN_CHARS = 40


class Pairs:
    """A `tokenizer.json`, for two texts at a time. Shared between threads."""

    def __init__(self, path: Path, max_tokens: int) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(path))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._tokenizer.encode_special_tokens = True  # a text may say [SEP] and mean the word
        special = self._tokenizer.num_special_tokens_to_add(is_pair=True)
        self._room = min(PAIR_TOKENS, max_tokens - special)
        if self._room < 2:
            raise ValueError(f"{max_tokens} tokens leave no room for a query and a passage")

    def query(self, text: str) -> Pieces:
        return self._pieces(text, min(QUERY_TOKENS, self._room // 2))

    def pair(self, query: Pieces, passage: str) -> tuple[list[int], list[int]]:
        """Ids and kinds of both: the passage in what room the query leaves."""
        room = min(PASSAGE_TOKENS, self._room - len(query))
        both = self._tokenizer.post_process(query, self._pieces(passage, room))
        return both.ids, both.type_ids

    def _pieces(self, text: str, room: int) -> Pieces:
        seen = nfc(text[: room * _TOKEN_CHARS])
        pieces = self._tokenizer.encode(seen, add_special_tokens=False)
        if len(pieces) > room:
            pieces.truncate(room)
        return pieces


@dataclass(frozen=True, slots=True)
class _Loaded:
    session: Session
    pairs: Pairs
    pool: ThreadPoolExecutor


class OnnxJudge:
    """A judge from a folder with a `model.json`. Nothing is loaded before the first pair."""

    def __init__(self, manifest: Manifest, *, provider: str = "auto", threads: int = 0) -> None:
        self.manifest = manifest
        self._provider = provider
        self._threads = threads or cores()
        self._lock = Lock()
        self._loaded: _Loaded | None = None

    @property
    def spec(self) -> ModelSpec:
        return self.manifest.spec

    def check(self) -> None:
        """Raises where a file is missing or has another size; loads nothing."""
        manifests.check_sizes(self.manifest)

    def load(self) -> _Loaded:
        """Load the model now, where the first pair need not wait for it."""
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> _Loaded:
        manifests.check_hashes(self.manifest)  # a graph with a byte changed loads, and judges
        session = load(self.manifest, self._provider)
        pool = ThreadPoolExecutor(self._threads, "kb-judge")
        return _Loaded(session, _pairs(self.manifest), pool)

    def scores(self, query: str, passages: Sequence[str]) -> list[float]:
        if isinstance(passages, str):
            raise InvalidRequest("scores takes a list of passages", "give [text] for a single one")
        if not passages:
            return []
        loaded = self.load()
        one = partial(self._score, loaded, loaded.pairs.query(query))
        # A single pair is not worth the way to another thread and back.
        return list(map(one, passages) if len(passages) < 2 else loaded.pool.map(one, passages))

    def _score(self, loaded: _Loaded, query: Pieces, passage: str) -> float:
        ids, kinds = loaded.pairs.pair(query, passage)
        name = self.manifest.outputs[SCORE]
        values = loaded.session.run(ids, (name,), kinds)[name]
        if values.size != 1 or not isfinite(score := float(values.item())):
            raise ModelBroken(f"{self.spec.name} gave no usable score of a pair", MEND)
        return score


def _pairs(manifest: Manifest) -> Pairs:
    path = manifest.path(manifests.TOKENIZER)
    try:
        import tokenizers  # noqa: F401  # before the file: neither is blamed for the other
    except (ImportError, OSError) as error:
        raise ModelError(
            f"tokenizers cannot be loaded: {error}", "pip install --force-reinstall tokenizers"
        ) from error
    try:
        return Pairs(path, manifest.spec.max_tokens)
    # The library raises bare Exceptions for files that it cannot read.
    except Exception as error:
        raise ModelBroken(f"{path} cannot be loaded: {error}", MEND) from error
