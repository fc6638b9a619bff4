"""Postings of words as bytes: a block for each term of a segment, which a store keeps in rows.

A block has the positions of n chunks and n weighted counts, as little-endian integers, and ends
with the number of bytes of a count. Positions have 16 bits, so a segment has at most `MAX_CHUNKS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kb.index.bm25 import Part
from kb.index.word_pairs import Signatures, select
from kb.index.word_postings import Postings
from kb.index.word_pruning import PhrasePostings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_CHUNKS = 1 << 16


def blocks(postings: Postings) -> Iterator[tuple[str, bytes]]:
    """Every term with its block, in the order of the terms."""
    assert len(postings.ids) <= MAX_CHUNKS
    wide = bool(len(postings.counts)) and int(postings.counts.max()) >= 1 << 16
    width = 4 if wide else 2
    places = postings.places.astype("<u2").tobytes()
    counts = postings.counts.astype(f"<u{width}").tobytes()
    end = bytes([width])
    starts = postings.starts.tolist()
    for term, low, high in zip(postings.terms(), starts, starts[1:], strict=False):
        yield term, places[2 * low : 2 * high] + counts[width * low : width * high] + end


def decode(data: bytes) -> PhrasePostings:
    """The postings of a block. Raises `ValueError` for bytes that `blocks` cannot have written."""
    import numpy as np

    width = data[-1] if data else 0
    count, rest = divmod(len(data) - 1, 2 + width)
    if width not in (2, 4) or rest:
        raise ValueError("a truncated block")
    return PhrasePostings(
        np.frombuffer(data, "<u2", count), np.frombuffer(data, f"<u{width}", count, 2 * count)
    )


def join(terms: Sequence[tuple[str, bytes]]) -> tuple[NDArray[np.int64], PhrasePostings]:
    """The postings of all terms one after another, and how many each term has."""
    import numpy as np

    each = [decode(data) for _, data in terms]
    none = PhrasePostings(np.empty(0, np.uint16), np.empty(0, np.uint16))
    return np.array([len(one.places) for one in each], np.int64), PhrasePostings(
        np.concatenate([none.places, *(one.places for one in each)]),
        np.concatenate([none.counts, *(one.counts for one in each)]),
    )


def merge(parts: Sequence[tuple[Part, Sequence[tuple[str, bytes]]]]) -> Postings:
    """One set of postings for several segments and their blocks. Deleted chunks are left out; the
    others keep their order."""
    import numpy as np

    names = sorted({term for _, terms in parts for term, _ in terms}, key=str.encode)
    number_of = {term: number for number, term in enumerate(names)}
    numbers, places, counts, ids, lengths, signatures = [], [], [], [], [], []
    before = 0
    for part, terms in parts:
        sizes, found = join(terms)
        kept = np.ones(len(part.postings.ids), np.bool_) if part.gone is None else ~part.gone
        moved = np.cumsum(kept) - 1 + before
        own = np.repeat(np.array([number_of[term] for term, _ in terms], np.int64), sizes)
        there = kept[found.places]
        numbers.append(own[there])
        places.append(moved[found.places[there]])
        counts.append(found.counts[there].astype(np.uint32))
        ids.append(part.postings.ids[kept])
        lengths.append(part.postings.lengths[kept])
        signatures.append(select(part.postings.signatures, kept))
        before += int(kept.sum())
    all_numbers = np.concatenate(numbers)
    order = np.argsort(all_numbers, kind="stable")  # positions ascend within a part, and by part
    present, sizes = np.unique(all_numbers, return_counts=True)
    encoded = [names[number].encode() for number in present.tolist()]
    pairs = _join(signatures)
    return Postings(
        ids=np.concatenate(ids),
        lengths=np.concatenate(lengths),
        term_bytes=np.frombuffer(b"".join(encoded), np.uint8),
        term_ends=np.cumsum([len(each) for each in encoded], dtype=np.int64),
        starts=np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]),
        places=np.concatenate(places)[order].astype(np.uint32),
        counts=np.concatenate(counts)[order],
        pair_bits=pairs.data,
        pair_ends=pairs.ends,
    )


def _join(parts: Sequence[Signatures]) -> Signatures:
    from kb.index.word_pairs import join as join_signatures

    return join_signatures(parts)
