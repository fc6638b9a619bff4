"""Checks of the store's file: SQLite's part, the schema, rows, and the indexes over them."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

from kb.config import Config
from kb.errors import StoreReadOnly
from kb.ingest.document_builder import build_note
from kb.store import SqliteStore
from kb.store.sqlite import integrity
from kb.types import Attributes, Finding

SAMPLED_CHUNKS = 20_000
_LOG_BYTES = 64 << 20  # a log that nobody folds in is that of a reader that never ends
_MEND = "kb doctor --fix"
_RESTORE = "restore a backup, or remove the store and ingest again"
_INDEX_ONLY = re.compile(r"missing from index|wrong # of entries in index")
_CELL_ONLY = re.compile(r"constraint failed|NULL value in|non-unique entry|TEXT value|REAL value")


# --- the file -------------------------------------------------------------------------------------


def sqlite(store: SqliteStore) -> Finding:
    problems = store.health.problems()
    if not problems:
        return Finding("sqlite", "ok", "the file is sound")
    derived = all(_INDEX_ONLY.search(one) or _CELL_ONLY.search(one) for one in problems)
    what = "; ".join(problems[:5])
    return Finding("sqlite", "error", what, _MEND if derived else _RESTORE)


def mend_file(store: SqliteStore) -> str:
    """Make SQLite's own indexes anew; values that must not stand where they stand are repaired."""
    by_cells = any(_CELL_ONLY.search(problem) for problem in store.health.problems())
    left = repair(store) if by_cells else ""
    store.health.reindex()
    return left


def schema(store: SqliteStore) -> Finding:
    missing = store.health.missing_parts()
    if not missing:
        return Finding("schema", "ok", "every table, index and trigger is there")
    derived = all(kind != "table" or name.startswith("chunks_") for name, kind in missing.items())
    what = ", ".join(f"{kind} {name}" for name, kind in missing.items())
    return Finding("schema", "error", f"missing or changed: {what}", _MEND if derived else _RESTORE)


def journal(store: SqliteStore) -> Finding:
    if store.health.has_log():
        return Finding("journal", "ok", "write-ahead log: readers do not wait for writers")
    return Finding("journal", "warning", "no write-ahead log: readers wait for writers", _MEND)


def log(store: SqliteStore) -> Finding:
    size = store.health.log_bytes()
    what = f"{size_text(size)} of log are not folded in yet"
    return Finding("log", "warning" if size > _LOG_BYTES else "ok", what,
                   _MEND if size > _LOG_BYTES else "")  # fmt: skip


def disk(store: SqliteStore) -> Finding:
    """Room to fold the log in, and to write the store once more."""
    usage = shutil.disk_usage(store.path.parent)
    size, log = store.path.stat().st_size, store.health.log_bytes()
    what = f"the store has {size_text(size)}, the disk {size_text(usage.free)} free"
    if usage.free < 2 * log or usage.free < min(usage.total // 20, 2 * size):
        return Finding("disk", "warning", what, "free some space")
    return Finding("disk", "ok", what)


# --- cells ----------------------------------------------------------------------------------------


def cells(store: SqliteStore) -> Finding:
    faults = store.health.faults()
    if not faults:
        return Finding("cells", "ok", "every value is of its kind")
    more = f" and {len(faults) - 5} more" if faults[5:] else ""
    return Finding("cells", "error", f"damaged: {'; '.join(faults[:5])}{more}", _MEND)


def repair(store: SqliteStore) -> str:
    """Make the damaged values readable; what is left to do, and what is lost."""
    repair = store.health.repair()
    for doc_id in repair.notes:
        note = build_note(store.body(doc_id) or "", Attributes(), 0, Config().chunk.max_chars)
        title = store.documents_by_id([doc_id])[doc_id].title
        store.write_chunks(doc_id, replace(note.draft, title=title), note.chunks)
    left = ["kb ingest reads the damaged files again"] if repair.read_again else []
    if repair.lost:
        more = f" and {len(repair.lost) - 10} more" if repair.lost[10:] else ""
        left.append(f"lost, unless a backup has it: {'; '.join(repair.lost[:10])}{more}")
    return "; ".join(left)


# --- rows -----------------------------------------------------------------------------------------


def orphans(store: SqliteStore) -> Finding:
    """A document whose root is unknown is kept: its text may be nowhere else."""
    orphans = store.health.orphans()
    if not orphans:
        return Finding("orphans", "ok", "every row belongs to something")
    what = ", ".join(f"{count} {name}" for name, count in orphans.items()) + " belong to nothing"
    if set(orphans) == {"roots"}:
        return Finding("orphans", "warning", what, _MEND)
    lost = set(orphans) - set(integrity.DELETED)
    advice = "remove them with kb rm, and ingest their folder again" if lost else _MEND
    return Finding("orphans", "error", what, advice)


def counters(store: SqliteStore) -> Finding:
    wrong = store.health.counters()
    if not wrong:
        return Finding("counters", "ok", "they are right")
    return Finding("counters", "error", "; ".join(wrong), _MEND)


def columns(store: SqliteStore) -> Finding:
    looked_at, stale = store.health.stale(SAMPLED_CHUNKS)
    if not stale:
        return Finding("columns", "ok", f"as computed, in {_chunks(looked_at)}")
    what = f"{stale} of {looked_at} chunks are indexed by other words than they have"
    return Finding("columns", "error", what, _MEND)


def text(store: SqliteStore) -> Finding:
    looked_at, altered = store.health.altered(SAMPLED_CHUNKS)
    if not altered:
        return Finding("text", "ok", f"as it was written, in {_chunks(looked_at)}")
    more = f" and {len(altered) - 5} more" if altered[5:] else ""
    what = f"another text than was written is in {', '.join(altered[:5])}{more}"
    return Finding("text", "error", what, "restore a backup, or kb rm these documents and ingest")


def index(store: SqliteStore, table: str) -> Finding:
    try:
        fault = store.health.index_fault(table)
    except StoreReadOnly:
        what = "not compared with the text: the store cannot be written"
        return Finding(table, "warning", what, "run it where the store can be written")
    if fault is None:
        return Finding(table, "ok", "agrees with the text")
    return Finding(table, "error", f"differs from the text: {fault}", _MEND)


def _chunks(count: int) -> str:
    return "1 chunk" if count == 1 else f"{count} chunks"


def size_text(count: int) -> str:
    """So many bytes, as a person reads it."""
    size, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
