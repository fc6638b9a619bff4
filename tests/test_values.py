"""Values behave like the dataclasses and named tuples that type checkers take them for."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import typing
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kb import values

MANY = 40  # more instances than are created before a constructor is compiled


def _classes(library: Any, tuples: Any) -> SimpleNamespace:
    @library.dataclass(frozen=True, slots=True)
    class Point:
        """A point."""

        x: int
        y: int = 2
        names: Mapping[str, int] = library.field(default_factory=dict, metadata={"doc": "names"})

        def total(self) -> int:
            return self.x + self.y

    @library.dataclass(frozen=True, slots=True)
    class Other:
        x: int
        y: int = 2
        names: Mapping[str, int] = library.field(default_factory=dict)

        def __repr__(self) -> str:
            return "other"

    @library.dataclass(frozen=True)
    class Open:
        x: int = 1

    @library.dataclass(slots=True)
    class Mutable:
        x: int
        facts: dict[str, int] = library.field(default_factory=dict)

    class Pair(tuples.NamedTuple):  # type: ignore[misc]  # a base class at run time
        """A pair."""

        a: int
        b: str = "b"

        def shout(self) -> str:
            return self.b.upper()

    for each in (Point, Other, Open, Mutable, Pair):
        each.__qualname__ = each.__name__
    return SimpleNamespace(Point=Point, Other=Other, Open=Open, Mutable=Mutable, Pair=Pair)


OURS = _classes(values, values)
STANDARD = _classes(dataclasses, typing)
Point, Pair = OURS.Point, OURS.Pair  # under these names for pickle
Point.__module__ = Pair.__module__ = __name__

CALLS: dict[str, Callable[[SimpleNamespace], object]] = {
    "repr": lambda made: repr(made.Point(1, names={"a": 1})),
    "own repr": lambda made: repr(made.Other(1)),
    "defaults": lambda made: made.Point(1) == made.Point(1, 2, {}),
    "fresh default": lambda made: made.Point(1).names is made.Point(1).names,
    "keywords": lambda made: repr(made.Point(names={}, x=5)),
    "unequal": lambda made: (made.Point(1) == made.Point(3), made.Point(1) != made.Point(3)),
    "another class": lambda made: (made.Point(1) == made.Other(1), made.Point(1) == (1, 2, {})),
    "hash": lambda made: hash(made.Open(3)) == hash(made.Open(3)) == hash((3,)),
    "unhashable field": lambda made: hash(made.Point(1)),
    "unhashable class": lambda made: hash(made.Mutable(1)),
    "method": lambda made: made.Point(1).total(),
    "doc": lambda made: made.Point.__doc__,
    "slots": lambda made: (made.Point.__slots__, made.Point.__match_args__),
    "no dictionary": lambda made: made.Point(1).__dict__,
    "class attribute": lambda made: made.Open.x,
    "assignment": lambda made: setattr(made.Point(1), "x", 2),
    "deletion": lambda made: delattr(made.Point(1), "x"),
    "mutable": lambda made: setattr(made.Mutable(1), "x", 2),
    "missing": lambda made: made.Point(),
    "too many": lambda made: made.Point(1, 2, {}, 4),
    "unknown": lambda made: made.Point(1, z=1),
    "twice": lambda made: made.Point(1, x=1),
    "is a dataclass": lambda made: dataclasses.is_dataclass(made.Point),
    "fields": lambda made: [
        (each.name, each.type, dict(each.metadata)) for each in dataclasses.fields(made.Point)
    ],
    "as dict": lambda made: dataclasses.asdict(made.Point(1, names={"a": 1})),
    "standard replace": lambda made: repr(dataclasses.replace(made.Point(1), y=5)),
    "signature": lambda made: list(inspect.signature(made.Point).parameters),
    "tuple signature": lambda made: [
        (each.name, each.default) for each in inspect.signature(made.Pair).parameters.values()
    ],
    "tuple repr": lambda made: repr(made.Pair(1)),
    "tuple keywords": lambda made: made.Pair(b="x", a=1),
    "tuple items": lambda made: (made.Pair(1).a, made.Pair(1)[1], len(made.Pair(1)), *made.Pair(1)),
    "tuple equal": lambda made: made.Pair(1) == (1, "b"),
    "tuple order": lambda made: made.Pair(1) < made.Pair(2),
    "tuple method": lambda made: made.Pair(1).shout(),
    "tuple doc": lambda made: made.Pair.__doc__,
    "tuple fields": lambda made: (made.Pair._fields, made.Pair._field_defaults),
    "tuple dict": lambda made: made.Pair(1)._asdict(),
    "tuple replace": lambda made: made.Pair(1)._replace(b="c"),
    "tuple unknown": lambda made: made.Pair(1)._replace(c="c"),
    "tuple make": lambda made: made.Pair._make([1, "z"]),
    "tuple missing": lambda made: made.Pair(),
    "tuple too many": lambda made: made.Pair(1, "b", 3),
    "tuple twice": lambda made: made.Pair(1, a=1),
    "tuple assignment": lambda made: setattr(made.Pair(1), "a", 2),
}  # fmt: skip


def outcome(call: Callable[[SimpleNamespace], object], made: SimpleNamespace) -> object:
    try:
        return call(made)
    except Exception as error:  # noqa: BLE001  # the kind of error is compared
        return type(error).__mro__


@pytest.mark.parametrize("name", CALLS)
def test_values_behave_like_the_standard_classes(name: str) -> None:
    fresh = _classes(values, values)
    expected = outcome(CALLS[name], STANDARD)
    assert outcome(CALLS[name], fresh) == expected
    for number in range(MANY):
        fresh.Point(number), fresh.Pair(number), fresh.Open(), fresh.Mutable(1), fresh.Other(1)
    assert outcome(CALLS[name], fresh) == expected  # with compiled constructors


def test_kbs_own_functions_accept_both_kinds() -> None:
    for made in (OURS, STANDARD):
        assert values.replace(made.Point(1), x=4) == made.Point(4)
        assert [each.name for each in values.fields(made.Point)] == ["x", "y", "names"]
        assert values.fields(made.Point(1))[2].metadata["doc"] == "names"


@pytest.mark.parametrize("value", [Point(1, 3, {"a": 1}), Pair(1, "x")])
def test_values_can_be_pickled(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
