"""The best chunks of many scores are those that sorting all of them gives."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kb.index.selection import best_chunks


@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 3000),
    st.sampled_from([1, 2, 10, 40, 5000]),
    st.sampled_from([0, 1, 7]),
    st.booleans(),
    st.sampled_from([3, 50, 10**9]),
)
def test_the_best_are_those_of_a_sort(
    seed: int, count: int, limit: int, hidden_count: int, is_filtered: bool, levels: int
) -> None:
    chance = np.random.default_rng(seed)
    ids = chance.permutation(2 * count)[:count].astype(np.int64)
    scores = chance.integers(-1, levels, count) / levels
    hidden = ids[np.argsort(-scores)][:hidden_count].tolist()
    allowed = np.sort(ids[: count // 3]) if is_filtered else None
    seen = {*(ids if allowed is None else allowed).tolist()} - {*hidden}
    pairs = [
        (one, score)
        for one, score in zip(ids.tolist(), scores.tolist(), strict=True)
        if score > 0 and one in seen
    ]
    expected = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:limit]
    assert best_chunks(scores, ids, allowed=allowed, hidden=hidden, limit=limit) == expected
