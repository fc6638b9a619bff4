"""Wake-ups for workers: a thread that listens for notifications of new work.

Every commit that changes texts sends one, so that a worker on another machine need not poll often.
Notifications are lost while there is no connection, so each connect counts as one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

from kb.errors import KbError
from kb.logs import logger
from kb.store.postgres.pool import Connection

_CHECK_S = 0.5  # how often to check whether to stop
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 30.0  # after a lost connection; doubled each time
_log = logger("kb.embed")


def channel(schema: str) -> str:
    """The channel of a store. A database may have several stores."""
    return f"kb_{schema}"[:63]


@contextmanager
def listening(
    connect: Callable[[], Connection], schema: str, on_work: Callable[[], None]
) -> Iterator[None]:
    """Call `on_work`, in another thread, whenever there may be new work."""
    stop = threading.Event()
    thread = threading.Thread(
        target=_listen, args=(connect, schema, on_work, stop), name="kb-listener", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(2 * _CHECK_S)


def _listen(
    connect: Callable[[], Connection],
    schema: str,
    on_work: Callable[[], None],
    stop: threading.Event,
) -> None:
    wait_s = _FIRST_WAIT_S
    while not stop.is_set():
        try:
            connection = connect()
            with connection:
                connection.execute(f'LISTEN "{channel(schema)}"'.encode())
                wait_s = _FIRST_WAIT_S
                on_work()
                while not stop.is_set():
                    for _ in connection.notifies(timeout=_CHECK_S, stop_after=1):
                        on_work()
        except (psycopg.Error, KbError) as error:  # the worker itself reports a broken store
            _log.debug("the listener lost its connection: %s", error)
            stop.wait(wait_s)
            wait_s = min(_LONGEST_WAIT_S, 2 * wait_s)
