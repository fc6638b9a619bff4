"""The reference page of JSON shapes, from the schemas in `kb/schemas`. Used by reference.py."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from typing import Any, NamedTuple

from _markdown import code, item, page, prose, table, wrap_paragraphs

from kb import wire

JsonDict = dict[str, Any]


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
    parts = [
        f"## {name}",
        wrap_paragraphs(schema.get("description", "")),
        _table_of(shape_fields(schema)),
    ]
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
        value = _resolve(raw, root)
        described = prose(value.get("description", ""))
        yield Field(prefix + name, type_text(raw, root), name in required, described)
        yield from _inside(value, root, prefix + name)


def _inside(value: JsonDict, root: JsonDict, name: str) -> Iterator[Field]:
    """The fields of an object, or of the objects in a list or a map."""
    yield from _fields(value, root, f"{name}.")
    if isinstance(items := value.get("items"), dict):
        yield from _inside(_resolve(items, root), root, f"{name}[]")
    if isinstance(others := value.get("additionalProperties"), dict):
        inner = _resolve(others, root)
        if "properties" in inner or "additionalProperties" in inner:
            yield from _inside(inner, root, f"{name}.*")
    for choice in value.get("oneOf", ()):
        yield from _inside(_resolve(choice, root), root, name)


def _conditional(schema: JsonDict) -> Iterator[Field]:
    """The fields that a shape has only for certain values of its `kind`."""
    found: dict[str, Field] = {}
    kinds: dict[str, list[str]] = {}
    for part in schema.get("allOf", ()):
        kind = part.get("if", {}).get("properties", {}).get("kind", {}).get("const")
        if kind is not None:
            for field in _fields(_resolve(part["then"], schema), schema, ""):
                found.setdefault(field.name, field)
                kinds.setdefault(field.name, []).append(code(json.dumps(kind)))
    for name, field in found.items():
        described = f"{field.description} Only if `kind` is {' or '.join(kinds[name])}."
        yield field._replace(required=False, description=described.strip())


def _resolve(schema: JsonDict, root: JsonDict) -> JsonDict:
    """`schema` with its reference resolved; keys beside the reference take precedence."""
    reference = schema.get("$ref", "")
    if not reference.startswith("#/$defs/"):
        return schema
    target = _resolve(root["$defs"][reference.removeprefix("#/$defs/")], root)
    own = {key: value for key, value in schema.items() if key != "$ref"}
    both = target.get("properties", {}) | own.get("properties", {})
    return target | own | ({"properties": both} if both else {})


def type_text(raw: JsonDict, root: JsonDict) -> str:
    """A schema's type in words."""
    if (shape := raw.get("$ref", "")).startswith("urn:kb:"):
        name = shape.removeprefix("urn:kb:")
        return f"[{name}](#{anchor(name)})"
    schema = _resolve(raw, root)
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
