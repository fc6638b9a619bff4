from __future__ import annotations

import sys
from urllib.parse import unquote

import pytest

from kb.errors import InvalidRequest, MissingExtra
from kb.locations import store_url
from kb.processes import machine_name
from kb.store import local_path, open_store
from kb.store.postgres.location import Location, parse_all


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
        "postgresql://db/a?schema=information_schema",
        "postgresql://db/a?schema=x&schema=y",
        "postgresql://u:p#w@db/a",
        "postgresql://u:sEcret%zz@db/a",
        "postgresql://u:sEcret%@db/a",
        "postgresql://db/a?password=sEcret%2",
        "postgresql://u:sEcret@[db/a",
        "postgresql://u:x@sEcret@db/a",
        "postgresql://u:x/sEcret@db",
        "postgresql://u:1/sEcret@db/a",
        "postgresql://u:sEcret/a",
        "postgresql://u:1:sEcret/a",
        "postgresql://db/a?schema=b,postgresql://u:sEcret@db/a?schema=c",
        "postgresql://db/a,postgresql://u:sEcret@db/a",
        "postgresql://db/a?shard=1/2;postgresql://u:sEcret@db/a",
        "postgresql://db/a?schema=b u:sEcret@db/a",
        "postgresql://db/a?partitions=4 u:sEcret@db/a",
        "postgresql://db/a?shard=1/2 u:sEcret@db/a",
        "postgresql://db/a?read=standby u:sEcret@db/a",
        "postgresql://db/a?max_lag_s=1 u:sEcret@db/a",
    ],
)
def test_a_wrong_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        Location.parse(url)
    assert error.value.hint
    assert "sEcret" not in str(error.value.to_dict())


@pytest.mark.parametrize("separator", [" ", "  ", "\n", "\t"])
def test_shards_are_separated_by_white_space(separator: str) -> None:
    urls = ["postgresql://db/a?schema=b&shard=1/2", "postgresql://db/a?schema=c&shard=2/2"]
    parsed = parse_all(separator.join(urls) + "\n")
    assert [(each.schema, each.shard) for each in parsed] == [("b", (1, 2)), ("c", (2, 2))]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://db/a", "postgresql://[::1]:5432/a", "postgresql://a:1,b:2/a",
        "postgresql:///a?host=/run/pg", "postgresql://u%40x:p%40w@db:/a",
        "postgresql://%2Frun%2Fpostgresql/a",
    ],
)  # fmt: skip
def test_urls_that_libpq_accepts(url: str) -> None:
    assert Location.parse(url).shown


@pytest.mark.parametrize(
    "text",
    [
        "postgresql:/u:sEcret@db/a",
        "postgres:u:sEcret@db",
        "host=db user=u password=sEcret",
        "password=sEcret",
    ],
)
def test_what_looks_like_a_url_is_no_path(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for given in (text, None):
        monkeypatch.setenv("KB_STORE", text)
        with pytest.raises(InvalidRequest) as error:
            store_url(given)
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
