from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from kb.store import open_store
from kb.store.postgres.store import PostgresStore
from tests.conftest import Clock
from tests.postgres import Server

Open = Callable[..., PostgresStore]


@pytest.fixture
def schema() -> str:
    return f"s{uuid.uuid4().hex[:12]}"


@pytest.fixture
def open_again(postgres: Server, schema: str, clock: Clock) -> Iterator[Open]:
    """Opens the store of this test; each call returns another object."""
    opened: list[Any] = []

    def open_one(**options: Any) -> PostgresStore:
        store: Any = open_store(postgres.url(schema=schema), clock=clock, **options)
        opened.append(store)
        return store  # type: ignore[no-any-return]

    yield open_one
    for each in opened:
        each.close()


@pytest.fixture
def store(open_again: Open) -> PostgresStore:
    made = open_again()
    made.create()
    return made


@pytest.fixture
def sql(postgres: Server, schema: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A connection of another program to the same schema."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"SET search_path = {schema}, public".encode())
        yield connection
