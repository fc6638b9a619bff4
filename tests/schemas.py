"""Validates JSON output against the schemas of the package."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from kb import wire


@cache
def names() -> tuple[str, ...]:
    folder = resources.files("kb") / "schemas"
    return tuple(sorted(item.name.removesuffix(".json") for item in folder.iterdir()))


@cache
def validator(name: str) -> Draft202012Validator:
    resolved = [Resource.from_contents(wire.schema(each)) for each in names()]
    known = [(str(resource.id()), resource) for resource in resolved]
    registry: Registry[Any] = Registry().with_resources(known)
    return Draft202012Validator(wire.schema(name), registry=registry)


def validate(shape: object) -> None:
    """Raises if `shape` does not match the schema of its `schema_version`."""
    assert isinstance(shape, dict)
    validator(shape["schema_version"]).validate(shape)
