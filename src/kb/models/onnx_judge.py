"""The judge that runs an ONNX graph: one score for a query and a passage read together.

Each pair is a separate run, and threads run pairs in parallel on one loaded graph. So the score of
a pair is the same to the last bit, whatever else is scored: an int8 graph computes its scales over
the whole batch.

The cost of a pair grows with its tokens, so both texts are truncated: the query to 64 tokens, the
passage to 192 or to what the query leaves of 224. With four int8 layers, 100 passages of 150 tokens
take 1.4 s on one core, and long passages take little more.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING

from kb.errors import InvalidRequest, ModelBroken
from kb.models.manifest import HINT, SCORE
from kb.models.onnx_model import LoadedModel, OnnxModel
from kb.text.normalize import nfc

if TYPE_CHECKING:
    from pathlib import Path

    from tokenizers import Encoding as Pieces

QUERY_TOKENS = 64
PASSAGE_TOKENS = 192
PAIR_TOKENS = 224  # both texts, without special tokens
# The longest token in characters, except for unknown words: text beyond this many characters per
# token would be truncated anyway, and need not be tokenized.
_TOKEN_CHARS = 40


class PairTokenizer:
    """Tokenizes a query and a passage together with a `tokenizer.json`. Threads may share it."""

    def __init__(self, path: Path, max_tokens: int) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(path))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._tokenizer.encode_special_tokens = True  # [SEP] in a text is an ordinary word
        special = self._tokenizer.num_special_tokens_to_add(is_pair=True)
        self._room = min(PAIR_TOKENS, max_tokens - special)
        if self._room < 2:
            raise ValueError(f"{max_tokens} tokens leave no room for a query and a passage")

    def query(self, text: str) -> Pieces:
        """Tokenize a query, for several calls of `pair`."""
        return self._pieces(text, min(QUERY_TOKENS, self._room // 2))

    def pair(self, query: Pieces, passage: str) -> tuple[list[int], list[int]]:
        """The token ids and type ids of both texts. The passage is truncated to the tokens that the
        query leaves room for."""
        room = min(PASSAGE_TOKENS, self._room - len(query))
        both = self._tokenizer.post_process(query, self._pieces(passage, room))
        return both.ids, both.type_ids

    def _pieces(self, text: str, room: int) -> Pieces:
        start = nfc(text[: room * _TOKEN_CHARS])
        pieces = self._tokenizer.encode(start, add_special_tokens=False)
        if len(pieces) > room:
            pieces.truncate(room)
        return pieces


class OnnxJudge(OnnxModel[PairTokenizer]):
    """A judge from a folder with a `model.json`."""

    _thread_name = "kb-judge"

    def _read_tokenizer(self, path: Path) -> PairTokenizer:
        return PairTokenizer(path, self.spec.max_tokens)

    def scores(self, query: str, passages: Sequence[str]) -> list[float]:
        if isinstance(passages, str):
            raise InvalidRequest("scores takes a list of passages", "pass [text] for a single one")
        if not passages:
            return []
        loaded = self.loaded()
        score_one = partial(self._score, loaded, loaded.tokenizer.query(query))
        # For a single pair, another thread is not worth the overhead.
        return list(
            map(score_one, passages) if len(passages) < 2 else loaded.pool.map(score_one, passages)
        )

    def _score(self, loaded: LoadedModel[PairTokenizer], query: Pieces, passage: str) -> float:
        ids, type_ids = loaded.tokenizer.pair(query, passage)
        name = self.manifest.outputs[SCORE]
        values = loaded.session.run(ids, (name,), type_ids)[name]
        if values.size != 1 or not isfinite(score := float(values.item())):
            raise ModelBroken(f"{self.spec.name} returned no usable score for a pair", HINT)
        return score
