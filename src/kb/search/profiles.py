"""Profiles: pipelines as data. `config.toml` and `--set` can change every field; entries of a table
have dotted names, such as `weights.dense=0.5`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kb.errors import InvalidRequest, check_choice, check_text
from kb.search.profile_settings import ALIASES, TABLES, check_name, read, read_entry
from kb.search.ranking.boosts import HALF_LIFE_DAYS, TYPE_WEIGHTS, Boosts
from kb.search.ranking.fusion import RRF_K, Fusion
from kb.search.retrievers import registry
from kb.types import RERANKERS
from kb.values import TYPE_CHECKING, Any, dataclass, field, fields, replace

if TYPE_CHECKING:
    from kb.config import Config
    from kb.types import SearchRequest

_SHOWN_IF_SET = (
    "boosts", "collapse", "per_document", "group", "complete", "adaptive", "agreement", "coverage",
    "literal", "calibrated", "word_match",
)  # fmt: skip
RERANKER = "colbert"  # the better one: docs/decisions/0016-rerankers.md


@dataclass(frozen=True, slots=True)
class Profile:
    """The settings of a search."""

    name: str
    summary: str
    retrievers: tuple[str, ...]
    match: str  # any, all, auto
    candidates: str = "100"  # of each retriever: a number, or a multiple of top, such as 3x
    fusion: str = "none"
    k: float = RRF_K
    normalisation: str = "zscore"
    weights: Mapping[str, float] = field(default_factory=dict)  # of retrievers; 1 by default
    adaptive: bool = False  # weights depend on the query: `ranking.adaptive`
    agreement: bool = False  # an outlier list gets less weight: `ranking.agreement`
    word_match: bool = False  # words count by how well they match: `ranking.word_match`
    coverage: bool = False  # lists that lack most vectors get less weight: `ranking.coverage`
    complete: bool = False  # score candidates that only other retrievers returned
    literal: bool = False  # passages that contain the query come first: `ranking.literal`
    min_score: float | None = None  # drop candidates with a lower fused score
    calibrated: bool = False  # `min_score` also applies to the relevance
    boosts: tuple[str, ...] = ()
    type_weights: Mapping[str, float] = field(default_factory=lambda: dict(TYPE_WEIGHTS))
    half_life_days: float = HALF_LIFE_DAYS
    rerank: str = "none"
    rerank_candidates: int = 100
    rerank_blend: float | None = None  # None: depends on the query (see `rerank.automatic`)
    threshold: float | None = None  # drop hits with a lower score
    min_relevance: float | None = None  # drop hits with a lower relevance
    collapse: bool = False  # duplicates and repeated texts: `results.collapse`
    per_document: int = 0  # passages of a document among the first ten hits; 0: any number
    group: bool = False  # keep only the best hit of a document
    top: int | None = None  # None: search.default_top

    @property
    def mode(self) -> str:
        """The mode of the only retriever, or `hybrid`."""
        if len(self.retrievers) > 1:
            return registry.HYBRID
        return registry.get(self.retrievers[0]).mode

    def settings(self) -> dict[str, Any]:
        """The settings that have an effect, as in a `config.toml`."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        values["weights"] = {name: self.weight(name) for name in self.retrievers}
        unused = {"name", *self._unused_settings()}
        return {key: _plain(value) for key, value in values.items() if key not in unused}

    def _unused_settings(self) -> Iterator[str]:
        fused = len(self.retrievers) > 1
        if not fused:
            yield from ("fusion", "weights", "adaptive", "agreement", "word_match", "coverage")
            yield "complete"
        if not fused and not self.boosts:
            yield "candidates"
        if not fused or self.fusion != "rrf":
            yield "k"
        if not fused or self.fusion != "convex":
            yield "normalisation"
        yield from (name for name in _SHOWN_IF_SET if not getattr(self, name))
        if "type" not in self.boosts:
            yield "type_weights"
        if "decay" not in self.boosts:
            yield "half_life_days"
        if self.rerank == "none":
            yield from ("rerank", "rerank_candidates", "rerank_blend")

    def weight(self, retriever: str) -> float:
        """The weight of a retriever."""
        return self.weights.get(retriever, 1.0)

    def model_outputs(self) -> frozenset[str]:
        """The outputs of the model that a search needs for the query."""
        outputs = {registry.get(name).model_output for name in self.retrievers}
        tokens = {"tokens"} if self.rerank == "colbert" else set()
        return frozenset(output for output in outputs | tokens if output is not None)

    def candidates_for(self, top: int) -> int:
        """How many candidates of each retriever are fused. A fixed number keeps the order of hits
        for any `top`."""
        if self.candidates.endswith("x"):
            return top * int(self.candidates[:-1])
        return int(self.candidates)

    def as_fusion(self) -> Fusion:
        """The fusion method."""
        return Fusion(self.fusion, self.k, self.normalisation)

    def as_boosts(self) -> Boosts:
        """The boosts."""
        return Boosts(self.boosts, self.type_weights, self.half_life_days)


BUILT_IN = {
    profile.name: profile
    for profile in (
        Profile(
            "default", "words, meaning and weighted terms, fused by score: best measured quality",
            ("lexical", "dense", "sparse"), match="any", fusion="convex",
            weights={"lexical": 0.15, "dense": 0.6, "sparse": 0.25}, agreement=True,
            word_match=True, coverage=True, literal=True, collapse=True, per_document=3,
        ),
        Profile("lexical", "words only: all of them first, then any", ("lexical",), match="auto"),
        Profile(
            "notes", "words and meaning, by rank",
            ("lexical", "dense"), match="any", candidates="3x", fusion="rrf",
        ),
        Profile(
            "memory", "words and meaning, weighted; older daily notes rank lower",
            ("lexical", "dense"), match="any", fusion="weighted",
            weights={"lexical": 0.3, "dense": 0.7}, min_score=0.1, calibrated=True,
            boosts=("decay",), top=10,
        ),
        Profile(
            "knowledge",
            "words and meaning, by rank; decisions, lessons and documents read often rank higher",
            ("lexical", "dense"), match="any", candidates="3x", fusion="rrf",
            boosts=("type", "access"), top=10,
        ),
        Profile(
            "research", "words, meaning and weighted terms, by rank; weights depend on the query",
            ("lexical", "dense", "sparse"), match="any", fusion="rrf", adaptive=True,
            rerank="colbert", rerank_blend=0.5, top=20,
        ),
    )
}  # fmt: skip


def profile_names(custom: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """The names of built-in and configured profiles."""
    return (*BUILT_IN, *(name for name in custom if name not in BUILT_IN))


def resolve(
    name: str,
    custom: Mapping[str, Mapping[str, Any]],
    overrides: Mapping[str, Any] | None = None,
) -> Profile:
    """The profile `name`: built in or configured, with the configured settings and `overrides`."""
    check_choice("profile", name, profile_names(custom))
    settings = dict(custom.get(name, {}))
    base = settings.pop("base", "default")
    profile = BUILT_IN.get(name) or replace(
        BUILT_IN[check_choice("base", base, tuple(BUILT_IN))],
        name=name,
        summary=f"based on {base}",
    )
    summary = str(settings.pop("summary", profile.summary))
    configured = _with_settings(replace(profile, summary=summary), settings)
    return _with_settings(configured, overrides or {})


def requested_profile(config: Config, request: SearchRequest) -> Profile:
    """The profile of a request, with the request's own settings."""
    profile = resolve(request.profile or config.search.profile, config.profiles, request.settings)
    return with_reranker(restrict(profile, request.mode), request.rerank)


def restrict(profile: Profile, mode: str | None) -> Profile:
    """Restrict the profile to the retriever of `mode`. A profile that fuses can be restricted to
    any retriever; a profile with a single retriever cannot change it."""
    if mode is None or mode == profile.mode:
        return profile
    check_choice("mode", mode, registry.modes())
    if len(profile.retrievers) == 1 or mode == registry.HYBRID:
        raise InvalidRequest(
            f"profile {profile.name} has no {mode} search", f"mode of this profile: {profile.mode}"
        )
    # The minimum for fused scores does not fit the scores of a retriever. The mode uses the
    # retriever's own order, so literal matches stay in their places, nothing collapses, and a
    # reranker runs only on request.
    return replace(
        profile,
        retrievers=registry.of_mode(mode),
        fusion="none",
        literal=False,
        min_score=None,
        rerank="none",
        collapse=False,
        per_document=0,
    )


def with_reranker(profile: Profile, rerank: str | bool | None) -> Profile:
    """Set the reranker: a name, True for the profile's own or else the best, False for none."""
    if rerank is None:
        return profile
    if isinstance(rerank, bool):
        own = profile.rerank if profile.rerank != "none" else RERANKER
        rerank = own if rerank else "none"
    return replace(profile, rerank=check_choice("rerank", check_text("rerank", rerank), RERANKERS))


def _with_settings(profile: Profile, values: Mapping[str, Any]) -> Profile:
    for key, value in _flatten(values):
        table, _, entry = key.partition(".")
        if table in TABLES and entry:
            number = read_entry(profile.name, table, entry, value)
            change: Any = {table: {**getattr(profile, table), entry: number}}
        else:
            check_name(profile.name, key)
            change = {key: read(key, value)}
        profile = replace(profile, **change)
    return profile


def _flatten(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Flatten nested tables to dotted names, and resolve aliases."""
    if not isinstance(values, Mapping):
        raise InvalidRequest(
            f"settings are a {type(values).__name__}", 'give a dict: {"top": 5, "group": True}'
        )
    for key, value in values.items():
        check_text("the name of a setting", key)
        if key in TABLES and isinstance(value, Mapping):
            yield from ((f"{key}.{name}", entry) for name, entry in value.items())
        else:
            yield ALIASES.get(key, key), value


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value
