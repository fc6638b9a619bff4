"""Damage to a store, cell by cell and page by page, and how kb handles it.

    python -m tests.store.damage --pages 500 --seed 1

Every operation may fail with an error of kb's own, and with no other.
"""

from __future__ import annotations

import argparse
import io
import random
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import apsw

from kb import Filters, KnowledgeBase
from kb.errors import KbError
from tests.conftest import NOON, Clock
from tests.models.weightless import Weightless, unexamined
from tests.store.builders import sqlite_store

TABLES = (
    "state", "roots", "documents", "document_tags", "removed_documents", "chunks", "models",
    "embeddings", "vector_pieces",
    "vector_changes", "vector_indexes", "text_changes", "sparse_terms", "sparse_segments",
    "sparse_postings", "sparse_chunks", "sparse_gone", "sparse_pending", "jobs", "sqlite_sequence",
)  # fmt: skip
VALUES = {  # as SQL, since a text that is not UTF-8 cannot be bound
    "null": "NULL",
    "bytes": "x'fffe00'",
    "no bytes": "x''",
    "not UTF-8": "CAST(x'61ff62' AS TEXT)",
    "empty": "''",
    "word": "'word'",
    "surrogate": "CAST(x'eda080' AS TEXT)",
    "array": "'[1, null, {}]'",
    "object": "'{\"a\": [1]}'",
    "cut": '\'[{"kind": "li\'',
    "deep": "replace(printf('%5000c', 'x'), 'x', '[') ",
    "large": "9223372036854775807",
    "negative": "-1",
    "float": "1.5e300",
}
QUERY = "radio buoy battery"


def build(path: Path) -> None:
    """A store with files, notes, tags and all kinds of vectors, some of them in segments."""
    folder = path.parent / "files"
    folder.mkdir(exist_ok=True)
    for name, text in {
        "a.md": "---\ntags: [sea]\nkind: lesson\n---\n# Radio\n\nA buoy.\n\n## Two\n\nBattery.\n",
        "b.txt": "salt water sensor\n",
        "c.py": "def buoy():\n    return 'battery'\n",
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
    with opened(path) as kb:
        kb.ingest(folder)
        for number in range(3):
            kb.add(f"radio note {number} battery", tags=["mine"], metadata={"n": number})
        kb.add("a buoy that goes", ttl="1h")
        kb.embed()
        with sqlite_store(kb)._database.writing() as connection:
            from kb.store.sqlite import segments

            segments.flush(connection, 1, least=1)
        kb.add("one more radio")
        kb.embed()
        kb.remove("note:6")
        (folder / "gone.md").write_text("a file that goes\n", encoding="utf-8")
        kb.ingest(folder)
        kb.tag("files/gone.md", add=["kept"])
        (folder / "gone.md").unlink()
        kb.ingest(folder)
        with sqlite_store(kb)._database.writing() as connection:
            connection.execute(
                "INSERT INTO jobs (model_id, place, pid, started, lease_until, chunk_ids) "
                "VALUES (1, 'elsewhere', 1, ?, ?, '[1]')",
                (NOON, NOON + 100),
            )


def opened(path: Path) -> KnowledgeBase:
    return KnowledgeBase(path, encoder=Weightless(), config=unexamined(), clock=Clock())


OPERATIONS: dict[str, Callable[[KnowledgeBase], object]] = {
    "search": lambda kb: kb.search(QUERY, explain=True),
    "lexical": lambda kb: kb.search_lexical(QUERY),
    "dense": lambda kb: kb.search_vector(QUERY),
    "sparse": lambda kb: kb.search_sparse(QUERY),
    "rerank": lambda kb: kb.search(QUERY, rerank="colbert"),
    "expression": lambda kb: kb.search("'radio OR buoy'"),
    "substring": lambda kb: kb.search("attery"),
    "filters": lambda kb: kb.search(QUERY, filters=Filters(tags=("mine",), path_glob="*")),
    "similar": lambda kb: kb.similar("note:4"),
    "compare": lambda kb: kb.compare(QUERY),
    "get": lambda kb: [kb.get(name) for name in ("files/a.md", "note:4", "files/a.md#L6-L7")],
    "list": lambda kb: kb.documents(expired=True),
    "list filters": lambda kb: kb.documents(Filters(kind=("lesson",), after="2020-01-01")),
    "chunks": lambda kb: [kb.chunks(name) for name in ("files/a.md", "note:4")],
    "tags": lambda kb: kb.tags(),
    "roots": lambda kb: kb.roots(),
    "status": lambda kb: kb.status(),
    "jobs": lambda kb: kb.jobs(),
    "versions": lambda kb: kb.index_version(),
    "export": lambda kb: kb.export(io.BytesIO(), vectors=True),
    "doctor": lambda kb: kb.doctor(),
    "tag": lambda kb: kb.tag("note:4", add=["x"]),
    "add": lambda kb: kb.add("radio that is added"),
    "ingest": lambda kb: kb.ingest(),
    "force": lambda kb: kb.ingest(force=True),
    "embed": lambda kb: kb.embed(),
    "retry": lambda kb: kb.retry(),
    "gc": lambda kb: kb.gc(),
    "remove": lambda kb: kb.remove("note:5"),
    "reindex": lambda kb: kb.reindex(Weightless(32, name="other"), grace_s=0),
    "fix": lambda kb: kb.doctor(fix=True),
}


def columns(path: Path) -> Iterator[tuple[str, str]]:
    connection = apsw.Connection(str(path))
    for table in TABLES:
        for row in connection.execute(f"PRAGMA table_info({table})").fetchall():
            yield table, str(row[1])
    connection.close()


def damage_cell(path: Path, table: str, column: str, value: str, *, every: bool = False) -> bool:
    """Whether SQLite accepts such a value there."""
    connection = apsw.Connection(str(path))
    try:
        connection.execute("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON")
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'trigger'"
        ).fetchall():
            sql = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (name,)).get
            _TRIGGERS[str(name)] = str(sql)
            connection.execute(f"DROP TRIGGER {name}")
        where = "" if every else f"WHERE {column} IN (SELECT {column} FROM {table} LIMIT 1)"
        connection.execute(f"UPDATE {table} SET {column} = {VALUES[value]} {where}")
        return bool(connection.changes())
    except apsw.Error:
        return False
    finally:
        for sql in _TRIGGERS.values():
            connection.execute(sql)
        _TRIGGERS.clear()
        connection.close()


_TRIGGERS: dict[str, str] = {}


def damage_pages(path: Path, chance: random.Random) -> bool:
    """Overwrite bytes at a few random positions in the file."""
    raw = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 2, 8))):
        kind = chance.randrange(4)
        at = chance.randrange(100, len(raw))
        if kind == 0:
            raw[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            raw[at : at + 64] = chance.randbytes(len(raw[at : at + 64]))
        elif kind == 2:
            page = at // 4096 * 4096
            raw[page : page + 4096] = bytes(len(raw[page : page + 4096]))
        else:
            other = chance.randrange(len(raw) // 4096) * 4096
            page = max(4096, at // 4096 * 4096)
            raw[page : page + 4096] = raw[other : other + 4096]
    size = len(raw) // 2 if chance.random() < 0.1 else len(raw)
    path.write_bytes(raw[:size])
    return True


def problems(path: Path, names: tuple[str, ...] = tuple(OPERATIONS)) -> dict[str, str]:
    """Errors other than kb's own, by operation."""
    wrong: dict[str, str] = {}
    with opened(path) as kb:
        for name in names:
            try:
                OPERATIONS[name](kb)
            except KbError:
                pass
            except Exception as error:  # noqa: BLE001  # that is what is looked for
                place = traceback.extract_tb(error.__traceback__)[-1]
                wrong[name] = (
                    f"{type(error).__name__}: {str(error)[:100]} "
                    f"({Path(place.filename).name}:{place.lineno})"
                )
    return wrong


def left_after_repair(path: Path) -> dict[str, str]:
    """What still fails, or is still reported as damaged, after `doctor --fix`."""
    wrong: dict[str, str] = {}
    with opened(path) as kb:
        try:
            for found in kb.doctor(fix=True).findings:
                if found.state == "error" and not found.fixed:
                    wrong[f"fix {found.part}"] = f"{found.what} ({found.to_do})"
        except Exception as error:  # noqa: BLE001  # as above
            wrong["fix"] = repr(error)
        for name, operation in OPERATIONS.items():
            try:
                operation(kb)
            except Exception as error:  # noqa: BLE001  # as above
                wrong[f"{name} after fix"] = repr(error)
    return wrong


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--pages", type=int, default=100, help="files with damaged pages")
    arguments.add_argument("--cells", type=float, default=1.0, help="share of columns and values")
    arguments.add_argument("--seed", default="0")
    said = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sound, path = Path(folder) / "sound.sqlite", Path(folder) / "kb.sqlite"
        build(sound)
        runs = wrong = 0
        for label, damage in _damages(sound, path, said):
            _fresh(sound, path)
            if not damage():
                continue
            runs += 1
            shutil.copy(path, again := path.with_name("again.sqlite"))
            found = problems(path)
            if not label.startswith("pages"):
                found |= left_after_repair(again)
            wrong += bool(found)
            for name, problem in found.items():
                sys.stdout.write(f"{label}: {name}: {problem}\n")
                sys.stdout.flush()
        sys.stdout.write(f"{runs} damaged stores, {wrong} with problems\n")


def _damages(
    sound: Path, path: Path, said: argparse.Namespace
) -> Iterator[tuple[str, Callable[[], bool]]]:
    chance = random.Random(said.seed)
    for table, column in list(columns(sound)):
        for value in VALUES:
            if chance.random() < said.cells:
                label = f"{table}.{column} = {value}"
                yield label, partial(damage_cell, path, table, column, value)
    for number in range(said.pages):
        label = f"pages {said.seed}-{number}"
        yield label, partial(damage_pages, path, random.Random(label))


def _fresh(sound: Path, path: Path) -> None:
    for name in ("kb.sqlite", "again.sqlite"):
        for end in ("", "-wal", "-shm", "-vectors", "-words"):
            path.with_name(name + end).unlink(missing_ok=True)
    shutil.copy(sound, path)


if __name__ == "__main__":
    main()
