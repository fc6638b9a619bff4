"""The sockets of the house: what a parser, an encoder and a store must be able to do.

Rooms talk through these, so that another format or another store fits without an `if` elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kb.types import Attributes

if TYPE_CHECKING:  # a parser process loads this module at its start
    from kb.types import (
        Block,
        Chunk,
        ChunkDraft,
        Document,
        DocumentDraft,
        Embedded,
        Encoding,
        ExamMark,
        FileState,
        Filters,
        Job,
        LexicalQuery,
        ModelSpec,
        Outcome,
        Root,
        StoredModel,
        TextMatches,
        ToEmbed,
        TokenVectors,
        Vector,
        VectorMatches,
        Written,
    )


def _silent(_done: int, _total: int) -> None:
    """Progress that nobody asked for."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file's bytes on the way into a parser. `name` is the file name, for its suffix;
    `mtime_ns` is when the file was changed, for what counts from then. A parser that takes long
    may `tell` how far it is, in units of its own."""

    name: str
    data: bytes
    mtime_ns: int = 0
    tell: Callable[[int, int], None] = field(default=_silent, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a parser makes of a source. `lang` is a natural or a programming language, if known;
    `warnings` are things the reader should hear about though the document was read.

    `text` is the text that spans count lines in, where that is not the file's own: what was taken
    out of a PDF, a web page, an office file. Pages are separated by form feeds."""

    type: str
    blocks: Iterable[Block]
    title: str | None = None
    lang: str | None = None
    attributes: Attributes = field(default_factory=Attributes)
    warnings: tuple[str, ...] = ()
    text: str | None = None


class Parser(Protocol):
    """Reads one format. Raises `ingest.parse.Unreadable` for a file it cannot make sense of."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """Changes whenever the same bytes would give other blocks: files are then read again."""
        ...

    def accepts(self, source: Source) -> bool:
        """Whether this is a file to `parse`; `source.data` may be no more than its beginning."""
        ...

    def parse(self, source: Source) -> Parsed: ...


class Encoder(Protocol):
    """Turns texts into vectors. One object may be shared between threads. A text's vectors depend
    on nothing but the text: not on its company, not on the thread."""

    @property
    def spec(self) -> ModelSpec: ...

    def encode(
        self,
        texts: Sequence[str],
        *,
        as_query: bool = False,
        want: Set[str] = frozenset({"dense"}),
        on_progress: Callable[[int], None] | None = None,
    ) -> list[Encoding]:
        """One encoding a text, in order, with the parts of `want` that the model can give (see
        `ModelSpec.gives`). Raises `ModelError`; never gives a zero vector."""
        ...


class Judge(Protocol):
    """Reads a query and a passage together, and tells how well they fit. One object may be shared
    between threads. A pair's score depends on nothing but the pair."""

    @property
    def spec(self) -> ModelSpec: ...

    def scores(self, query: str, passages: Sequence[str]) -> list[float]:
        """One score a passage, in order; higher is better, on a scale of the model's own. Raises
        `ModelError`."""
        ...


class Store(Protocol):
    """Documents, chunks and their indexes. Only a store speaks SQL."""

    def reading(self) -> AbstractContextManager[Any]:
        """One consistent state for all reads inside."""
        ...

    def index_version(self) -> str: ...

    # roots and documents
    def roots(self) -> list[Root]: ...
    def ensure_root(self, path: str, *, whole: bool) -> Root: ...
    def attach_root(self, root_id: int, path: str) -> None: ...
    def file_states(self, root_id: int) -> dict[str, FileState]: ...
    def write_document(
        self, draft: DocumentDraft, chunks: Iterable[ChunkDraft], *, was: int | None = None
    ) -> Written:
        """Insert the document, or replace the one at its path; `was` is the document whose file
        has moved there, which it stays."""
        ...

    def touch_file(self, state: FileState) -> None: ...
    def delete_documents(self, doc_ids: Iterable[int]) -> int: ...
    def documents_by_id(
        self, doc_ids: Iterable[int], *, metadata: bool = True
    ) -> dict[int, Document]:
        """Documents by their number; without `metadata`, theirs is not read."""
        ...

    def chunks_by_id(self, chunk_ids: Iterable[int]) -> dict[int, Chunk]: ...
    def owners(self, chunk_ids: Iterable[int]) -> dict[int, int]:
        """The document of each chunk."""
        ...

    def chunk_count(self) -> int:
        """How many chunks can be found: those of expired documents cannot."""
        ...

    # lexical retrieval
    def match(
        self, query: LexicalQuery, *, every: bool, filters: Filters, now: str, limit: int
    ) -> TextMatches:
        """The best chunks for any term; with `every`, only those that hold all of them."""
        ...

    def match_expression(
        self, expression: str, *, filters: Filters, now: str, limit: int
    ) -> TextMatches:
        """A user's own expression; `QuerySyntax` if it is malformed."""
        ...

    def match_substrings(
        self, terms: Sequence[str], *, filters: Filters, now: str, limit: int, indexed: bool = True
    ) -> TextMatches:
        """Chunks that hold any of the terms as substrings, most terms first."""
        ...

    # vectors: `embeddings` is the truth, every index over them is derived
    def models(self) -> list[StoredModel]:
        """The models whose vectors the store holds; the one that answers searches first."""
        ...

    def use_model(self, spec: ModelSpec, source: str | None = None) -> StoredModel:
        """The store's record of this model, made if the store has none yet, and then with the name
        its encoder is found by, where that is not the setting's; `ModelMismatch` when
        the store's vectors are of another name, version or dimension."""
        ...

    def set_marks(self, model_id: int, marks: Sequence[ExamMark] | None) -> None:
        """Remember what the model's exam has shown."""
        ...

    def to_embed(self, model_id: int, *, limit: int, after: int = 0) -> list[ToEmbed]:
        """Chunks with an id above `after` that have no ready vectors and have not failed for
        good, by id."""
        ...

    def write_embeddings(self, model_id: int, rows: Sequence[tuple[int, Encoding]]) -> int:
        """Vectors of chunks, in one transaction; dense ones are normalised on the way in, a zero
        one is refused. Rows of chunks that have gone meanwhile are left out; the number written is
        returned."""
        ...

    def fail_embeddings(self, model_id: int, chunk_ids: Sequence[int], error: str) -> None:
        """Count a failed attempt, with its reason."""
        ...

    # jobs: who is giving vectors to which chunks
    def start_job(self, model_id: int) -> int:
        """The id of a worker's run, which ends by `end_job` or with the process."""
        ...

    def lease(
        self,
        job_id: int,
        model_id: int,
        *,
        limit: int,
        after: int = 0,
        doc_id: int | None = None,
        lacking: Set[str] = frozenset(),
        patient: bool = False,
    ) -> list[ToEmbed]:
        """Chunks with an id above `after`, of one document or of all, that this job is to work on
        and no other does: those without vectors, or those whose vectors lack one of the parts
        `lacking`. With `patient`, those that have failed lately are left for later."""
        ...

    def has_work(self, model_id: int, lacking: Set[str]) -> bool:
        """Whether a patient worker would find something to lease."""
        ...

    def renew_job(self, job_id: int) -> None:
        """Keep what was leased for longer."""
        ...

    def finish(self, job_id: int, model_id: int, outcomes: Sequence[Outcome]) -> Embedded:
        """Write what came of leased chunks, in one transaction. Only what a chunk lacks is written,
        whoever has worked on it meanwhile."""
        ...

    def end_job(self, job_id: int) -> None: ...

    def jobs(self) -> list[Job]:
        """Who is at work, or was when the process ended."""
        ...

    def last_error(self, model_id: int) -> str | None:
        """The reason of the last attempt that failed, where there are such chunks."""
        ...

    def retry_embeddings(self, model_id: int, *, doc_id: int | None = None) -> int:
        """Make those that failed for good pending again, of one document or of all; how many there
        were."""
        ...

    def begin_switch(
        self, spec: ModelSpec, source: str | None, *, keep_old: bool = False
    ) -> StoredModel:
        """The record of the model that is to answer next, made or taken up again; its vectors are
        built beside those that answer, which will be kept or dropped. Where none answer yet, it
        answers at once. Another one that was to answer next is given up, with its vectors."""
        ...

    def can_switch(self, model_id: int) -> bool:
        """Whether the vectors of that model may answer: no chunk waits for one, and none that the
        vectors of now have has failed for good."""
        ...

    def switch(self, model_id: int, *, force: bool = False) -> bool:
        """Let the vectors of that model answer from now on, if they may; whether they do. With
        `force`, what has failed does not hold it up. The old ones are kept or may be dropped from
        now on, as was said when it began."""
        ...

    def without_part(self, model_id: int, part: str) -> int:
        """How many chunks have vectors that will not get the part they lack."""
        ...

    def drop_some(self, limit: int = 500) -> bool:
        """Drop some of the vectors that nobody asks any more; whether there may be more."""
        ...

    def drop_vectors(self) -> int:
        """Forget all vectors and the models that made them; how many vectors there were."""
        ...

    def vector_version(self) -> str:
        """Changes with every change to vectors."""
        ...

    def vectors_of(self, model_id: int, chunk_ids: Iterable[int]) -> dict[int, Vector[float]]:
        """The dense vectors of those chunks that have one."""
        ...

    def nearest(
        self,
        model_id: int,
        vector: Vector[float],
        *,
        filters: Filters,
        now: str,
        limit: int,
        backend: str,
    ) -> VectorMatches:
        """The chunks with the highest cosine to `vector`, exactly those of brute force over what
        `filters` leave; ties by chunk id. `backend` is auto, sqlite-vec, numpy or python."""
        ...

    def sparse_nearest(
        self, model_id: int, query: Mapping[str, float], *, filters: Filters, now: str, limit: int
    ) -> VectorMatches:
        """The chunks with the highest product of their weights and the query's, summed up in the
        order of the terms; exact under `filters`, ties by chunk id. Those that share no term with
        the query are not found."""
        ...

    def sparse_of(self, model_id: int, chunk_ids: Iterable[int]) -> dict[int, dict[str, float]]:
        """The weights, as they count, of those chunks that have some."""
        ...

    def tokens_of(self, model_id: int, chunk_ids: Iterable[int]) -> dict[int, TokenVectors]:
        """The token vectors of those chunks that have some, each at length 1."""
        ...


Clock = Callable[[], float]  # seconds since the epoch, as time.time
