"""How search by a model status: what vectors the store has, and whether there is a model to ask
them with. Every search asks, and `kb status` shows the same. Cheap: loads no model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kb.errors import KbError
from kb.text.scripts import unsupported_scripts
from kb.types import Degraded

if TYPE_CHECKING:
    from kb.ports import Encoder, Store
    from kb.types import StoredModel

# The encoder, made ready when it is first asked for. None where it is switched off; a `ModelError`
# where it cannot be had.
EncoderSource = Callable[[], "Encoder | None"]


_OFF = "the encoder is switched off"


def no_encoder() -> None:
    """The source of a search that has no encoder."""


@dataclass(frozen=True, slots=True)
class RetrieverStatus:
    """`model` is the one whose vectors answer; `usable` says whether they can be asked.

    Keyword search by choice is `off`: the encoder is switched off, and there are no vectors that it
    leaves unused. Nothing is degraded then.
    """

    encoder: str | None
    model: StoredModel | None
    pending: int
    usable: bool
    degraded: tuple[Degraded, ...] = ()
    scripts: tuple[str, ...] = ()  # that the encoder reads; none means: any
    gives: frozenset[str] = frozenset()  # parts, of the encoder
    part: str = "dense"  # which kind of vectors this is about
    no_sparse: int = 0  # how many have vectors that will get no sparse ones
    remote: bool = False  # whether a server encodes, which may not answer

    @property
    def off(self) -> bool:
        return not self.usable and not self.degraded and self.encoder is None

    @property
    def lacking(self) -> bool:
        """Whether the model is one that gives no such vectors."""
        return self.encoder is not None and bool(self.gives) and self.part not in self.gives

    def required(self) -> RetrieverStatus:
        """As it status for a search that wants vectors and nothing else."""
        return replace(self, degraded=(_no_model(_OFF, self.part),)) if self.off else self

    def for_sparse(self) -> RetrieverStatus:
        """The same of sparse vectors: the model may give none, and may have come to give them after
        others of its vectors were made."""
        of_it = replace(self, part="sparse")
        if of_it.lacking:
            none = _no_model(f"{self.encoder} gives no sparse vectors", "sparse")
            return replace(of_it, usable=False, degraded=(none,))
        if not self.usable or self.model is None:
            told = tuple(replace(part, part="sparse") for part in self.degraded)
            return replace(of_it, degraded=told)
        pending = self.pending + self.model.no_sparse - self.no_sparse
        return replace(
            of_it,
            pending=pending,
            usable=self.model.sparse > 0,
            degraded=_incomplete(self.model.failed + self.no_sparse, pending, "sparse"),
        )

    @property
    def state(self) -> str:
        """In a word: off, ready, or what is wrong."""
        if self.degraded:
            return self.degraded[0].reason
        return "off" if self.off else "ready"


def retriever_status(
    store: Store, source: EncoderSource, *, ready_made: bool = False
) -> RetrieverStatus:
    """With a `ready_made` query vector no encoder is needed."""
    model = next(iter(store.models()), None)
    ready = model is not None and model.ready > 0
    pending = model.pending if model is not None else store.chunk_count()
    try:
        encoder = source()
    except KbError as error:
        if not ready_made:
            return RetrieverStatus(None, model, pending, False, (_no_model(error.message),))
        encoder = None
    name = None if encoder is None else encoder.spec.name
    if encoder is None and not ready_made:
        unused = (_no_model(_OFF),) if ready else ()
        return RetrieverStatus(None, model, pending, False, unused)
    if encoder is not None and model is not None and ready and not ready_made:
        spec = encoder.spec
        if (spec.name, spec.version) != (model.name, model.version):
            detail = f"vectors of {model.name} {model.version}, not {spec.name} {spec.version}"
            return RetrieverStatus(
                name, model, pending, False, (Degraded("dense", "model_mismatch", detail),)
            )
    unfinished = _incomplete(0 if model is None else model.failed, pending)
    if encoder is None:
        return RetrieverStatus(name, model, pending, ready, unfinished)
    spec = encoder.spec
    return RetrieverStatus(
        name, model, pending, ready, unfinished, spec.scripts, spec.gives,
        no_sparse=_no_sparse(store, model, spec.gives), remote=getattr(encoder, "remote", False),
    )  # fmt: skip


def exam_verdict(model: StoredModel | None, part: str, text: str) -> str:
    """What the exam has shown that speaks against asking `part` of the model for such a text; empty
    if nothing. A text without letters is for every model that reads something."""
    if model is None:
        return ""
    is_read = not model.reads_nothing(part) and not unsupported_scripts(
        text, (), model.failed_scripts(part)
    )
    return "" if is_read else model.verdict(part)


def _no_sparse(store: Store, model: StoredModel | None, gives: frozenset[str]) -> int:
    if model is None or "sparse" not in gives or not model.no_sparse:
        return 0
    return store.without_part(model.model_id, "sparse")


def _no_model(detail: str, part: str = "dense") -> Degraded:
    return Degraded(part, "no_model", detail)


def _incomplete(failed: int, pending: int, part: str = "dense") -> tuple[Degraded, ...]:
    parts = [Degraded(part, "pending", pending)] if pending else []
    if failed:
        passages = "1 passage" if failed == 1 else f"{failed} passages"
        parts.append(Degraded(part, "failed", f"{passages} could not be embedded"))
    return tuple(parts)
