from __future__ import annotations

import sys

import pytest

from kb.errors import InvalidRequest, MissingExtra
from kb.store import local_path, open_store
from kb.store.postgres.location import Location


def test_a_password_is_not_shown() -> None:
    for url in (
        "postgresql://ada:secret@db:5433/team?schema=docs&sslmode=require",
        "postgresql://ada@db:5433/team?schema=docs&sslmode=require&password=secret",
    ):
        location = Location.parse(url)
        assert location.shown == "postgresql://ada@db:5433/team?sslmode=require&schema=docs"
        assert "secret" in location.dsn
        assert "schema" not in location.dsn
        assert location.schema == "docs"


def test_the_path_depends_on_the_server_the_database_and_the_schema_only() -> None:
    same = [
        "postgresql://ada:secret@db/team",
        "postgresql://bob@db/team?schema=kb&sslmode=require",
        "postgresql://DB/team",
    ]
    others = ["postgresql://db/other", "postgresql://db/team?schema=x", "postgresql://db:1/team"]
    paths = [local_path(url) for url in (*same, *others)]
    assert len({*paths[: len(same)]}) == 1
    assert len({*paths}) == 1 + len(others)
    assert all(path.is_absolute() for path in paths)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://db",
        "postgresql://db/",
        "postgresql://db/a/b",
        "postgresql://db/a?schema=",
        "postgresql://db/a?schema=x-y",
        "postgresql://db/a?schema=pg_x",
        "postgresql://db/a?schema=x&schema=y",
        "postgresql://u:p#w@db/a",
    ],
)
def test_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        Location.parse(url)
    assert error.value.hint


def test_the_driver_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match="extra") as error:
        open_store("postgresql://db/team")
    assert "kb-search[postgres]" in error.value.hint
