"""The reference page of settings and profiles. Used by reference.py."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator

from _markdown import code, fence, item, page, prose, sentence, wrap_paragraphs

from kb import config
from kb.search.profile_settings import ABOUT
from kb.search.profiles import BUILT_IN

_TYPES = {
    int: "whole number, above zero",
    float: "number, above zero",
    str: "text",
    bool: "true or false",
}


def settings_page() -> str:
    about = """
        A setting comes from the first of these that has it: an option, an environment variable, the
        `config.toml` beside the store's file, the user's `config.toml`, the default. `kb config`
        shows all settings and where each comes from, `kb config path` where the files are.
        `KB_CONFIG` names a file to use instead of the user's. An unknown name is an error, so that
        typing mistakes are noticed. Numbers are at most 1,000,000 seconds, 10^9 milliseconds, and
        10^15 for everything else.

        The file beside the store comes with its folder, perhaps from somebody else. Only profiles
        and the settings marked "In a folder's own file" below take effect there. Everything else in
        it is ignored with a warning until you trust the file: `kb config trust` shows its settings
        and records its path and content, so that a changed file is no longer trusted; `kb config
        untrust` revokes this. A file that belongs to another user, or that others can write, is
        ignored completely; if it is your own, that is an error.

        `KB_STORE` names the store; `--store` takes precedence. Without both, the store is the
        nearest `.kb/` in the current folder or above it, or else in the user data folder.
        `NO_COLOR` and `FORCE_COLOR` are respected.
    """
    return page("Settings", about, *_sections(), _profiles())


def _sections() -> Iterator[str]:
    defaults = config.Config()
    for section in config.SECTIONS:
        own = getattr(defaults, section)
        keys = [each for each in config.keys() if each[1] == section]  # noqa: SIM118  # a function
        written = "\n".join(f"{name} = {toml(getattr(own, name))}" for _, _, name, _ in keys)
        yield "\n\n".join(
            [
                f"## [{section}]",
                wrap_paragraphs(inspect.getdoc(type(own)) or ""),
                "In a `config.toml`, with the defaults:",
                fence(f"[{section}]\n{written}", "toml"),
                *(_setting(key, getattr(own, name), doc) for key, _, name, doc in keys),
            ]
        )


def _setting(key: str, default: object, doc: str) -> str:
    kind = _TYPES[type(default)]
    if config.may_be_zero(key):
        kind = kind.replace("above zero", "zero or more")
    facts = [
        item(f"Type: {kind}"),
        item(f"Default: {code(toml(default))}"),
        item(f"Environment: {code(environment(key))}"),
        *_harmless(config.harmless_values(key)),
    ]
    return "\n\n".join([f"### {key}", wrap_paragraphs(sentence(prose(doc))), "\n".join(facts)])


def _harmless(values: config.Harmless) -> list[str]:
    """The values that take effect in a folder's own file."""
    if isinstance(values, bool):
        return [item("In a folder's own file: any value")] if values else []
    if isinstance(values, range):
        return [item(f"In a folder's own file: {values[0]:,} to {values[-1]:,}")]
    assert isinstance(values, tuple)
    return [item(f"In a folder's own file: only {' or '.join(code(toml(one)) for one in values)}")]


def environment(key: str) -> str:
    return "KB_" + key.replace(".", "_").upper()


def toml(value: object) -> str:
    """A value in TOML, which for plain values is the same as JSON."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)


def _profiles() -> str:
    about = """
        A profile is a named search pipeline. `kb search --profile NAME` uses one, `--set KEY=VALUE`
        changes a setting of it for one search, and a table in a `config.toml` changes it
        permanently or adds a profile; `base` names the profile that a new one is based on. `kb
        config profiles` lists them. To change one entry of a table, use its dotted name: `--set
        weights.dense=0.7`.
    """
    example = '[profiles.strict]\nbase = "lexical"\nmatch = "all"\ntop = 5'
    parts = ["## Profiles", wrap_paragraphs(about), fence(example, "toml")]
    settings = "\n".join(item(f"`{key}`: {about}") for key, about in ABOUT.items())
    parts += ["The settings of a profile:", settings]
    for name, profile in BUILT_IN.items():
        values = {key: value for key, value in profile.settings().items() if value is not None}
        parts += [f"### {name}", wrap_paragraphs(sentence(prose(values.pop("summary"))))]
        parts.append(fence("\n".join(f"{key} = {toml(values[key])}" for key in values), "toml"))
    return "\n\n".join(parts)
