"""Profiles: pipelines as data. A profile can be changed in `config.toml` and by `--set`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from kb.errors import InvalidRequest, choose, whole_number
from kb.types import MATCHES, MODES


@dataclass(frozen=True, slots=True)
class Profile:
    """What a search does when nothing more is said."""

    name: str
    summary: str
    retrievers: tuple[str, ...]
    match: str  # any, all, auto
    top: int | None = None  # None: search.default_top
    threshold: float | None = None  # hits whose shown score is lower are cut

    @property
    def mode(self) -> str:
        return self.retrievers[0] if len(self.retrievers) == 1 else "hybrid"

    def settings(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key != "name"}


BUILT_IN = {
    profile.name: profile
    for profile in (
        Profile("default", "what measures best: any word may match", ("lexical",), match="any"),
        Profile("lexical", "by words: all of them first, then any", ("lexical",), match="auto"),
    )
}
_SETTABLE = ("match", "top", "threshold")


def profile_names(custom: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    return (*BUILT_IN, *(name for name in custom if name not in BUILT_IN))


def resolve(
    name: str,
    custom: Mapping[str, Mapping[str, Any]],
    overrides: Mapping[str, Any] | None = None,
) -> Profile:
    """The profile `name`: built in, changed or added by the settings, then by `overrides`."""
    choose("profile", name, profile_names(custom))
    said = dict(custom.get(name, {}))
    base = said.pop("base", "default")
    profile = BUILT_IN.get(name) or replace(
        BUILT_IN[choose("base", base, tuple(BUILT_IN))], name=name, summary=f"made from {base}"
    )
    summary = str(said.pop("summary", profile.summary))
    return _changed(_changed(replace(profile, summary=summary), said), overrides or {})


def restrict(profile: Profile, mode: str | None) -> Profile:
    """The profile with only the retrievers of `mode`."""
    if mode is None or mode == profile.mode:
        return profile
    choose("mode", mode, MODES)
    if mode not in profile.retrievers:
        raise InvalidRequest(
            f"profile {profile.name} has no {mode} search",
            f"modes of this profile: {', '.join(profile.retrievers)}",
        )
    return replace(profile, retrievers=(mode,))


def _changed(profile: Profile, values: Mapping[str, Any]) -> Profile:
    for key, value in values.items():
        choose(f"a setting of profile {profile.name}", key, _SETTABLE)
        changed: Any = {key: _typed(key, value)}
        profile = replace(profile, **changed)
    return profile


def _typed(key: str, value: Any) -> Any:
    try:
        if key == "top":
            return whole_number(key, int(value), least=1)
        if key == "threshold":
            return None if value in (None, "none") else float(value)
    except (TypeError, ValueError):
        raise InvalidRequest(f"{key} cannot be {value!r}", f"{key} is a number") from None
    return choose(key, str(value), MATCHES) if key == "match" else str(value)
