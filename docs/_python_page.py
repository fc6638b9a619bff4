"""The reference page of the Python API, from its docstrings. Used by reference.py."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from _markdown import WIDTH, code, fence, item, page, table, wrap_paragraphs
from _shapes_page import anchor

import kb

_LABEL = re.compile(r"\s*(?:\[\d{3}[^\]]*\]|\(spec \d+\))")  # of the contract


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
        return f"## {name}\n\n{wrap_paragraphs(f'A read-only mapping: {shown}.')}"
    parts = [f"## {name}"]
    if dataclasses.is_dataclass(value):
        rows = [[code(each.name), code(str(each.type)), _field_default(each)]
                for each in dataclasses.fields(value)]  # fmt: skip
        parts += [_doc(value), table(["field", "type", "default"], rows)]
    else:
        parts += [fence(_signature(name, value), "py"), _doc(value)]
    if isinstance(value, type):
        parts += [_member(name, each, member) for each, member in public_members(value)]
    return "\n\n".join(part for part in parts if part)


def public_members(cls: type) -> list[tuple[str, Any]]:
    """The methods and properties that a class itself defines, in source order, then those of its
    base classes in kb."""
    bases = [each for each in getattr(cls, "__mro__", ())[1:] if each.__module__.startswith("kb.")]
    members: dict[str, Any] = {}
    for each in (cls, *bases):
        for name, member in getattr(each, "__dict__", {}).items():
            members.setdefault(name, member)
    return [
        (name, member)
        for name, member in members.items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    ]


def _member(owner: str, name: str, member: Any) -> str:
    if isinstance(member, property):
        returned = inspect.signature(member.fget).return_annotation if member.fget else "Any"
        shown = f"{name}: {returned}"
    else:
        shown = _signature(name, member)
    return "\n\n".join(filter(None, [f"### {owner}.{name}", fence(shown, "py"), _doc(member)]))


def _doc(value: Any) -> str:
    """The value's own docstring, not an inherited one."""
    text = vars(value).get("__doc__") if isinstance(value, type) else inspect.getdoc(value)
    return wrap_paragraphs(_LABEL.sub("", inspect.cleandoc(text or "")))


def _field_default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return code(f"{getattr(field.default_factory, '__name__', 'made')}()")
    if dataclasses.is_dataclass(field.default):
        return code(f"{type(field.default).__name__}()")
    return "" if field.default is dataclasses.MISSING else code(repr(field.default))


def _signature(name: str, value: Any) -> str:
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
