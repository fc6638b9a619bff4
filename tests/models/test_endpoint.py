"""An encoder behind an endpoint, over real HTTP on this machine."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kb import KnowledgeBase, models
from kb.config import Config, ModelsConfig, SearchConfig
from kb.errors import (
    ConfigError,
    DeadlineExceeded,
    EndpointError,
    ModelBroken,
    ModelError,
    Offline,
    is_unicode,
)
from kb.models import network
from kb.models.endpoint import EndpointEncoder, open_endpoint
from kb.types import Degraded
from tests.models.serving import Answer, ReceivedRequest, Server, answer, serving

WIDTH = 3
KEY = "sk-secret-4711"


def vector(text: str) -> list[float]:
    return [float(len(text)), 1.0, float(text.count("a"))]


def embed(asked: ReceivedRequest) -> Answer:
    """A correct response, in any order."""
    rows = [{"index": at, "embedding": vector(text)} for at, text in enumerate(asked.json["input"])]
    return answer({"object": "list", "data": rows[::-1], "model": "m"})


class Script:
    """Returns these responses in turn, then correct ones."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []

    def __call__(self, asked: ReceivedRequest) -> Answer:
        return self.answers.pop(0) if self.answers else embed(asked)


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def server(script: Script) -> Iterator[Server]:
    with serving(script) as started:
        yield started


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KB_ENDPOINT_KEY", raising=False)
    monkeypatch.delenv("KB_OFFLINE", raising=False)


def config(url: str, **settings: Any) -> Config:
    told: dict[str, Any] = {
        "encoder": "endpoint",
        "judge": "none",
        "endpoint_url": f"{url}/v1",
        "endpoint_model": "nomic",
        "endpoint_dimension": WIDTH,
        "exam": False,
    }
    return replace(Config(), models=ModelsConfig(**told | settings))


class Waits(list[float]):
    """A sleep that takes no time, and records its calls."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def opened(server: Server, waits: Waits) -> Callable[..., EndpointEncoder]:
    return lambda **settings: open_endpoint(config(server.url, **settings), sleep=waits)


def test_vectors_in_the_order_of_the_texts(
    opened: Callable[..., EndpointEncoder], server: Server
) -> None:
    encoder = opened(endpoint_batch=2)
    seen: list[int] = []
    found = encoder.encode(["a", "banana", "no"], on_progress=seen.append)
    for encoding, text in zip(found, ("a", "banana", "no"), strict=True):
        assert encoding.dense is not None
        length = math.hypot(*vector(text))
        assert list(encoding.dense) == pytest.approx([each / length for each in vector(text)])
        assert (encoding.sparse, encoding.tokens) == (None, None)
    assert seen == [2, 3]
    assert [len(asked.json["input"]) for asked in server.asked] == [2, 1]
    first = server.asked[0]
    assert (first.method, first.path) == ("POST", "/v1/embeddings")
    assert first.json["model"] == "nomic"
    assert "Authorization" not in first.headers


def test_nothing_is_asked_for_parts_that_it_cannot_give(
    opened: Callable[..., EndpointEncoder], server: Server
) -> None:
    (found,) = opened().encode(["text"], want={"sparse"})
    assert found.dense is None
    assert server.asked == []


def test_prefixes_and_what_the_store_is_told(
    opened: Callable[..., EndpointEncoder], server: Server
) -> None:
    plain = opened()
    told = opened(endpoint_query_prefix="query: ", endpoint_passage_prefix="passage: ")
    told.encode(["x"])
    told.encode(["x"], as_query=True)
    assert [asked.json["input"] for asked in server.asked] == [["passage: x"], ["query: x"]]
    assert (plain.spec.name, plain.spec.version, plain.spec.dimension) == ("nomic", "endpoint", 3)
    assert told.spec.version != plain.spec.version  # its vectors differ
    assert opened(endpoint_query_prefix="query: ").spec.version == plain.spec.version


def test_its_first_vector_tells_how_long_they_are(
    opened: Callable[..., EndpointEncoder], server: Server
) -> None:
    encoder = opened(endpoint_dimension=0)
    assert (encoder.spec.dimension, server.asked) == (0, [])
    encoder.encode(["x"])
    assert (encoder.spec.dimension, len(server.asked)) == (WIDTH, 1)


def test_another_model_of_the_same_server(server: Server) -> None:
    """The model is selected by its name. The configured dimension applies to the other model
    only."""
    found = models.encoder(config(server.url, endpoint_dimension=99), "endpoint:org/big:latest")
    assert found is not None
    found.encode(["x"])
    assert (found.spec.name, found.spec.dimension) == ("org/big:latest", WIDTH)
    assert server.asked[0].json["model"] == "org/big:latest"


# --- failures -------------------------------------------------------------------------------------


def test_429_and_500_in_turn(
    opened: Callable[..., EndpointEncoder], script: Script, waits: Waits, server: Server
) -> None:
    script.answers = [
        answer({"error": {"message": "slow down"}}, 429, Retry_After="7"),
        Answer(500),
        Answer(503, b"<html>proxy</html>"),
        Answer(200, b'{"data": []}', cut=3),
    ]
    (found,) = opened().encode(["abc"])
    assert found.dense is not None
    assert waits == [7.0, 1.0, 2.0, 4.0]
    assert len(server.asked) == 5


def test_it_gives_up_in_the_end(
    opened: Callable[..., EndpointEncoder], script: Script, waits: Waits, server: Server
) -> None:
    script.answers = [Answer(500, b'{"error": "out of memory"}')] * 9
    with pytest.raises(EndpointError, match=r"failed after 3 attempts: HTTP 500: out of memory"):
        opened(endpoint_retries=2).encode(["abc"])
    assert (waits, len(server.asked)) == ([0.5, 1.0], 3)


def test_a_server_that_says_to_come_back_much_later(
    opened: Callable[..., EndpointEncoder], script: Script, waits: Waits
) -> None:
    script.answers = [Answer(429, headers={"Retry-After": "3600"})]
    with pytest.raises(EndpointError, match="retry in 3600 s"):
        opened().encode(["abc"])
    assert waits == []


def test_a_search_does_not_wait(
    opened: Callable[..., EndpointEncoder], script: Script, waits: Waits, server: Server
) -> None:
    script.answers = [Answer(503)] * 9
    with pytest.raises(EndpointError):
        opened().encode(["abc"], as_query=True)
    assert (waits, len(server.asked)) == ([0.5], 2)
    script.answers = [Answer(429, headers={"Retry-After": "5"})]
    with pytest.raises(EndpointError):
        opened().encode(["abc"], as_query=True)
    assert waits == [0.5]


def test_nothing_listens(waits: Waits) -> None:
    with serving(embed) as server:
        url = server.url
    encoder = open_endpoint(config(url, endpoint_retries=1), sleep=waits)
    with pytest.raises(EndpointError, match="after 2 attempts: connection refused"):
        encoder.encode(["abc"])
    assert waits == [0.5]


def test_a_server_that_does_not_answer(
    opened: Callable[..., EndpointEncoder], script: Script
) -> None:
    script.answers = [Answer(mute=True)]
    with pytest.raises(EndpointError, match="no response in time"):
        opened(endpoint_timeout_s=0.05, endpoint_retries=0).encode(["abc"])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<html>welcome</html>", "something other than embeddings"),
        (b'{"embedding": [1, 2, 3]}', "something other than embeddings"),
        (b'{"data": 3}', "something other than embeddings"),
        (b'{"data": [{"index": 1, "embedding": [1, 2, 3]}]}', "something other than embeddings"),
        (b'{"data": []}', "0 vectors for 1 texts"),
        (b'{"data": [{"embedding": [1, 2, 3]}, {"embedding": [1, 2, 3]}]}', "2 vectors for 1"),
        (b'{"data": [{"embedding": [1, 2]}]}', "vectors of 2 dimensions instead of 3"),
        (b'{"data": [{"embedding": "AACAPw=="}]}', "other than a list of numbers"),
        (b'{"data": [{"embedding": [1, 2, NaN]}]}', "other than a list of numbers"),
        (b'{"data": [{"embedding": [1, 2, 1e999]}]}', "other than a list of numbers"),
        (b'{"data": [{"embedding": [1, 2, null]}]}', "other than a list of numbers"),
        (b'{"data": [{"embedding": [1, 2, true]}]}', "other than a list of numbers"),
        (
            b'{"data": [{"embedding": [1, 2, 1' + b"0" * 400 + b"]}]}",
            "other than a list of numbers",
        ),
        (b'{"data": [{"embedding": [0, 0, 0]}]}', "a vector that is zero"),
        (b"[" * 100_000, "something other than embeddings"),
        # Once parsed, it would take twenty times as much memory.
        (b'{"data": [' + b"[[],[],[]]," * 100_000 + b"1]}", "too large"),
    ],
)
def test_nonsense(
    opened: Callable[..., EndpointEncoder],
    script: Script,
    server: Server,
    body: bytes,
    said: str,
) -> None:
    """The error names the problem, and there is no retry."""
    script.answers = [Answer(200, body)]
    with pytest.raises(ModelBroken, match=said):
        opened().encode(["abc"])
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [301, 307, 400, 401, 403, 404, 413, 422])
def test_what_does_not_pass_is_told_at_once(
    opened: Callable[..., EndpointEncoder],
    script: Script,
    server: Server,
    waits: Waits,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The key is only in a header, even if the server repeats it."""
    monkeypatch.setenv("KB_ENDPOINT_KEY", KEY)
    elsewhere = {"Location": f"{server.url}/other"}
    said = b'{"error": {"message": "bad key sk-secret-4711"}}'
    script.answers = [Answer(status, said, elsewhere)]
    encoder = opened()
    with pytest.raises(EndpointError, match=f"HTTP {status}") as caught:
        encoder.encode(["abc"])
    assert KEY not in caught.value.message + caught.value.hint + repr(vars(encoder))
    assert (waits, len(server.asked)) == ([], 1)
    assert server.asked[0].headers["Authorization"] == f"Bearer {KEY}"


def test_the_key_is_not_logged(
    opened: Callable[..., EndpointEncoder],
    script: Script,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("KB_ENDPOINT_KEY", KEY)
    script.answers = [answer({"error": f"{KEY} is over its limit"}, 429)]
    with caplog.at_level(logging.DEBUG):
        opened().encode(["abc"])
    assert "HTTP 429: *** is over its limit; next attempt in 0.5 s" in caplog.text
    assert KEY not in caplog.text


@pytest.mark.parametrize("key", ["two\nlines", "schlüssel"])
def test_what_cannot_be_a_key(
    opened: Callable[..., EndpointEncoder], key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_ENDPOINT_KEY", key)
    with pytest.raises(ConfigError, match="KB_ENDPOINT_KEY") as caught:
        opened()
    assert key not in caught.value.message


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"endpoint_url": ""}, "needs the setting models.endpoint_url"),
        ({"endpoint_model": ""}, "needs the setting models.endpoint_model"),
        ({"endpoint_url": "file:///etc/passwd"}, "is not a valid URL"),
        ({"endpoint_url": "localhost:11434"}, "is not a valid URL"),
        ({"endpoint_url": "http://a b/"}, "is not a valid URL"),
        ({"endpoint_url": "http://me:secret@host/v1"}, "contains a user name or a password"),
    ],
)
def test_settings_that_cannot_be_used(settings: dict[str, str], said: str) -> None:
    with pytest.raises(Exception, match=said) as caught:
        models.encoder(config("http://127.0.0.1:9", **settings))
    assert "secret" not in str(caught.value)


def test_offline_means_other_machines(
    server: Server, monkeypatch: pytest.MonkeyPatch, waits: Waits
) -> None:
    monkeypatch.setenv("KB_OFFLINE", "1")
    far = replace(config(server.url).models, endpoint_url="https://api.example.org/v1")
    with pytest.raises(Offline, match=r"does not contact api\.example\.org"):
        models.encoder(replace(Config(), models=far))
    assert open_endpoint(config(server.url), sleep=waits).encode(["a server of one's own"])


def test_it_is_listed_without_being_asked(server: Server) -> None:
    settings = config(server.url, endpoint_dimension=0)
    (listed,) = (each for each in models.models(settings) if each.origin == "endpoint")
    assert (listed.name, listed.in_use, listed.path) == ("endpoint", True, f"{server.url}/v1")
    assert listed.spec is not None
    assert listed.spec.name == "nomic"
    assert server.asked == []
    assert models.verify(settings, "endpoint") == listed
    assert server.asked


SURROGATE = b'{"error": {"message": "lone \\ud800 here"}}'


@pytest.mark.parametrize("status", [200, 400, 503])
def test_error_texts_are_valid_unicode(
    opened: Callable[..., EndpointEncoder],
    script: Script,
    status: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    script.answers = [Answer(status, SURROGATE)] * 2
    with pytest.raises(ModelError, match=r"lone \\+ud800 here") as caught:
        opened(endpoint_retries=1).encode(["abc"])
    assert is_unicode(caught.value.message + str(caught.value) + caplog.text)


@pytest.mark.parametrize("name", ["model", "query_prefix", "passage_prefix"])
def test_settings_from_an_environment_that_is_not_utf8(name: str) -> None:
    with pytest.raises(ConfigError, match=f"endpoint_{name} is not valid UTF-8"):
        open_endpoint(config("http://127.0.0.1:9", **{f"endpoint_{name}": "caf\udce9"}))


# --- in a store -----------------------------------------------------------------------------------


def test_no_vector_is_stored_wrongly(
    tmp_path: Path, script: Script, server: Server, waits: Waits
) -> None:
    """A server that fails in every way, in turn: the stored vectors are correct in the end."""
    wrong = [
        Answer(200, b'{"data": [{"embedding": [1, 2]}]}'),
        Answer(200, b'{"data": []}'),
        Answer(200, b"nonsense"),
        Answer(429, headers={"Retry-After": "1"}),
        Answer(500),
        Answer(404),
    ]
    settings = config(server.url, endpoint_batch=2)
    encoder = open_endpoint(settings, sleep=waits)
    with KnowledgeBase(tmp_path / "kb.sqlite", config=settings, encoder=encoder) as kb:
        texts: list[str] = []
        for bad in wrong:
            texts += [f"banana {len(texts)}", f"a mango and a papaya {len(texts)}"]
            kb.add(texts[-2])
            kb.add(texts[-1])
            script.answers = [bad]
            with suppress(ModelError):
                kb.embed()
            assert script.answers == []
            check_stored(kb, texts)
        kb.embed(retry=True)
        check_stored(kb, texts)
        assert kb._store.vectors.models()[0].ready == len(texts)
        assert kb.search("mango", mode="hybrid").degraded == ()


def check_stored(kb: KnowledgeBase, texts: list[str]) -> None:
    for model in kb._store.vectors.models():
        stored = kb._store.vectors.dense_vectors(model.model_id, range(1, len(texts) + 1))
        for chunk_id, dense in stored.items():
            shown = vector(texts[chunk_id - 1])
            length = math.hypot(*shown)
            assert list(dense) == pytest.approx([each / length for each in shown])


def test_another_dimension_is_refused(tmp_path: Path, server: Server, waits: Waits) -> None:
    settings = config(server.url)
    path = tmp_path / "kb.sqlite"
    with KnowledgeBase(path, config=settings, encoder=open_endpoint(settings, sleep=waits)) as kb:
        kb.add("banana")
        kb.embed()
    wider = config(server.url, endpoint_dimension=4)
    with KnowledgeBase(path, config=wider, encoder=open_endpoint(wider, sleep=waits)) as kb:
        kb.add("plum")
        with pytest.raises(ModelError, match="dimension"):
            kb.embed()
        assert kb._store.vectors.models()[0].ready == 1


def test_words_answer_while_it_is_down(tmp_path: Path, script: Script, server: Server) -> None:
    settings = config(server.url, endpoint_retries=0)
    with KnowledgeBase(tmp_path / "kb.sqlite", config=settings) as kb:
        kb.add("the banana boat")
        kb.embed()
        script.answers = [Answer(503)] * 3
        found = kb.search("banana", mode="hybrid")
        assert found.returned == 1
        (told,) = found.degraded
        assert (told.part, "HTTP 503" in str(told.detail)) == ("dense", True)


def test_words_answer_while_it_hangs(tmp_path: Path, script: Script, server: Server) -> None:
    """This holds in a small store too. The first query of a process waits longer, because a server
    that has to load its model would otherwise abort."""
    limited = SearchConfig(retriever_timeout_ms=1000)
    settings = replace(config(server.url, endpoint_dimension=0), search=limited)
    with KnowledgeBase(tmp_path / "kb.sqlite", config=settings) as kb:
        kb.add("the banana boat")
        kb.embed()
    with KnowledgeBase(tmp_path / "kb.sqlite", config=settings) as kb:
        assert not kb.search("boat", mode="hybrid").degraded
        script.answers = [Answer(mute=True)] * 9
        found = kb.search("banana", mode="hybrid")
        assert found.returned == 1
        assert found.degraded == (Degraded("dense", "timeout", "no answer within 1 s"),)
        assert kb.status()["vectors"]["state"] == "ready"  # without a request


def test_a_silent_server_is_not_asked_twice(tmp_path: Path, script: Script, server: Server) -> None:
    """The first query of a process waits once for the whole time, and the next ones do not."""
    settings = config(server.url, endpoint_timeout_s=0.3)
    with KnowledgeBase(tmp_path / "kb.sqlite", config=settings) as kb:
        kb.add("the banana boat")
        kb.embed()
    script.answers = [Answer(mute=True)] * 9
    with KnowledgeBase(tmp_path / "kb.sqlite", config=settings) as kb:
        before = len(server.asked)
        for query in ("banana", "boat", "banana boat"):
            found = kb.search(query, mode="hybrid")
            assert found.returned == 1
            (degraded,) = found.degraded
            assert network.host_of(server.url) in str(degraded.detail)
        assert kb.search("banana", mode="vector").degraded
        assert len(server.asked) == before + 1


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
def test_the_search_has_a_time_limit_of_its_own(
    tmp_path: Path, script: Script, server: Server, mode: str
) -> None:
    """It applies from the first query on, since there is no model to load."""
    settings = config(server.url)
    with KnowledgeBase(tmp_path / "kb.sqlite", config=settings) as kb:
        kb.add("the banana boat")
        kb.embed()
    script.answers = [Answer(mute=True)] * 9
    patient = config(server.url, endpoint_timeout_s=60.0)
    limited = replace(patient, search=SearchConfig(timeout_s=0.6))
    with KnowledgeBase(tmp_path / "kb.sqlite", config=limited) as kb:
        began = time.monotonic()
        with suppress(DeadlineExceeded):
            assert kb.search("banana", mode=mode).degraded
        assert time.monotonic() - began < 50.0  # the endpoint has a minute


def test_a_date_to_come_back_at() -> None:
    assert network.wait_s(0, "Thu, 01 Jan 1970 00:00:00 GMT") == 0.5
    assert network.wait_s(0, "Fri, 31 Dec 9999 23:59:59 GMT") > 3600
    assert network.wait_s(3, "soon") == 4.0
    assert network.wait_s(99, None) == 60.0
