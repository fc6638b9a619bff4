"""The files of the word index: one with all chunks, and smaller ones with what has changed since.

`kb.sqlite-words` has the postings of all chunks in one state of the store. `kb.sqlite-words-1` has
those of the chunks that changed up to a later state, `kb.sqlite-words-2` up to a still later one,
and so on. A file names the state that it continues, so that a chain is either valid or ends early:
if a process is killed between writing one file and removing those that it replaces, the others no
longer continue it, and are ignored. Files are never changed, only replaced.

A file is merged with the newer ones as soon as they are no longer much smaller. So there are few
files, and a chunk is rewritten once per size of file, not whenever a note is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kb.store.sqlite import array_file
from kb.store.sqlite.array_file import Content

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kb.index.word_postings import Postings

    Ids = NDArray[np.int64]

MAX_FILES = 8
_FAN = 4  # a file with at most this many times the chunks of the newer ones is merged with them
_KIND = "words"


class Mark(NamedTuple):
    """A state of all texts: the number of the last change, and its random stamp."""

    change: int
    stamp: int


NOTHING = Mark(0, 0)  # the state before the first file


class Layer(NamedTuple):
    """The postings of the chunks that changed from `since` to `mark`. The first layer has all
    chunks, and `changed` is empty."""

    since: Mark
    mark: Mark
    changed: Ids  # ascending; some may have been deleted
    postings: Postings


class Chain(NamedTuple):
    """The layers in files, oldest first, and for each a mask of the chunks that newer layers
    replace or delete; None if there are none."""

    layers: tuple[Layer, ...]
    gone: tuple[NDArray[np.bool_] | None, ...]

    @property
    def mark(self) -> Mark:
        return self.layers[-1].mark


@lru_cache
def paths(store: Path) -> tuple[Path, ...]:
    """The possible paths of the files. The first file has all chunks."""
    first = store.with_name(f"{store.name}-{_KIND}")
    return first, *(first.with_name(f"{first.name}-{n}") for n in range(1, MAX_FILES))


def identity(store: Path) -> tuple[tuple[int, ...], ...] | None:
    """A value that changes with any of the files; None if there is none."""
    known = []
    for path in paths(store):
        if (one := array_file.identity(path)) is None:
            break  # the chain ends here: later files are not read
        known.append(one)
    return tuple(known) or None


def read(store: Path, store_id: str) -> Chain | None:
    """The chain of files, as far as each continues the one before it; None if there is no intact
    file of this store with all chunks."""
    layers: list[Layer] = []
    for path in paths(store):
        owned = array_file.read(path, _KIND, _parse)
        since = layers[-1].mark if layers else NOTHING
        if owned is None or owned[0] != store_id or owned[1].since != since:
            break
        layers.append(owned[1])
    return chain_of(layers) if layers else None


def owner(store: Path) -> str | None:
    """The store that the first file belongs to; None if the file is damaged."""
    owned = array_file.read(paths(store)[0], _KIND, _parse)
    return None if owned is None else owned[0]


def chain_of(layers: Sequence[Layer]) -> Chain:
    import numpy as np

    gone: list[NDArray[np.bool_] | None] = []
    later = np.empty(0, np.int64)
    for layer in reversed(layers):
        gone.append(mask_gone(layer.postings.ids, later))
        if len(layer.changed):  # none in the first file; `union1d` loads `numpy.ma`, which is slow
            later = np.union1d(later, layer.changed)
    return Chain(tuple(layers), tuple(reversed(gone)))


def mask_gone(
    ids: Ids, changed: Ids, before: NDArray[np.bool_] | None = None
) -> NDArray[np.bool_] | None:
    """A mask of the replaced or deleted chunks: those of `before`, and those that changed; None if
    there are none."""
    import numpy as np

    places = np.searchsorted(ids, changed)
    places[places == len(ids)] = 0
    if len(ids):
        places = places[ids[places] == changed]
    if not len(ids) or not len(places):
        return before
    gone = np.zeros(len(ids), np.bool_) if before is None else before.copy()
    gone[places] = True
    return gone


def level(chain: Chain, changed: int) -> int:
    """The number of the file into which this many changed chunks belong, together with all chunks
    of the files from there on."""
    newer = changed
    target = len(chain.layers)
    for number in range(len(chain.layers) - 1, -1, -1):
        size = len(chain.layers[number].postings.ids)
        if size <= _FAN * newer or target >= MAX_FILES:
            target = number
        newer += size
    return target


def write(store: Path, store_id: str, number: int, layer: Layer) -> bool:
    """Write a file, and remove those that it replaces. Returns False if that is not possible."""
    about = {"store_id": store_id, "since": layer.since, "mark": layer.mark}
    content = Content(about, {**layer.postings.arrays(), "changed": layer.changed})
    path, *replaced = paths(store)[number:]
    if not array_file.write(path, _KIND, content, like=store):
        return False
    for each in replaced:
        with suppress(OSError):  # it is no longer part of the chain
            each.unlink(missing_ok=True)
    return True


def remove(store: Path) -> None:
    for path in paths(store):
        path.unlink(missing_ok=True)


def _parse(content: Content) -> tuple[str, Layer]:
    """The id of the file's store, and its layer. Checks that no number in it points outside the
    arrays."""
    from kb.index.word_postings import Postings

    def array(name: str, dtype: str, *shape: int) -> NDArray[Any]:
        return array_file.check_array(content, name, dtype, *shape)

    def unsigned(name: str) -> str:
        return f"u{min(4, content.arrays[name].dtype.itemsize)}"

    since, mark = (
        Mark(*array_file.check_numbers(content.about[name], len(Mark._fields)))
        for name in ("since", "mark")
    )
    changed = array("changed", "i8", -1)
    ids, term_ends = array("ids", "i8", -1), array("term_ends", "i8", -1)
    places = array("places", unsigned("places"), -1)
    postings = Postings(
        ids=ids,
        lengths=array("lengths", "u4", len(ids)),
        term_bytes=array("term_bytes", "u1", -1),
        term_ends=term_ends,
        starts=array("starts", "i8", len(term_ends) + 1),
        places=places,
        counts=array("counts", unsigned("counts"), len(places)),
        pair_bits=array("pair_bits", "u1", -1),
        pair_ends=array("pair_ends", "i8", len(ids)),
    )
    array_file.check_ascending(ids)
    array_file.check_ascending(changed)
    array_file.check_bounds(term_ends, first=0, last=len(postings.term_bytes))
    array_file.check_bounds(postings.starts, first=0, last=len(places))
    array_file.check_bounds(postings.pair_ends, first=1, last=len(postings.pair_bits))
    if len(places) and int(places.max()) >= len(ids):
        raise ValueError("places")
    return str(content.about["store_id"]), Layer(since, mark, changed, postings)
