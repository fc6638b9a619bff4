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
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING

from kb.errors import InvalidRequest, ModelBroken
from kb.models.manifest import MEND, SCORE
from kb.models.onnx_model import Loaded, OnnxModel
from kb.text.normalize import nfc

if TYPE_CHECKING:
    from pathlib import Path

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


class OnnxJudge(OnnxModel[Pairs]):
    """A judge from a folder with a `model.json`."""

    _work = "kb-judge"

    def _read_tokenizer(self, path: Path) -> Pairs:
        return Pairs(path, self.spec.max_tokens)

    def scores(self, query: str, passages: Sequence[str]) -> list[float]:
        if isinstance(passages, str):
            raise InvalidRequest("scores takes a list of passages", "give [text] for a single one")
        if not passages:
            return []
        loaded = self.loaded()
        one = partial(self._score, loaded, loaded.tokeniser.query(query))
        # A single pair is not worth the way to another thread and back.
        return list(map(one, passages) if len(passages) < 2 else loaded.pool.map(one, passages))

    def _score(self, loaded: Loaded[Pairs], query: Pieces, passage: str) -> float:
        ids, kinds = loaded.tokeniser.pair(query, passage)
        name = self.manifest.outputs[SCORE]
        values = loaded.session.run(ids, (name,), kinds)[name]
        if values.size != 1 or not isfinite(score := float(values.item())):
            raise ModelBroken(f"{self.spec.name} gave no usable score of a pair", MEND)
        return score
