"""All values of kb can be imported from `kb.types`, which loads their modules on demand."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import get_type_hints

import pytest

import kb
from kb import types

HOMES = [import_module(f"kb.types.{each.name}") for each in iter_modules(types.__path__)]


def values() -> Iterator[type]:
    for home in HOMES:
        for value in vars(home).values():
            if isinstance(value, type) and value.__module__ == home.__name__:
                yield value


def test_every_value_is_exported_and_listed() -> None:
    found = {value.__name__: value for value in values()}
    assert len(found) > 40
    assert {name: getattr(types, name) for name in found} == found
    assert found.keys() <= set(types.__all__)
    assert all(hasattr(types, name) for name in types.__all__)
    assert dir(types) == sorted(types.__all__)
    with pytest.raises(AttributeError, match="nosuch"):
        types.nosuch  # noqa: B018  (the access is the test)


def test_values_are_frozen() -> None:
    for value in values():
        if dataclasses.is_dataclass(value):
            assert value.__dataclass_params__.frozen  # type: ignore[attr-defined]  # has no types
            assert "__slots__" in vars(value)


def test_fields_of_public_values_can_be_read_as_types() -> None:
    exported = [value for value in values() if value.__name__ in kb.__all__]
    public = [value for value in exported if dataclasses.is_dataclass(value)]
    assert len(public) > 10
    for value in public:
        assert get_type_hints(value).keys() >= {each.name for each in dataclasses.fields(value)}


def test_a_name_loads_only_its_own_module() -> None:
    code = "import sys; from kb.types import Span; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours = {name for name in done.stdout.split() if name.startswith("kb")}
    assert ours == {"kb", "kb.types", "kb.types.citations", "kb.values"}
