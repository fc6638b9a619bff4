"""Deadlines alone, and in searches that would take minutes without them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import get_ident
from typing import Any

import pytest

from kb import Deadline, KnowledgeBase, deadline
from kb.config import MAX_QUERY_CHARS, Config, SearchConfig
from kb.errors import Cancelled, ClientGone, DeadlineExceeded, InvalidRequest
from kb.search.query.analysis import MAX_EXPRESSION_CHARS, MAX_TERMS
from kb.store import filter_values as filtering
from kb.types import Filters
from tests import hostile
from tests.models.weightless import Weightless, unexamined
from tests.store.builders import sqlite_store

PATIENCE_S = 60.0


class Steps:
    """A clock that advances by one second whenever one thread reads it."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def __call__(self) -> float:
        self.counts[get_ident()] += 1
        return float(self.counts[get_ident()])

    @property
    def count(self) -> int:
        return max(self.counts.values())


# --- a deadline -----------------------------------------------------------------------------------


def test_time_runs_out() -> None:
    now = [0.0]
    with Deadline(5.0, setting="x.timeout_s", clock=lambda: now[0]) as limit:
        deadline.check()
        assert (limit.remaining_s(), deadline.remaining_s()) == (5.0, 5.0)
        now[0] = 5.0
        with pytest.raises(DeadlineExceeded) as error:
            deadline.check()
        assert error.value.message == "no answer within 5 s"
        assert error.value.hint.endswith("or raise x.timeout_s")
        assert limit.remaining_s() == 0.0
    deadline.check()
    assert deadline.current() is None
    assert deadline.remaining_s() == float("inf")


def test_an_inner_deadline_ends_with_the_outer_one() -> None:
    now = [0.0]
    with Deadline(2.0, clock=lambda: now[0]) as outer, Deadline(100.0) as inner:
        assert inner.remaining_s() == 2.0
        now[0] = 3.0
        with pytest.raises(DeadlineExceeded, match="within 2 s"):
            deadline.check()
        outer.cancel(ClientGone("the client has gone"))
        with pytest.raises(ClientGone):
            deadline.check()


def test_a_share_leaves_time_for_others() -> None:
    now = [0.0]
    with Deadline(10.0, clock=lambda: now[0]) as whole:
        with deadline.share():
            now[0] = 6.0
            with pytest.raises(DeadlineExceeded):
                deadline.check()
        whole.check()
        assert whole.remaining_s() == 4.0
    with deadline.share() as without:
        assert without.remaining_s() == float("inf")


def test_loading_does_not_count() -> None:
    now = [0.0]
    with Deadline(10.0, clock=lambda: now[0]) as whole, deadline.share():
        with deadline.pause_deadline():
            now[0] = 1000.0
            deadline.check()
        deadline.check()
        assert whole.remaining_s() == 10.0


def test_threads_are_canceled_together() -> None:
    limit, raised = Deadline(), list[str]()

    def work() -> None:
        with limit:
            try:
                while True:
                    deadline.check()
            except Cancelled as error:
                raised.append(error.code)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    limit.cancel()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert raised == ["cancelled"] * 3
    deadline.check()  # this thread has none


def test_an_error_stops_the_other_threads() -> None:
    whole = Deadline()
    with suppress(KeyboardInterrupt), whole:
        part = deadline.share()
        raise KeyboardInterrupt
    for limit in (whole, part):
        with pytest.raises(Cancelled):
            limit.check()


# --- searches that take minutes -------------------------------------------------------------------


@pytest.fixture
def kb(hostile_store: Path) -> Iterator[KnowledgeBase]:
    config = replace(Config(), search=SearchConfig(timeout_s=0.0))
    with KnowledgeBase(hostile_store, config=config, encoder="none") as kb:
        yield kb


def answers(kb: KnowledgeBase) -> bool:
    """Also checks that no transaction is left open in this thread."""
    found = kb.search("harbour keys")
    writer = sqlite_store(kb)._database._local.reader
    return found.hits[0].doc_path == "lib/harbour.txt" and bool(writer and writer.getautocommit())


HOSTILE: dict[str, Callable[[KnowledgeBase], object]] = {
    "prefixes": lambda kb: kb.search(hostile.EXPRESSION),
    "near": lambda kb: kb.search(f"'NEAR({' '.join(['a*'] * 250)}, 5000)'"),
    "column": lambda kb: kb.search(f"'text : ({' OR '.join(['a*'] * 200)})'"),
    "phrase": lambda kb: kb.search(f"'{' + '.join(['a*'] * 250)}'"),
    "by meaning": lambda kb: kb.search(hostile.EXPRESSION, mode="vector"),
    "words": lambda kb: kb.search(" ".join(f"a{at:x}" for at in range(250))),
    "substrings": lambda kb: kb.search(" ".join(f"q{at}z" for at in range(200))),
    "compare": lambda kb: kb.compare(hostile.EXPRESSION),
    "similar": lambda kb: kb.similar("lib/hostile.txt"),
    "highlights": lambda kb: kb.highlights_in("a1", ["a1 b"] * 50_000),
    "many": lambda kb: kb.search("'a*'", top=3000),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_every_step_can_be_the_last(kb: KnowledgeBase, name: str) -> None:
    steps = Steps()
    with Deadline(40.0, clock=steps), pytest.raises(DeadlineExceeded) as error:
        HOSTILE[name](kb)
    assert error.value.code == "deadline"
    assert steps.count < 200  # it ends soon after
    assert answers(kb)


@pytest.mark.parametrize("name", ["prefixes", "near", "by meaning"])
def test_another_thread_cancels(kb: KnowledgeBase, name: str) -> None:
    steps, raised = Steps(), list[BaseException]()
    limit = Deadline(1e9, clock=steps)

    def work() -> None:
        try:
            with limit:
                HOSTILE[name](kb)
        except Cancelled as error:
            raised.append(error)
            assert answers(kb)

    thread = threading.Thread(target=work)
    thread.start()
    while steps.count < 50:  # it is well under way
        thread.join(0.01)
    limit.cancel()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert [type(error) for error in raised] == [Cancelled]


def test_the_setting_limits_every_search(hostile_store: Path) -> None:
    config = replace(Config(), search=SearchConfig(timeout_s=0.05))
    with KnowledgeBase(hostile_store, config=config, encoder="none") as kb:
        with pytest.raises(DeadlineExceeded, match=r"no answer within 0.0\d+ s"):
            kb.search(hostile.EXPRESSION)
        with pytest.raises(DeadlineExceeded):
            kb.compare(hostile.EXPRESSION)


@pytest.mark.parametrize("parallel", [False, True])
def test_one_part_out_of_time_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parallel: bool
) -> None:
    """Lexical retrieval takes more steps than its share of the deadline; the search still
    completes."""
    monkeypatch.setattr("kb.search.retrievers.model_retriever.SLOW_FROM", 0 if parallel else 10**9)
    config = replace(unexamined(), search=SearchConfig(timeout_s=0.0, retriever_timeout_ms=0))
    with KnowledgeBase(tmp_path / "kb.sqlite", config=config, encoder=Weightless()) as kb:
        for at in range(300):
            kb.add(f"harbour keys number {at}", title=f"note {at}")
        kb.embed()
        kb.search("warm", mode="vector")
        query = "harbour keys " + " ".join(f"number{at}" for at in range(200))

        def steps(**asked: Any) -> int:
            clock = Steps()
            with Deadline(1e9, clock=clock):
                kb.search(query, **asked)
            return clock.count

        words = steps(mode="lexical", match="any")
        assert words > 3 * steps(mode="vector")  # or this proves nothing
        with Deadline(words, clock=Steps()):
            found = kb.search(query, match="any")
    assert [(part.part, part.reason) for part in found.degraded] == [("lexical", "timeout")]
    assert found.hits
    assert not any("fts" in hit.sources for hit in found.hits)


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_ctrl_c_ends_a_search_at_once(hostile_store: Path) -> None:
    script = (
        "import sys, threading, signal, time\n"
        "from kb import deadline\n"
        "from kb.cli.run import run\n"
        "seen = deadline.check\n"
        "def check():\n"
        "    global left\n"
        "    left -= 1\n"
        "    if left == 0: signal.raise_signal(signal.SIGINT)\n"
        "    seen()\n"
        "left = 50\n"
        "deadline.check = check\n"
        "sys.exit(run(sys.argv[1:]))\n"
    )
    asked = ["--store", str(hostile_store), "search", hostile.EXPRESSION]
    environment = os.environ | {"KB_SEARCH_TIMEOUT_S": "0", "KB_MODELS_ENCODER": "none"}
    done = subprocess.run(
        [sys.executable, "-c", script, *asked], env=environment, capture_output=True,
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (130, b"")
    assert done.stderr == b"interrupted\n"


def test_the_command_reports_the_error(hostile_store: Path) -> None:
    environment = os.environ | {"KB_SEARCH_TIMEOUT_S": "0.05", "KB_MODELS_ENCODER": "none"}
    command = [sys.executable, "-W", "error", "-m", "kb", "--store", str(hostile_store), "search"]
    done = subprocess.run(
        [*command, "--json", hostile.EXPRESSION], env=environment, capture_output=True, text=True,
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert '"code": "deadline"' in done.stderr
    assert "search.timeout_s" in done.stderr


# --- bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (lambda kb: kb.search("a" * (MAX_QUERY_CHARS + 1)), "longer than 100,000 characters"),
        (lambda kb: kb.search(f"'{'a' * MAX_EXPRESSION_CHARS}b'"), "longer than 8,000 characters"),
        (lambda kb: kb.search(f"'{'a ' * (MAX_TERMS + 1)}'"), "has 257 terms"),
        (lambda kb: kb.search("x", filters=Filters(tags_any=("t",) * 257)), "has 257 values"),
        (lambda kb: kb.search("x", filters=Filters(path_glob="*a" * 501)), "path_glob is longer"),
        (lambda kb: kb.documents(Filters(after="2" * 2000)), "after is longer than 1,000"),
        (lambda kb: kb.get("x" * 10_001), "longer than 10,000 characters"),
        (lambda kb: kb.similar("x" * 10_001), "longer than 10,000 characters"),
        (lambda kb: kb.search("x", top=1_000_001), "top cannot be 1000001"),
    ],
)
def test_bounds_are_named(
    kb: KnowledgeBase, asked: Callable[[KnowledgeBase], object], told: str
) -> None:
    with pytest.raises(InvalidRequest) as error:
        asked(kb)
    assert told in error.value.message
    assert error.value.hint


def test_as_much_as_the_bounds_allow(kb: KnowledgeBase) -> None:
    assert kb.search("harbour " * 10_000).hits[0].doc_path == "lib/harbour.txt"
    most = f"'{' OR '.join(['harbour'] * MAX_TERMS)}'"
    assert kb.search(most).hits[0].doc_path == "lib/harbour.txt"
    kind = kb.document("lib/harbour.txt").type
    values = (kind, *["markdown"] * (filtering.MAX_VALUES - 1))
    assert kb.search("harbour", filters=Filters(type=values)).hits
    tags = tuple(f"t{at}" for at in range(filtering.MAX_VALUES))
    assert not kb.search("harbour", filters=Filters(tags=tags, tags_any=tags)).hits


def test_a_mistyped_path_is_compared_with_few_others(hostile_store: Path) -> None:
    with KnowledgeBase(hostile_store, encoder="none") as kb:
        steps = Steps()
        with Deadline(1e9, clock=steps), pytest.raises(Exception, match="no document"):
            kb.get("lib/harbor.txt")
        assert steps.count < 100
