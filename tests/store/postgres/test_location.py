from __future__ import annotations

import sys
from urllib.parse import unquote

import pytest

from kb.errors import InvalidRequest, MissingExtra
from kb.processes import machine_name
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
        "postgresql://u:sEcret%zz@db/a",
        "postgresql://u:sEcret%@db/a",
        "postgresql://db/a?password=sEcret%2",
        "postgresql://u:sEcret@[db/a",
    ],
)
def test_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        Location.parse(url)
    assert error.value.hint
    assert "sEcret" not in str(error.value.to_dict())


@pytest.mark.parametrize("password", ["sEcret", "sEcr%20et", "sE%25cret"])
def test_messages_of_the_driver_do_not_show_the_password(password: str) -> None:
    """libpq repeats the parts of a URL that it does not understand."""
    location = Location.parse(f"postgresql://ada:{password}@db/team")
    message = f'cannot use "{password}", that is {unquote(password)!r}'
    shown = location.without_secrets(message)
    assert password not in shown
    assert unquote(password) not in shown


def test_the_machine_is_no_parameter_of_the_driver() -> None:
    location = Location.parse("postgresql://db/team?machine=nfs&sslmode=require")
    assert location.machine == "nfs"
    assert location.dsn == location.shown == "postgresql://db/team?sslmode=require"
    assert Location.parse("postgresql://db/team").machine == machine_name() != ""


def test_the_driver_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match="extra") as error:
        open_store("postgresql://db/team")
    assert "kb-search[postgres]" in error.value.hint
