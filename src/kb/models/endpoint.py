"""An encoder behind an address: any server that speaks OpenAI's `/embeddings`.

Ollama, vLLM, llama.cpp, LM Studio, OpenAI. What comes back is looked at before it is believed: as
many vectors as texts, of the promised length, of numbers. What a server does with texts that come
together is its own affair; vectors may differ in their last digits by the company of a text.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kb.config import user_file
from kb.errors import ConfigError, InvalidRequest, ModelBroken
from kb.index.normalize import normalize
from kb.models import network
from kb.models.http_client import Asking
from kb.models.lookup import ENDPOINT as NAME
from kb.ports import ModelTraits
from kb.text.normalize import nfc
from kb.types import Encoding, ModelSpec, Vector

if TYPE_CHECKING:
    from kb.config import Config, ModelsConfig

KEY_VARIABLE = "KB_ENDPOINT_KEY"
_MOST = 1e300
_QUERY_TIMEOUT_S, _QUERY_RETRIES, _QUERY_WAIT_S = 10.0, 1, 1.0  # somebody waits for the answer


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the server is, and which of its models is asked."""

    url: str
    model: str


def described(config: Config, name: str = NAME) -> ModelSpec:
    """What the settings tell, without asking: a dimension of 0 is not known yet."""
    return _spec(config.models, _endpoint(config.models, name))


def open_endpoint(config: Config, name: str = NAME, *, sleep: network.Sleep = time.sleep) -> (
    EndpointEncoder
):  # fmt: skip
    """The encoder of that name. Nobody is asked yet: words need not wait for a server. Where the
    settings do not say how long its vectors are, its first answer does."""
    settings = config.models
    endpoint = _endpoint(settings, name)
    if not network.is_here(endpoint.url):
        network.check_online(config, endpoint.url)
    return EndpointEncoder(
        _spec(settings, endpoint),
        _asking(settings, endpoint, sleep, patient=True),
        _asking(settings, endpoint, sleep, patient=False),
        batch=settings.endpoint_batch,
    )


class EndpointEncoder(ModelTraits):
    """Shared between threads: each request is a connection of its own."""

    remote = True  # what may hang, and has nothing to load here

    def __init__(self, spec: ModelSpec, passages: Asking, queries: Asking, *, batch: int) -> None:
        self._spec = spec
        self._passages = passages
        self._queries = queries
        self._batch = batch

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    @property
    def batch_size(self) -> int:
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
            raise InvalidRequest("encode takes a list of texts", "give [text] for a single one")
        if "dense" not in want:
            return [Encoding() for _ in texts]
        prefix = self._spec.query_prefix if as_query else self._spec.passage_prefix
        asking = self._queries if as_query else self._passages
        encodings: list[Encoding] = []
        for start in range(0, len(texts), self._batch):
            shown = [prefix + nfc(text) for text in texts[start : start + self._batch]]
            vectors = _checked(asking.vectors(shown), len(shown), self._spec)
            if not self._spec.dimension:
                self._spec = replace(self._spec, dimension=len(vectors[0]))
            encodings += [Encoding(dense=_normalize(vector, self._spec)) for vector in vectors]
            if on_progress is not None:
                on_progress(len(encodings))
        return encodings


# --- the settings ---------------------------------------------------------------------------------


def _endpoint(settings: ModelsConfig, name: str) -> Endpoint:
    model = name.partition(":")[2] or settings.endpoint_model
    for key, value in (("endpoint_url", settings.endpoint_url), ("endpoint_model", model)):
        if not value:
            raise ConfigError(
                f"the encoder {NAME!r} needs models.{key}",
                f"set it in {user_file()}, or as KB_MODELS_{key.upper()}",
            )
    url = network.checked_url(settings.endpoint_url, "models.endpoint_url").rstrip("/")
    return Endpoint(url if url.endswith("/embeddings") else f"{url}/embeddings", model)


def _spec(settings: ModelsConfig, endpoint: Endpoint) -> ModelSpec:
    """The version tells what else stored vectors depend on, so that they are not mixed."""
    from zlib import crc32

    prefix = settings.endpoint_passage_prefix
    return ModelSpec(
        name=endpoint.model,
        version=f"{NAME}-{crc32(prefix.encode()):08x}" if prefix else NAME,
        dimension=settings.endpoint_dimension if endpoint.model == settings.endpoint_model else 0,
        gives=frozenset({"dense"}),
        max_tokens=0,  # not known
        query_prefix=settings.endpoint_query_prefix,
        passage_prefix=prefix,
    )


def _asking(
    settings: ModelsConfig, endpoint: Endpoint, sleep: network.Sleep, *, patient: bool
) -> Asking:
    timeout_s, retries = settings.endpoint_timeout_s, settings.endpoint_retries
    return Asking(
        endpoint.url,
        endpoint.model,
        key=_key(),
        timeout_s=timeout_s if patient else min(timeout_s, _QUERY_TIMEOUT_S),
        retries=retries if patient else min(retries, _QUERY_RETRIES),
        longest_wait_s=network.LONGEST_WAIT_S if patient else _QUERY_WAIT_S,
        sleep=sleep,
    )


def _key() -> str:
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigError(f"{KEY_VARIABLE} cannot be a key", "it has letters that no key has")
    return key


# --- what came back -------------------------------------------------------------------------------


def _checked(vectors: Sequence[Any], count: int, spec: ModelSpec) -> Sequence[list[float]]:
    """Nothing that is not a vector of the promised length is stored; where none was promised, of
    the same length as the others."""
    if len(vectors) != count:
        raise _broken(spec, f"{len(vectors)} vectors for {count} texts")
    for vector in vectors:
        if not isinstance(vector, list) or not vector or not all(map(_is_number, vector)):
            raise _broken(spec, "what is no list of numbers")
        if len(vector) != (wanted := spec.dimension or len(vectors[0])):
            raise _broken(spec, f"vectors of {len(vector)} dimensions where {wanted} were promised")
    return vectors


def _is_number(value: Any) -> bool:
    """None that is infinite, or so large that a length made of it would be."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -_MOST < value < _MOST


def _normalize(vector: list[float], spec: ModelSpec) -> Vector[float]:
    try:
        return normalize(vector)
    except ValueError as error:
        raise _broken(spec, f"a vector that {error}") from None


def _broken(spec: ModelSpec, what: str) -> ModelBroken:
    return ModelBroken(
        f"the endpoint gave {what}, for the model {spec.name}",
        "check models.endpoint_model and models.endpoint_dimension; after a change of the model: "
        "kb reindex --model endpoint",
    )
