"""Texts as PostgreSQL stores them. It does not support the character U+0000, so kb stores U+FFFD
instead, which separates words too."""

from __future__ import annotations

from psycopg.abc import Buffer
from psycopg.types.string import StrBinaryDumper, StrDumper, StrDumperUnknown

from kb.store.postgres.pool import Connection


class _Text(StrDumper):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(obj.replace("\0", "\ufffd"))


class _UnknownText(StrDumperUnknown):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(obj.replace("\0", "\ufffd"))


class _BinaryText(StrBinaryDumper):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(obj.replace("\0", "\ufffd"))


def register_text(connection: Connection) -> None:
    """Make the connection accept every text. The dumper registered last is the default."""
    for dumper in (_BinaryText, _Text, _UnknownText):
        connection.adapters.register_dumper(str, dumper)
