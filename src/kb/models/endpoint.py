"""The encoder that calls a server with OpenAI's `/embeddings` API.

Ollama, vLLM, llama.cpp, LM Studio and OpenAI offer it. Every response is checked: one vector per
text, of the declared dimension, all numbers finite. On some servers, the last digits of a vector
depend on the other texts in the request.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kb.config import user_file
from kb.errors import ConfigError, InvalidRequest, ModelBroken, is_unicode
from kb.index.normalize import normalize
from kb.models import network
from kb.models.circuit_breaker import CircuitBreaker
from kb.models.http_client import EmbeddingClient
from kb.models.lookup import ENDPOINT as NAME
from kb.ports import ModelTraits
from kb.text.normalize import nfc
from kb.types import Encoding, ModelSpec, Vector

if TYPE_CHECKING:
    from kb.config import Config, ModelsConfig

KEY_VARIABLE = "KB_ENDPOINT_KEY"
_LARGEST = 1e300
_QUERY_TIMEOUT_S, _QUERY_RETRIES, _QUERY_WAIT_S = 10.0, 1, 1.0  # a user is waiting
_BRIEF_S = 2.0  # if search.retriever_timeout_ms is 0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The URL of the API, and the model to request."""

    url: str
    model: str


def endpoint_spec(config: Config, name: str = NAME) -> ModelSpec:
    """The specification from the settings, without a request; a dimension of 0 is unknown."""
    return _spec(config.models, _endpoint(config.models, name))


def open_endpoint(config: Config, name: str = NAME, *, sleep: network.Sleep = time.sleep) -> (
    EndpointEncoder
):  # fmt: skip
    """Create the encoder without sending a request, so that a lexical search does not wait for a
    server. If no dimension is configured, the first response determines it. Raises `ConfigError` or
    `Offline`."""
    settings = config.models
    endpoint = _endpoint(settings, name)
    if not network.is_this_machine(endpoint.url):
        network.check_online(config, endpoint.url)
    queries = _client(settings, endpoint, sleep, patient=False)
    return EndpointEncoder(
        _spec(settings, endpoint),
        _client(settings, endpoint, sleep, patient=True),
        queries,
        CircuitBreaker(
            network.host_of(endpoint.url),
            limit_s=queries.timeout_s,
            brief_s=config.search.retriever_timeout_ms / 1000 or _BRIEF_S,
        ),
        batch=settings.endpoint_batch,
    )


class EndpointEncoder(ModelTraits):
    """Encodes texts by requests to a server. Threads may share it: each request has its own
    connection."""

    remote = True

    def __init__(
        self,
        spec: ModelSpec,
        passages: EmbeddingClient,
        queries: EmbeddingClient,
        breaker: CircuitBreaker,
        *,
        batch: int,
    ) -> None:
        self._spec = spec
        self._passages = passages
        self._queries = queries
        self._breaker = breaker
        self._batch = batch

    @property
    def spec(self) -> ModelSpec:
        """The specification; its dimension may be 0 before the first response."""
        return self._spec

    @property
    def batch_size(self) -> int:
        """The setting `models.endpoint_batch`."""
        return self._batch

    def encode(
        self,
        texts: Sequence[str],
        *,
        as_query: bool = False,
        want: Set[str] = frozenset({"dense"}),
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Encoding]:
        if isinstance(texts, str):
            raise InvalidRequest("encode takes a list of texts", "pass [text] for a single text")
        if "dense" not in want:
            return [Encoding() for _ in texts]
        prefix = self._spec.query_prefix if as_query else self._spec.passage_prefix
        encodings: list[Encoding] = []
        for start in range(0, len(texts), self._batch):
            batch = [prefix + nfc(text) for text in texts[start : start + self._batch]]
            response = self._query(batch) if as_query else self._passages.vectors(batch)
            self._breaker.record_response()
            vectors = _check_vectors(response, len(batch), self._spec)
            if not self._spec.dimension:
                self._spec = replace(self._spec, dimension=len(vectors[0]))
            encodings += [Encoding(dense=_normalize(vector, self._spec)) for vector in vectors]
            if on_progress is not None:
                on_progress(len(encodings))
        return encodings

    def _query(self, texts: list[str]) -> list[Any]:
        """The vectors of queries. Fails at once if the server has not responded lately, because a
        user is waiting."""
        return self._breaker.call(lambda: self._queries.vectors(texts))


# --- settings -------------------------------------------------------------------------------------


def _endpoint(settings: ModelsConfig, name: str) -> Endpoint:
    model = name.partition(":")[2] or settings.endpoint_model
    for key, value in (("endpoint_url", settings.endpoint_url), ("endpoint_model", model)):
        if not value:
            raise ConfigError(
                f"the encoder {NAME!r} needs the setting models.{key}",
                f"set it in {user_file()}, or set KB_MODELS_{key.upper()}",
            )
    for key, value in (("model", model), ("query_prefix", settings.endpoint_query_prefix),
                       ("passage_prefix", settings.endpoint_passage_prefix)):  # fmt: skip
        if not is_unicode(value):  # from an environment that is not UTF-8
            raise ConfigError(f"models.endpoint_{key} is not valid UTF-8", "use UTF-8")
    url = network.check_url(settings.endpoint_url, "models.endpoint_url").rstrip("/")
    return Endpoint(url if url.endswith("/embeddings") else f"{url}/embeddings", model)


def _spec(settings: ModelsConfig, endpoint: Endpoint) -> ModelSpec:
    """The specification. Its version includes the passage prefix, so that vectors computed with
    different prefixes are never mixed."""
    from zlib import crc32

    prefix = settings.endpoint_passage_prefix
    return ModelSpec(
        name=endpoint.model,
        version=f"{NAME}-{crc32(prefix.encode()):08x}" if prefix else NAME,
        dimension=settings.endpoint_dimension if endpoint.model == settings.endpoint_model else 0,
        gives=frozenset({"dense"}),
        max_tokens=0,  # unknown
        query_prefix=settings.endpoint_query_prefix,
        passage_prefix=prefix,
    )


def _client(
    settings: ModelsConfig, endpoint: Endpoint, sleep: network.Sleep, *, patient: bool
) -> EmbeddingClient:
    timeout_s, retries = settings.endpoint_timeout_s, settings.endpoint_retries
    return EmbeddingClient(
        endpoint.url,
        endpoint.model,
        key=_key(),
        timeout_s=timeout_s if patient else min(timeout_s, _QUERY_TIMEOUT_S),
        retries=retries if patient else min(retries, _QUERY_RETRIES),
        longest_wait_s=network.LONGEST_WAIT_S if patient else _QUERY_WAIT_S,
        sleep=sleep,
        patient=patient,
    )


def _key() -> str:
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigError(
            f"the API key in {KEY_VARIABLE} contains characters that are not allowed",
            f"set {KEY_VARIABLE} to the key of the server",
        )
    return key


# --- responses ------------------------------------------------------------------------------------


def _check_vectors(vectors: Sequence[Any], count: int, spec: ModelSpec) -> Sequence[list[float]]:
    """Return the vectors. Raises `ModelBroken` unless all are lists of finite numbers of the
    declared dimension or, if none is declared, of the same dimension."""
    if len(vectors) != count:
        raise _broken_model(spec, f"{len(vectors)} vectors for {count} texts")
    for vector in vectors:
        if not isinstance(vector, list) or not vector or not all(map(_is_number, vector)):
            raise _broken_model(spec, "something other than a list of numbers")
        if len(vector) != (expected := spec.dimension or len(vectors[0])):
            raise _broken_model(spec, f"vectors of {len(vector)} dimensions instead of {expected}")
    return vectors


def _is_number(value: Any) -> bool:
    """Whether the value is a number, neither infinite nor too large to normalize."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and -_LARGEST < value < _LARGEST
    )


def _normalize(vector: list[float], spec: ModelSpec) -> Vector[float]:
    try:
        return normalize(vector)
    except ValueError as error:
        raise _broken_model(spec, f"a vector that {error}") from None


def _broken_model(spec: ModelSpec, what: str) -> ModelBroken:
    return ModelBroken(
        f"the endpoint returned {what} for the model {spec.name}",
        "check models.endpoint_model and models.endpoint_dimension; if the model has changed, run: "
        "kb reindex --model endpoint",
    )
