"""The checks of `kb doctor` that are specific to SQLite: the file, its schema, rows and indexes.

Each check examines one part and returns one finding; `integrity` runs the SQL for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from kb.errors import StoreReadOnly
from kb.ports import Check
from kb.store.sqlite import vector_integrity
from kb.store.sqlite.integrity import DELETED
from kb.store.sqlite.schema_check import INDEXES
from kb.text.units import format_bytes
from kb.types import Finding

if TYPE_CHECKING:
    from kb.store.sqlite.integrity import Integrity

SAMPLED_CHUNKS = 20_000
_LOG_BYTES = 64 << 20  # a larger log means that a reader never ends
_FIX = "kb doctor --fix"
_RESTORE = "restore a backup, or remove the store and ingest again"
_INDEX_ONLY = re.compile(r"missing from index|wrong # of entries in index")
_CELL_ONLY = re.compile(r"constraint failed|NULL value in|non-unique entry|TEXT value|REAL value")


def checks(integrity: Integrity, rechunk_note: Callable[[int], None]) -> Iterator[Check]:
    """All checks, in an order in which no repair undoes an earlier one: indexes come last."""
    repair = partial(_repair_cells, integrity, rechunk_note)
    vectors = integrity.vectors
    yield Check("sqlite", partial(_file, integrity), partial(_repair_file, integrity, repair))
    yield Check("schema", partial(_schema, integrity), integrity.add_missing_parts)
    yield Check("cells", partial(_cells, integrity), repair)
    yield Check("journal", partial(_journal, integrity), integrity.use_log)
    yield Check("log", partial(_log, integrity), integrity.checkpoint)
    yield Check("orphans", partial(_orphans, integrity), integrity.delete_orphans)
    yield Check("counters", partial(_counters, integrity), integrity.recount)
    yield Check("columns", partial(_columns, integrity), integrity.refill)
    yield Check("text", partial(_text, integrity))
    for table in INDEXES:
        yield Check(table, partial(_index, integrity, table), partial(integrity.rebuild, table))
    yield Check("words", partial(_word_file, integrity), integrity.words.remove_file)
    yield Check("embeddings", partial(_embeddings, integrity), vectors.drop_damaged)
    yield Check("postings", partial(_postings, integrity), vectors.rebuild_postings)
    yield Check("chunks_vec", partial(_vec_table, integrity), vectors.rebuild_table)
    yield Check("vectors", partial(_vector_file, integrity), vectors.rewrite_file)


# --- the file -------------------------------------------------------------------------------------


def _file(integrity: Integrity) -> Finding:
    problems = integrity.problems()
    if not problems:
        return Finding("sqlite", "ok", "the file is sound")
    derived = all(_INDEX_ONLY.search(one) or _CELL_ONLY.search(one) for one in problems)
    what = "; ".join(problems[:5])
    return Finding("sqlite", "error", what, _FIX if derived else _RESTORE)


def _repair_file(integrity: Integrity, repair_cells: Callable[[], str]) -> str:
    """Rebuild SQLite's own indexes; repair values that violate a constraint."""
    by_cells = any(_CELL_ONLY.search(problem) for problem in integrity.problems())
    left = repair_cells() if by_cells else ""
    integrity.reindex()
    return left


def _schema(integrity: Integrity) -> Finding:
    missing = integrity.missing_parts()
    if not missing:
        return Finding("schema", "ok", "no table, index or trigger is missing")
    derived = all(kind != "table" or name.startswith("chunks_") for name, kind in missing.items())
    what = ", ".join(f"{kind} {name}" for name, kind in missing.items())
    return Finding("schema", "error", f"missing or changed: {what}", _FIX if derived else _RESTORE)


def _journal(integrity: Integrity) -> Finding:
    if integrity.has_log():
        return Finding("journal", "ok", "write-ahead log: readers do not wait for writers")
    return Finding("journal", "warning", "no write-ahead log: readers wait for writers", _FIX)


def _log(integrity: Integrity) -> Finding:
    size = integrity.log_bytes()
    what = f"{format_bytes(size)} of the log is not checkpointed yet"
    large = size > _LOG_BYTES
    return Finding("log", "warning" if large else "ok", what, _FIX if large else "")


# --- cells and rows -------------------------------------------------------------------------------


def _cells(integrity: Integrity) -> Finding:
    faults = integrity.faults()
    if not faults:
        return Finding("cells", "ok", "every value has the right type and form")
    more = f" and {len(faults) - 5} more" if faults[5:] else ""
    return Finding("cells", "error", f"damaged: {'; '.join(faults[:5])}{more}", _FIX)


def _repair_cells(integrity: Integrity, rechunk_note: Callable[[int], None]) -> str:
    """Make damaged values readable; returns what is left to do, and what is lost."""
    repair = integrity.repair()
    for doc_id in repair.notes:
        rechunk_note(doc_id)
    left = ["kb ingest reads the damaged files again"] if repair.read_again else []
    if repair.lost:
        more = f" and {len(repair.lost) - 10} more" if repair.lost[10:] else ""
        left.append(f"lost, unless a backup has it: {'; '.join(repair.lost[:10])}{more}")
    return "; ".join(left)


def _orphans(integrity: Integrity) -> Finding:
    """Report rows without an owner. Documents of unknown roots are kept: their text may exist
    nowhere else."""
    orphans = integrity.orphans()
    if not orphans:
        return Finding("orphans", "ok", "no orphaned rows")
    what = ", ".join(f"{count} {name}" for name, count in orphans.items()) + " without an owner"
    if set(orphans) == {"roots"}:
        return Finding("orphans", "warning", what, _FIX)
    kept = set(orphans) - set(DELETED)
    to_do = "remove them with kb rm, and ingest their folder again" if kept else _FIX
    return Finding("orphans", "error", what, to_do)


def _counters(integrity: Integrity) -> Finding:
    wrong = integrity.counters()
    if not wrong:
        return Finding("counters", "ok", "all counts are correct")
    return Finding("counters", "error", "; ".join(wrong), _FIX)


def _columns(integrity: Integrity) -> Finding:
    count, stale = integrity.stale(SAMPLED_CHUNKS)
    if not stale:
        return Finding("columns", "ok", f"match the text of {_chunks(count)}")
    what = f"{stale} of {count} chunks are indexed with words other than those they contain"
    return Finding("columns", "error", what, _FIX)


def _text(integrity: Integrity) -> Finding:
    count, altered = integrity.altered(SAMPLED_CHUNKS)
    if not altered:
        return Finding("text", "ok", f"unchanged since it was written, in {_chunks(count)}")
    more = f" and {len(altered) - 5} more" if altered[5:] else ""
    what = f"the text has changed since it was written, in {', '.join(altered[:5])}{more}"
    return Finding(
        "text",
        "error",
        what,
        "restore a backup, or remove these documents with kb rm and ingest again",
    )


def _chunks(count: int) -> str:
    return "1 chunk" if count == 1 else f"{count} chunks"


# --- indexes --------------------------------------------------------------------------------------


def _index(integrity: Integrity, table: str) -> Finding:
    try:
        fault = integrity.index_fault(table)
    except StoreReadOnly:
        what = "not compared with the text: the store cannot be written"
        return Finding(table, "warning", what, "run it where the store can be written")
    if fault is None:
        return Finding(table, "ok", "agrees with the text")
    return Finding(table, "error", f"differs from the text: {fault}", _FIX)


def _embeddings(integrity: Integrity) -> Finding:
    count, damaged = integrity.vectors.damaged(SAMPLED_CHUNKS)
    if not damaged:
        what = f"{count} {'vector' if count == 1 else 'vectors'} of length 1"
        return Finding("embeddings", "ok", what)
    what = f"{damaged} of {count} vectors are damaged"
    return Finding("embeddings", "error", what, f"{_FIX}, then kb embed")


def _postings(integrity: Integrity) -> Finding:
    return _vector_index("postings", integrity.vectors.postings_fault(), "")


def _vec_table(integrity: Integrity) -> Finding:
    if not integrity.vectors.has_table():
        return Finding("chunks_vec", "ok", "no table: sqlite-vec is not configured")
    fault = integrity.vectors.table_fault()
    return _vector_index("chunks_vec", fault, "sqlite-vec cannot be loaded")


def _vector_file(integrity: Integrity) -> Finding:
    if not integrity.vectors.has_file():
        return Finding("vectors", "ok", "no file beside the store yet")
    return _vector_index("vectors", integrity.vectors.file_fault(), "numpy is missing")


def _word_file(integrity: Integrity) -> Finding:
    if not integrity.words.has_file():
        return Finding("words", "ok", "no file beside the store yet")
    if integrity.words.is_unused_file():
        return Finding("words", "warning", "not used: the file belongs to another store", _FIX)
    fault = integrity.words.file_fault()
    if fault is None:
        return Finding("words", "ok", "agrees with the text")
    return Finding("words", "error", f"differs from the text: {fault}", _FIX)


def _vector_index(part: str, fault: str | None, obstacle: str) -> Finding:
    """The finding about an index. `obstacle` is the reason why it could not be compared."""
    if fault is None:
        return Finding(part, "ok", "agrees with the vectors")
    if fault == vector_integrity.UNKNOWN:
        return Finding(part, "warning", f"not compared with the vectors: {obstacle}", "install it")
    return Finding(part, "error", f"differs from the vectors: {fault}", _FIX)
