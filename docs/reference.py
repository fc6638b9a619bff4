"""Generates `docs/reference/` from the code, so that the two cannot differ.

    python docs/reference.py             write the pages
    python docs/reference.py --check     exit 1 if a page is out of date

A page is a function without arguments that returns Markdown; `PAGES` lists them. Nothing depends on
the width of a terminal, the time or a path, so the same code gives the same pages.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import click

import kb
from kb import config, errors, wire
from kb.cli.root import cli
from kb.search.profile_settings import ABOUT
from kb.search.profiles import BUILT_IN

FOLDER = Path(__file__).resolve().parent / "reference"
WIDTH = 100
WRITTEN = "<!-- Written by docs/reference.py; change the code, then run: make docs -->"

_MARKUP = re.compile(r"[<*]")
_LABEL = re.compile(r"\s*(?:\[\d{3}[^\]]*\]|\(spec \d+\))")  # of the contract
_DASH = re.compile(r"(?<=\s)-(?=\s)")  # which might come to begin a line, as a list's item does

JsonDict = dict[str, Any]


def main(args: Sequence[str]) -> int:
    if args not in ([], ["--check"]):
        sys.exit("usage: python docs/reference.py [--check]")
    FOLDER.mkdir(exist_ok=True)
    stale = []
    for name, page in PAGES.items():
        path, text = FOLDER / f"{name}.md", page()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if args:
            sys.stderr.write(f"docs/reference/{name}.md is out of date: make docs\n")
        else:
            path.write_text(text, encoding="utf-8", newline="\n")
            sys.stdout.write(f"wrote docs/reference/{name}.md\n")
    return 1 if args and stale else 0


# --- Markdown -------------------------------------------------------------------------------------


def page(title: str, about: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", WRITTEN, filled(about), *parts]) + "\n"


def filled(text: str) -> str:
    """Paragraphs of Markdown, wrapped."""
    return "\n\n".join(_wrapped(part) for part in text.strip().split("\n\n"))


def item(text: str) -> str:
    return _wrapped(f"- {text}", indent="  ")


def prose(text: str) -> str:
    """Plain text as Markdown: escapes what Markdown would interpret, except in backquotes."""
    parts = text.split("`")
    parts[::2] = [_DASH.sub("`-`", _MARKUP.sub(r"\\\g<0>", part)) for part in parts[::2]]
    return "`".join(parts)


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        " ".join(text.split()),
        WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def fence(text: str, language: str) -> str:
    return f"```{language}\n{text}\n```"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |".replace("|  |", "| |") for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    return f"`{text}`"


def sentence(text: str) -> str:
    """A comment from the code as a sentence, with a capital letter and a period."""
    first, _, rest = " ".join(text.split()).partition(" ")
    first = first.capitalize() if first.islower() else first  # nDCG keeps its case
    text = f"{first} {rest}".rstrip()
    return text if text.endswith((".", "]")) else f"{text}."


# --- the command line -----------------------------------------------------------------------------


def cli_page() -> str:
    commands = list(every_command(cli, ("kb",)))
    contents = "\n".join(
        item(f"[`{' '.join(names)}`](#{'-'.join(names)}): {prose(first_sentence(command))}")
        for names, command in commands
    )
    about = """
        Every command and every option. `kb COMMAND --help`, or `-h`, shows the same in a terminal.
        Options can come before or after a command's arguments. Exit codes are listed in
        [errors](errors.md#exit-codes).
    """
    return page("Command line", about, contents, *(_command(*each) for each in commands))


def every_command(
    command: click.Command, names: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The command and all its subcommands, with their full names."""
    yield names, command
    if isinstance(command, click.Group):
        context = _context(command, names)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from every_command(below, (*names, name))


def _context(command: click.Command, names: tuple[str, ...]) -> click.Context:
    """The context of the command line itself, which defines the help options."""
    return click.Context(command, info_name=" ".join(names), **cli.context_settings)


def first_sentence(command: click.Command) -> str:
    text = " ".join((command.help or "").split())
    return text.partition(". ")[0].rstrip(".") + "."


def _command(names: tuple[str, ...], command: click.Command) -> str:
    context = _context(command, names)
    usage = " ".join([*names, *command.collect_usage_pieces(context)])
    parts = [f"## {' '.join(names)}", fence(usage, "text"), _help(command.help or "")]
    sections: dict[str, list[str]] = {}
    for param in command.params:
        if isinstance(param, click.Option):
            heading = getattr(param, "heading", "Options")
            sections.setdefault(heading, []).append(item(_option(param)))
    ordered = sorted(sections.items(), key=lambda each: each[0] != "Options")
    parts += [f"{heading}:\n\n" + "\n".join(lines) for heading, lines in ordered]
    return "\n\n".join(parts)


def _help(text: str) -> str:
    """A command's help. Paragraphs that click does not wrap become code."""
    parts = []
    for part in inspect.cleandoc(text).split("\n\n"):
        if not part.startswith("\b"):
            parts.append(_wrapped(prose(part)))
            continue
        heading, *lines = part.removeprefix("\b").strip("\n").split("\n")
        parts += [heading, fence(textwrap.dedent("\n".join(lines)), "text")]
    return "\n\n".join(parts)


def _option(option: click.Option) -> str:
    value, said = _value(option), option.help or ""
    names = ", ".join(code(f"{name} {value}".rstrip()) for name in option.opts)
    facts = [sentence(prose(said))]
    if option.multiple and "repeated" not in said:
        facts.append("May be repeated.")
    if option.show_default and isinstance(option.default, str):
        facts.append(f"Default: {code(option.default)}.")
    if option.required:
        facts.append("Required.")
    return f"{names}: {' '.join(facts)}"


def _value(option: click.Option) -> str:
    if option.is_flag or option.count:
        return ""
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return f"[{'|'.join(map(str, option.type.choices))}]"
    return option.type.name.upper()


# --- settings -------------------------------------------------------------------------------------

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
        typing mistakes are noticed.

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
                filled(inspect.getdoc(type(own)) or ""),
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
    return "\n\n".join([f"### {key}", filled(sentence(prose(doc))), "\n".join(facts)])


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
    parts = ["## Profiles", filled(about), fence(example, "toml")]
    settings = "\n".join(item(f"`{key}`: {about}") for key, about in ABOUT.items())
    parts += ["The settings of a profile:", settings]
    for name, profile in BUILT_IN.items():
        said = {key: value for key, value in profile.settings().items() if value is not None}
        parts += [f"### {name}", filled(sentence(prose(said.pop("summary"))))]
        parts.append(fence("\n".join(f"{key} = {toml(said[key])}" for key in said), "toml"))
    return "\n\n".join(parts)


# --- shapes ---------------------------------------------------------------------------------------


class Field(NamedTuple):
    """A row of a shape's table."""

    name: str
    type: str
    required: bool
    description: str


def shapes_page() -> str:
    names = shape_names()
    about = """
        The JSON that `--json`, `--jsonl` and the server print and accept. The number in a shape's
        name changes when a field is removed or changes its meaning. The JSON Schemas are in the
        package, in `kb/schemas`; `kb.wire.schema("search_hit.v1")` reads one.

        In field names, a dot leads into an object, `[]` into the items of a list, and `*` stands
        for any key.
    """
    contents = "\n".join(item(f"[`{name}`](#{anchor(name)})") for name in names)
    return page("Shapes", about, contents, *map(_shape, names))


def shape_names() -> list[str]:
    folder = resources.files("kb") / "schemas"
    return sorted(each.name.removesuffix(".json") for each in folder.iterdir())


def anchor(heading: str) -> str:
    """The fragment that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _shape(name: str) -> str:
    schema = wire.schema(name)
    parts = [f"## {name}", filled(schema.get("description", "")), _table_of(shape_fields(schema))]
    for kind, record in schema.get("$defs", {}).items():
        if "record" in record.get("properties", {}):
            parts += [f"A line that is a `{kind}`:", _table_of(_fields(record, schema, ""))]
    return "\n\n".join(parts)


def _table_of(found: Iterable[Field]) -> str:
    rows = [[code(each.name), each.type, "yes" if each.required else "no", each.description]
            for each in found]  # fmt: skip
    return table(["field", "type", "required", "description"], rows)


def shape_fields(schema: JsonDict) -> list[Field]:
    """All fields of a shape, including those of nested objects."""
    found: dict[str, Field] = {}
    for field in (*_fields(schema, schema, ""), *_conditional(schema)):
        found.setdefault(field.name, field)
    return list(found.values())


def _fields(schema: JsonDict, root: JsonDict, prefix: str) -> Iterator[Field]:
    required = schema.get("required", ())
    for name, raw in schema.get("properties", {}).items():
        value = _resolved(raw, root)
        described = prose(value.get("description", ""))
        yield Field(prefix + name, type_text(raw, root), name in required, described)
        yield from _inside(value, root, prefix + name)


def _inside(value: JsonDict, root: JsonDict, name: str) -> Iterator[Field]:
    """The fields of an object, or of the objects in a list or a map."""
    yield from _fields(value, root, f"{name}.")
    if isinstance(items := value.get("items"), dict):
        yield from _inside(_resolved(items, root), root, f"{name}[]")
    if isinstance(others := value.get("additionalProperties"), dict):
        inner = _resolved(others, root)
        if "properties" in inner or "additionalProperties" in inner:
            yield from _inside(inner, root, f"{name}.*")
    for choice in value.get("oneOf", ()):
        yield from _inside(_resolved(choice, root), root, name)


def _conditional(schema: JsonDict) -> Iterator[Field]:
    """The fields that a shape has only for certain values of its `kind`."""
    found: dict[str, Field] = {}
    kinds: dict[str, list[str]] = {}
    for part in schema.get("allOf", ()):
        kind = part.get("if", {}).get("properties", {}).get("kind", {}).get("const")
        if kind is not None:
            for field in _fields(_resolved(part["then"], schema), schema, ""):
                found.setdefault(field.name, field)
                kinds.setdefault(field.name, []).append(code(json.dumps(kind)))
    for name, field in found.items():
        described = f"{field.description} If `kind` is {' or '.join(kinds[name])}."
        yield field._replace(required=False, description=described.strip())


def _resolved(schema: JsonDict, root: JsonDict) -> JsonDict:
    """`schema` with its reference resolved; keys beside the reference take precedence."""
    reference = schema.get("$ref", "")
    if not reference.startswith("#/$defs/"):
        return schema
    target = _resolved(root["$defs"][reference.removeprefix("#/$defs/")], root)
    own = {key: value for key, value in schema.items() if key != "$ref"}
    both = target.get("properties", {}) | own.get("properties", {})
    return target | own | ({"properties": both} if both else {})


def type_text(raw: JsonDict, root: JsonDict) -> str:
    """A schema's type in words."""
    if (shape := raw.get("$ref", "")).startswith("urn:kb:"):
        name = shape.removeprefix("urn:kb:")
        return f"[{name}](#{anchor(name)})"
    schema = _resolved(raw, root)
    if "const" in schema:
        return code(json.dumps(schema["const"]))
    if "enum" in schema:
        return ", ".join(code(json.dumps(value)) for value in schema["enum"])
    if "oneOf" in schema:
        return _either([type_text(each, root) for each in schema["oneOf"]])
    kinds = schema.get("type", "anything")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return _either([_kind_text(kind, schema, root) for kind in kinds])


def _either(texts: Sequence[str]) -> str:
    nested = any(text.startswith(("list of", "map to")) for text in texts)
    return (", or " if nested else " or ").join(dict.fromkeys(texts))


def _kind_text(kind: str, schema: JsonDict, root: JsonDict) -> str:
    if kind == "array" and "prefixItems" in schema:
        return f"list of {len(schema['prefixItems'])} numbers"
    if kind == "array":
        return f"list of {type_text(schema.get('items', {}), root)}"
    others = schema.get("additionalProperties")
    if kind == "object" and isinstance(others, dict) and "properties" not in schema:
        return f"map to {type_text(others, root)}"
    return {"string": "text", "integer": "whole number", "boolean": "true or false"}.get(kind, kind)


# --- errors ---------------------------------------------------------------------------------------

_TREE = re.compile(r"^ +([A-Z]\w+)(?: {2,}(\S.*))?$", re.MULTILINE)
_OF_THE_COMMAND_LINE = {
    "usage": "an option or argument that the command does not have",
    "file_error": "a file that cannot be read or written, other than one to ingest",
    "internal_error": "a bug in kb; please report it with the output of `-v`",
}
_EXITS = {
    "0": "success, also if nothing was found",
    "1": "done, but some files could not be read, or a folder was missing (`kb ingest`)",
    "2": "an error or wrong usage; nothing was done, or only what the message says",
    "130": "interrupted by Ctrl-C",
}


def errors_page() -> str:
    about = """
        Every error has a stable `code` for programs, a `message` that says what happened, and a
        `hint` that says what to do. The command line prints them to stderr; with `--json` or
        `--jsonl`, as [`error.v1`](shapes.md#errorv1). In Python they are subclasses of `kb.KbError`
        with these three attributes; the classes are in `kb.errors`.
    """
    rows = [
        [code(each.code), code(each.__name__), str(each.exit_status), str(each.http_status),
         sentence(meaning(each))]
        for each in every_error(errors.KbError)
    ]  # fmt: skip
    own = [[code(name), sentence(text)] for name, text in _OF_THE_COMMAND_LINE.items()]
    exits = [[code(status), sentence(text)] for status, text in _EXITS.items()]
    return page(
        "Errors",
        about,
        "## Codes",
        table(["code", "class", "exit", "HTTP", "meaning"], rows),
        "Three more codes come from the command line itself. Their exit code is 2.",
        table(["code", "meaning"], own),
        "## Exit codes",
        table(["exit code", "meaning"], exits),
    )


def every_error(kind: type[errors.KbError]) -> Iterator[type[errors.KbError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from every_error(below)


def meaning(kind: type[errors.KbError]) -> str:
    """The description in the error tree of `kb.errors`; for a base class, its subclasses."""
    tree = dict(_TREE.findall(errors.__doc__ or ""))
    if description := tree.get(kind.__name__):
        return str(description)
    members = [code(below.__name__) for below in kind.__subclasses__()]
    return f"base class of {', '.join(members)}" if members else ""


# --- Python ---------------------------------------------------------------------------------------


def python_page() -> str:
    about = """
        The names below can be imported from `kb`, for example `from kb import KnowledgeBase`. They
        are the public API, together with the errors in [`kb.errors`](errors.md); everything else
        may change. All of it is typed, and values are frozen. `kb.__version__` is the version, as
        text.
    """
    first = ["KnowledgeBase"]
    names = first + [name for name in kb.__all__ if name not in (*first, "__version__")]
    return page(
        "Python",
        about,
        "\n".join(item(f"[`{name}`](#{anchor(name)})") for name in names),
        *(_name(name, getattr(kb, name)) for name in names),
    )


def _name(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        shown = ", ".join(f"{key}: {each}" for key, each in value.items())
        return f"## {name}\n\n{filled(f'A read-only mapping: {shown}.')}"
    parts = [f"## {name}"]
    if dataclasses.is_dataclass(value):
        rows = [[code(each.name), code(str(each.type)), _field_default(each)]
                for each in dataclasses.fields(value)]  # fmt: skip
        parts += [_doc(value), table(["field", "type", "default"], rows)]
    else:
        parts += [fence(_signed(name, value), "py"), _doc(value)]
    if isinstance(value, type):
        parts += [_member(name, each, member) for each, member in public_members(value)]
    return "\n\n".join(part for part in parts if part)


def public_members(cls: type) -> list[tuple[str, Any]]:
    """The methods and properties that a class itself defines, in source order."""
    return [
        (name, member)
        for name, member in getattr(cls, "__dict__", {}).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    ]


def _member(owner: str, name: str, member: Any) -> str:
    if isinstance(member, property):
        returned = inspect.signature(member.fget).return_annotation if member.fget else "Any"
        shown = f"{name}: {returned}"
    else:
        shown = _signed(name, member)
    return "\n\n".join(filter(None, [f"### {owner}.{name}", fence(shown, "py"), _doc(member)]))


def _doc(value: Any) -> str:
    """The value's own docstring, not an inherited one."""
    text = vars(value).get("__doc__") if isinstance(value, type) else inspect.getdoc(value)
    return filled(_LABEL.sub("", inspect.cleandoc(text or "")))


def _field_default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return code(f"{getattr(field.default_factory, '__name__', 'made')}()")
    if dataclasses.is_dataclass(field.default):
        return code(f"{type(field.default).__name__}()")
    return "" if field.default is dataclasses.MISSING else code(repr(field.default))


def _signed(name: str, value: Any) -> str:
    """`name(arguments) -> result`, with one argument per line if it is too long."""
    if getattr(value, "_is_protocol", False):
        return f"class {name}(Protocol)"
    signature = inspect.signature(value)
    arguments = list(_arguments(signature))
    result = "" if isinstance(value, type) else f" -> {_annotation(signature.return_annotation)}"
    word = "class " if isinstance(value, type) else "def "
    line = f"{word}{name}({', '.join(arguments)}){result}"
    if len(line) <= WIDTH:
        return line
    return f"{word}{name}(\n" + "".join(f"    {each},\n" for each in arguments) + f"){result}"


def _arguments(signature: inspect.Signature) -> Iterator[str]:
    marked = False
    for argument in signature.parameters.values():
        if argument.name == "self":
            continue
        if argument.kind is argument.KEYWORD_ONLY and not marked:
            yield "*"
        marked = marked or argument.kind in (argument.VAR_POSITIONAL, argument.KEYWORD_ONLY)
        yield _argument(argument)


def _argument(argument: inspect.Parameter) -> str:
    stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(argument.kind.name, "")
    text = f"{stars}{argument.name}: {_annotation(argument.annotation)}"
    return text if argument.default is argument.empty else f"{text} = {_default(argument.default)}"


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(value: object) -> str:
    if callable(value):
        return f"{value.__module__}.{getattr(value, '__name__', value)}"
    return json.dumps(value) if isinstance(value, str) else repr(value)


PAGES: Mapping[str, Callable[[], str]] = {
    "cli": cli_page,
    "settings": settings_page,
    "shapes": shapes_page,
    "errors": errors_page,
    "python": python_page,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
