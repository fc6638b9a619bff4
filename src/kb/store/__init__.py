"""The store: one SQLite file. The only room that speaks SQL."""

from kb.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
