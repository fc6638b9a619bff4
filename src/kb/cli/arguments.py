"""Converts the values of command line arguments, and parses the arguments of a typical `kb search`.

`parse_search` parses the arguments that nearly all searches have without click, which takes as long
to load as the rest of a lexical search. It knows options by their full names, one argument at a
time. For everything else (help, abbreviations, `--top=5`, contradictions, mistakes) it returns
None, and click parses the arguments of `kb.cli.search`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence

from kb.types import MATCHES, SCOPES, TRUSTS, Filters
from kb.values import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kb.cli.invocation import Invocation

LISTS = ("tags", "tags_any", "type", "kind")  # filters with several values
SINGLES = ("scope", "lang", "path_glob", "links_to", "trust_min", "after", "before")


def utf8_text(value: str) -> str:
    """The type of options and arguments that hold text. Bytes that are not valid UTF-8 become
    escapes, as in the store's paths, so that `kb get` accepts such a name from the shell."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def split_commas(values: Iterable[str]) -> tuple[str, ...]:
    """Split the values of a repeated option at commas: `a,b` and `c` become `a`, `b`, `c`."""
    parts = [part.strip() for value in values for part in value.split(",")]
    if parts and not any(parts):  # given but empty, which differs from omitted
        return ("",)
    return tuple(dict.fromkeys(part for part in parts if part))


def text_or_stdin(words: tuple[str, ...]) -> str:
    """Join the words into one text, or read stdin if they are a single `-`."""
    if words != ("-",):
        return " ".join(words)
    if sys.stdin is None:  # closed, as after `<&-`
        return ""
    data = sys.stdin.buffer.read()
    try:
        return data.decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError:
        from kb.ingest.decode import Unreadable, Unsupported, decode

        try:  # UTF-16 or an older encoding
            return decode(data).removesuffix("\n")
        except (Unreadable, Unsupported):
            return data.decode("utf-8", "replace").removesuffix("\n")


def pop_filters(options: dict[str, Any]) -> Filters:
    """Remove the filters from the options of a command, and return them as one value."""
    values: dict[str, Any] = {name: split_commas(options.pop(name)) for name in LISTS}
    values |= {name: options.pop(name) for name in SINGLES}
    return Filters(**values)


# --- the usual search -----------------------------------------------------------------------------


def _modes() -> Sequence[str]:
    from kb.search.retrievers import registry

    return registry.modes()


class _Option(NamedTuple):
    """An option: its parameter, how to convert its value, and whether it can be repeated. A flag
    has no conversion. `choices` are the permitted values. Only one option of a `group` may be
    given."""

    parameter: str
    convert: Callable[[str], Any] | None = None
    many: bool = False
    choices: Callable[[], Sequence[str]] | None = None
    group: str = ""


_OPTIONS = {
    "-n": _Option("top", int),
    "--top": _Option("top", int),
    "--profile": _Option("profile", utf8_text),
    "--mode": _Option("mode", str, choices=_modes, group="mode"),
    "--fts-only": _Option("fts_only", group="mode"),
    "--vec-only": _Option("vec_only", group="mode"),
    "--match": _Option("match", str, choices=lambda: MATCHES),
    "--threshold": _Option("threshold", float),
    "--min-relevance": _Option("min_relevance", float),
    "--rerank": _Option("rerank", group="rerank"),
    "--no-rerank": _Option("no_rerank", group="rerank"),
    "--exact": _Option("exact"),
    "--group": _Option("group"),
    "--all": _Option("show_all"),
    "--tags": _Option("tags", utf8_text, many=True),
    "--tags-any": _Option("tags_any", utf8_text, many=True),
    "--type": _Option("type", utf8_text, many=True),
    "--kind": _Option("kind", utf8_text, many=True),
    "--scope": _Option("scope", str, choices=lambda: SCOPES),
    "--lang": _Option("lang", utf8_text),
    "--path": _Option("path_glob", utf8_text),
    "--links-to": _Option("links_to", utf8_text),
    "--trust-min": _Option("trust_min", str, choices=lambda: TRUSTS),
    "--after": _Option("after", utf8_text),
    "--before": _Option("before", utf8_text),
    "--explain": _Option("explain"),
    "--text": _Option("include_text"),
    "--paths": _Option("paths", group="output"),
    "-l": _Option("files", group="output"),
    "--files": _Option("files", group="output"),
    "--jsonl": _Option("jsonl", group="output"),
    "--json": _Option("json", group="output"),
    "--store": _Option("store", str),
}
_ANYWHERE = ("--store", "--json")  # also before `search`
_OMITTED: dict[str, Any] = {
    "settings": (), "reranker": None, "null": False, "budget_ms": None,
    **{each.parameter: () if each.many else False if each.convert is None else None
       for each in _OPTIONS.values()},
}  # fmt: skip


def parse_search(args: Sequence[str], invocation: Invocation) -> dict[str, Any] | None:
    """Return the parameters of `kb.cli.search_run.run_search`, and set `--store` and `--json` of
    the invocation. Return None if click has to parse the arguments."""
    values, words, groups = dict(_OMITTED), [], set()
    command, rest = False, list(args)
    while rest:
        arg = rest.pop(0)
        if not arg.startswith("-") or arg == "-":
            if command:
                words.append(utf8_text(arg))
            elif arg != "search":
                return None
            command = True
            continue
        option = _OPTIONS.get(arg)
        if option is None or option.group in groups or not (command or arg in _ANYWHERE):
            return None
        groups |= {option.group} - {""}
        value = _value(option, rest)
        if value is None:
            return None
        values[option.parameter] = (*values[option.parameter], value) if option.many else value
    if not words:
        return None
    store, json = values.pop("store"), values.pop("json")
    invocation.store, invocation.json = store or invocation.store, json or invocation.json
    filters = pop_filters(values)
    return {**values, "query": tuple(words), "filters": filters}


def _value(option: _Option, rest: list[str]) -> Any:
    """Return the value of an option; None if it is missing or wrong."""
    if option.convert is None:
        return True
    if not rest or rest[0].startswith("-"):
        return None
    text = rest.pop(0)
    if option.choices is not None and text not in option.choices():
        return None
    try:
        return option.convert(text)
    except ValueError:
        return None
