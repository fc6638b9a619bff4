"""Availability of retrieval by a model: which vectors the store has, and whether an encoder for
queries exists. Loads no model. `kb status` reports the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from kb.errors import KbError
from kb.text.scripts import unsupported_scripts
from kb.types import Degraded
from kb.values import TYPE_CHECKING, dataclass, replace

if TYPE_CHECKING:
    from kb.ports import Encoder, Store
    from kb.types import ModelSpec, StoredModel

# Returns the encoder, which loads its model on first use; None if encoders are disabled. Raises
# `ModelError` if the encoder cannot be used.
EncoderSource = Callable[[], "Encoder | None"]


_OFF = "the encoder is disabled"


def no_encoder() -> None:
    """The default encoder source: returns None."""


@dataclass(frozen=True, slots=True)
class RetrieverStatus:
    """Whether one output of the model can be searched.

    `model` is the model whose vectors the store has. `degraded` is empty if everything works, and
    also if the user disabled the encoder and the store has no vectors.
    """

    output: str
    encoder: str | None
    model: StoredModel | None
    pending: int
    usable: bool
    degraded: tuple[Degraded, ...] = ()
    scripts: tuple[str, ...] = ()  # that the encoder reads; empty for all
    languages: tuple[str, ...] = ()  # that the encoder reads; empty for all
    outputs: frozenset[str] = frozenset()  # of the encoder
    is_remote: bool = False  # whether a server encodes queries

    @property
    def is_off(self) -> bool:
        """Whether the user disabled the encoder and the store has no vectors."""
        return not self.usable and not self.degraded and self.encoder is None

    @property
    def is_unsupported(self) -> bool:
        """Whether the encoder never produces this output."""
        return self.encoder is not None and bool(self.outputs) and self.output not in self.outputs

    @property
    def state(self) -> str:
        """`off`, `ready`, or the reason of the first problem."""
        if self.degraded:
            return self.degraded[0].reason
        return "off" if self.is_off else "ready"

    def required(self) -> RetrieverStatus:
        """The status for a search that has no other retriever, in which a disabled encoder counts
        as a problem."""
        return replace(self, degraded=(_no_model(self.output, _OFF),)) if self.is_off else self


class ActiveModel:
    """The model that searches use and its encoder, each looked up at most once."""

    def __init__(self, store: Store, source: EncoderSource) -> None:
        self._store = store
        self._source = source
        self._statuses: dict[tuple[str, bool], RetrieverStatus] = {}

    @cached_property
    def stored(self) -> StoredModel | None:
        """The store's record of the model; None if the store has no vectors."""
        return next(iter(self._store.vectors.models()), None)

    @property
    def encoder(self) -> Encoder | None:
        """The encoder; None if it is disabled or cannot be used."""
        encoder = self._encoder_or_error
        return None if isinstance(encoder, KbError) else encoder

    @cached_property
    def _encoder_or_error(self) -> Encoder | KbError | None:
        try:
            return self._source()
        except KbError as error:
            return error

    def status(self, output: str, *, has_vector: bool = False) -> RetrieverStatus:
        """The status of retrieval by an output of the model: `dense`, `sparse` or `tokens`.
        With `has_vector`, the caller supplies the query's vector, and no encoder is needed."""
        key = (output, has_vector)
        if key not in self._statuses:
            self._statuses[key] = self._status(output, has_vector=has_vector)
        return self._statuses[key]

    def _status(self, output: str, *, has_vector: bool) -> RetrieverStatus:
        model = self.stored
        pending = model.pending if model is not None else self._store.catalog.chunk_count()
        unusable = RetrieverStatus(output, None, model, pending, usable=False)
        error = self._encoder_or_error
        if isinstance(error, KbError) and not has_vector:
            return replace(unusable, degraded=(_no_model(output, error.message),))
        ready = model is not None and model.ready > 0
        encoder = self.encoder
        if encoder is None:
            if has_vector:
                return self._complete(replace(unusable, usable=ready))
            unused = (_no_model(output, _OFF),) if ready else ()
            return replace(unusable, degraded=unused)
        from kb.ports import traits_of  # a lexical search need not load the ports

        spec = encoder.spec
        unusable = replace(unusable, encoder=spec.name)
        if model is not None and ready and not has_vector and not _made_by(model, spec):
            detail = f"vectors of {model.name} {model.version}, not {spec.name} {spec.version}"
            return replace(unusable, degraded=(Degraded(output, "model_mismatch", detail),))
        return self._complete(
            replace(
                unusable,
                usable=ready,
                scripts=spec.scripts,
                languages=spec.languages,
                outputs=spec.gives,
                is_remote=traits_of(encoder).remote,
            )
        )

    def _complete(self, status: RetrieverStatus) -> RetrieverStatus:
        """Add the number of passages without this output. A newer version of the encoder may
        produce an output that older vectors lack."""
        model, output, pending = status.model, status.output, status.pending
        if status.is_unsupported:
            detail = f"{status.encoder} does not produce {output} vectors"
            return replace(status, usable=False, degraded=(_no_model(output, detail),))
        if model is None or not status.usable:
            return replace(status, degraded=_incomplete(output, pending, model))
        missing = model.lacks(output)
        failed = self._store.vectors.count_missing_part(model.model_id, output) if missing else 0
        pending += missing - failed
        return replace(
            status,
            pending=pending,
            usable=model.ready > missing,
            degraded=_incomplete(output, pending, model, failed),
        )


def exam_verdict(model: StoredModel | None, output: str, text: str) -> str:
    """Why this output should not be used for this text, according to the model's exam; empty if it
    may be used. A text without letters suits every model that passed in any script."""
    if model is None:
        return ""
    failed = unsupported_scripts(text, (), model.failed_scripts(output))
    if failed:
        return model.verdict(output, failed)
    return model.verdict(output) if model.reads_nothing(output) else ""


def _made_by(model: StoredModel, spec: ModelSpec) -> bool:
    return (model.name, model.version) == (spec.name, spec.version)


def _no_model(output: str, detail: str) -> Degraded:
    return Degraded(output, "no_model", detail)


def _incomplete(
    output: str, pending: int, model: StoredModel | None, failed: int = 0
) -> tuple[Degraded, ...]:
    parts = [Degraded(output, "pending", pending)] if pending else []
    failed += 0 if model is None else model.failed
    if failed:
        passages = "1 passage" if failed == 1 else f"{failed} passages"
        parts.append(Degraded(output, "failed", f"{passages} could not be embedded"))
    return tuple(parts)
