"""Profiles: pipelines as data (spec 1). Every field can be changed in `config.toml` and by `--set`,
one of a table by its dotted name: `weights.dense=0.5`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from kb.errors import InvalidRequest, check_choice, check_text
from kb.search.profile_settings import ALIASES, TABLES, check_name, read, read_entry
from kb.search.ranking.boosts import HALF_LIFE_DAYS, TYPE_WEIGHTS, Boosts
from kb.search.ranking.fusion import RRF_K, Fusion
from kb.types import MODES, RERANKERS

_SHOWN_IF_SET = ("boosts", "group", "complete", "adaptive", "agreement")
RERANKER = "colbert"  # the better one: docs/decisions/0016-rerankers.md
BLENDS = {"colbert": 0.5, "cross-encoder": 0.2}  # as measured there
_MODE_OF = {"lexical": "lexical", "dense": "vector", "sparse": "sparse"}


@dataclass(frozen=True, slots=True)
class Profile:
    """What a search does when nothing more is said."""

    name: str
    summary: str
    retrievers: tuple[str, ...]
    match: str  # any, all, auto
    candidates: str = "100"  # how many each retriever gives: a number, or a multiple of top: 3x
    fusion: str = "none"
    k: float = RRF_K
    normalisation: str = "zscore"
    weights: Mapping[str, float] = field(default_factory=dict)  # of retrievers; 1 if not said
    adaptive: bool = False  # weights follow the query: `search.adaptive`
    agreement: bool = False  # a list that no other bears out counts less: `search.agreement`
    complete: bool = False  # dense scores for candidates that only others found
    min_score: float | None = None  # candidates whose fused score is lower are cut
    boosts: tuple[str, ...] = ()
    type_weights: Mapping[str, float] = field(default_factory=lambda: dict(TYPE_WEIGHTS))
    half_life_days: float = HALF_LIFE_DAYS
    rerank: str = "none"  # what reads the first candidates once more
    rerank_candidates: int = 100
    rerank_blend: float | None = None  # None: what measured best for the reranker
    threshold: float | None = None  # hits whose shown score is lower are cut
    group: bool = False  # only the best hit of a document
    top: int | None = None  # None: search.default_top

    @property
    def mode(self) -> str:
        return _MODE_OF[self.retrievers[0]] if len(self.retrievers) == 1 else "hybrid"

    def settings(self) -> dict[str, Any]:
        """Those that have an effect, as they would stand in a `config.toml`."""
        shown = {item.name: getattr(self, item.name) for item in fields(self)}
        shown["weights"] = {name: self.weight(name) for name in self.retrievers}
        idle = {"name", *self._unused_settings()}
        return {key: _plain(value) for key, value in shown.items() if key not in idle}

    def _unused_settings(self) -> Iterator[str]:
        fused = len(self.retrievers) > 1
        if not fused:
            yield from ("fusion", "weights", "adaptive", "agreement", "complete")
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
        return self.weights.get(retriever, 1.0)

    def parts(self) -> frozenset[str]:
        """What of a query must be encoded: all in one pass of the model."""
        tokens = ("tokens",) if self.rerank == "colbert" else ()
        return frozenset((*(name for name in self.retrievers if name != "lexical"), *tokens))

    def blend(self) -> float:
        """What the reranker counts."""
        given = self.rerank_blend
        return BLENDS.get(self.rerank, 1.0) if given is None else given

    def candidates_for(self, top: int) -> int:
        """How many of each retriever are fused. Where that is a number, it is the same for any
        `top`, so that a larger one changes no order."""
        if self.candidates.endswith("x"):
            return top * int(self.candidates[:-1])
        return int(self.candidates)

    def as_fusion(self) -> Fusion:
        return Fusion(self.fusion, self.k, self.normalisation)

    def as_boosts(self) -> Boosts:
        return Boosts(self.boosts, self.type_weights, self.half_life_days)


BUILT_IN = {
    profile.name: profile
    for profile in (
        Profile(
            "default", "words, meaning and weighted terms, by how well each fits: measures best",
            ("lexical", "dense", "sparse"), match="any", fusion="convex",
            weights={"lexical": 0.15, "dense": 0.6, "sparse": 0.25}, agreement=True,
        ),
        Profile("lexical", "by words: all of them first, then any", ("lexical",), match="auto"),
        Profile(
            "notes", "words and meaning, by rank",
            ("lexical", "dense"), match="any", candidates="3x", fusion="rrf",
        ),
        Profile(
            "memory", "words and meaning, weighted; daily notes fade",
            ("lexical", "dense"), match="any", fusion="weighted",
            weights={"lexical": 0.3, "dense": 0.7}, min_score=0.1, boosts=("decay",), top=10,
        ),
        Profile(
            "knowledge", "words and meaning, by rank; decisions, lessons and what is read rise",
            ("lexical", "dense"), match="any", candidates="3x", fusion="rrf",
            boosts=("type", "access"), top=10,
        ),
        Profile(
            "research", "words, meaning and weighted terms, by rank; what counts follows the query",
            ("lexical", "dense", "sparse"), match="any", fusion="rrf", adaptive=True,
            rerank="colbert", top=20,
        ),
    )
}  # fmt: skip


def profile_names(custom: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    return (*BUILT_IN, *(name for name in custom if name not in BUILT_IN))


def resolve(
    name: str,
    custom: Mapping[str, Mapping[str, Any]],
    overrides: Mapping[str, Any] | None = None,
) -> Profile:
    """The profile `name`: built in, changed or added by the settings, then by `overrides`."""
    check_choice("profile", name, profile_names(custom))
    said = dict(custom.get(name, {}))
    base = said.pop("base", "default")
    profile = BUILT_IN.get(name) or replace(
        BUILT_IN[check_choice("base", base, tuple(BUILT_IN))],
        name=name,
        summary=f"made from {base}",
    )
    summary = str(said.pop("summary", profile.summary))
    return _with_settings(_with_settings(replace(profile, summary=summary), said), overrides or {})


def restrict(profile: Profile, mode: str | None) -> Profile:
    """The profile with only the retriever of `mode`. One that fuses can be brought down to any
    retriever, also to one that it does not fuse; one that has a single retriever stays with it."""
    if mode is None or mode == profile.mode:
        return profile
    check_choice("mode", mode, MODES)
    if len(profile.retrievers) == 1 or mode == "hybrid":
        raise InvalidRequest(
            f"profile {profile.name} has no {mode} search", f"mode of this profile: {profile.mode}"
        )
    kept = tuple(name for name, of_it in _MODE_OF.items() if of_it == mode)
    # A single retriever's scores are its own: what was set for fused ones does not fit them. Who
    # asks for one retriever asks for its order: a reranker must be asked for too.
    return replace(profile, retrievers=kept, fusion="none", min_score=None, rerank="none")


def with_reranker(profile: Profile, rerank: str | bool | None) -> Profile:
    """The profile with another reranker: a name, True for the one that it has or else the best, or
    False for none."""
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
            changed: Any = {table: {**getattr(profile, table), entry: number}}
        else:
            check_name(profile.name, key)
            changed = {key: read(key, value)}
        profile = replace(profile, **changed)
    return profile


def _flatten(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Tables, as TOML nests them, as dotted names; other names of a setting as its own."""
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
