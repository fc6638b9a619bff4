"""Values: frozen dataclasses and named tuples that are quick to create.

A lexical search takes a few milliseconds, so the time of `kb search` is the time of its imports.
`dataclasses` loads `inspect`, and compiles up to eight methods for each class; `typing.NamedTuple`
compiles every annotation. The classes of this module share their methods, and compile `__init__` or
`__new__` once there are many instances. Everything else is the same: type checkers see
`dataclasses` and `typing`, and the functions of `dataclasses` work, since `__dataclass_fields__` is
created on demand.

Modules that a lexical search loads import these names from here. Others may use `dataclasses`.
"""

from __future__ import annotations

import collections
from operator import attrgetter
from types import MappingProxyType

TYPE_CHECKING = False  # type checkers treat it as `typing.TYPE_CHECKING`
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from dataclasses import asdict as asdict
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import fields as fields
    from dataclasses import replace as replace
    from typing import IO as IO
    from typing import Any as Any
    from typing import NamedTuple as NamedTuple
    from typing import Protocol as Protocol


class _Missing:
    """Marks a field without a default."""

    def __repr__(self) -> str:
        return "MISSING"


_MISSING: Any = _Missing()
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_SLOW_CALLS = 16
_GETTER: Any = vars(collections)["_tuplegetter"]  # an item of a tuple as an attribute


class _Field:
    """A field of a class, with the attributes of `dataclasses.Field` that kb uses."""

    __slots__ = ("default", "default_factory", "metadata", "name", "type")

    def __init__(self, default: Any, default_factory: Any, metadata: Mapping[str, Any]) -> None:
        self.name = ""
        self.type: Any = None
        self.default = default
        self.default_factory = default_factory
        self.metadata = metadata


def _field(
    *,
    default: Any = _MISSING,
    default_factory: Any = _MISSING,
    metadata: Mapping[str, Any] | None = None,
) -> Any:
    """Declare the default of a field, as `dataclasses.field` does."""
    return _Field(default, default_factory, _NOTHING if metadata is None else metadata)


def _fields(value: Any) -> tuple[Any, ...]:
    """Return the fields of a class or of an instance."""
    own: tuple[_Field, ...] | None = getattr(value, "__value_fields__", None)
    if own is not None:
        return own
    from dataclasses import fields

    return fields(value)


def _asdict(value: Any) -> dict[str, Any]:
    """Return the fields of a value by name, and those of the values inside."""
    from dataclasses import asdict

    return asdict(value)


def _replace(value: Any, /, **changes: Any) -> Any:
    """Return a copy of a value with some fields changed."""
    for name in value.__match_args__:
        if name not in changes:
            changes[name] = getattr(value, name)
    return type(value)(**changes)


def _dataclass(*, frozen: bool = False, slots: bool = False) -> Callable[[type], type]:
    """Make a class a dataclass, as `dataclasses.dataclass` does. Base classes cannot have fields,
    and there is no `__post_init__`."""

    def decorate(cls: type) -> type:
        return _make(cls, frozen=frozen, slots=slots)

    return decorate


def _make(cls: type, *, frozen: bool, slots: bool) -> type:
    body = dict(cls.__dict__)
    fields = []
    for name, kind in body.get("__annotations__", {}).items():
        default = body.get(name, _MISSING)
        each = default if isinstance(default, _Field) else _Field(default, _MISSING, _NOTHING)
        each.name, each.type = name, kind
        fields.append(each)
    names = tuple([each.name for each in fields])
    new: dict[str, Any] = {
        "__match_args__": names,
        "__value_fields__": tuple(fields),
        "__dataclass_fields__": _StandardAttribute(),
        "__dataclass_params__": _StandardAttribute(),
        "__signature__": _SignatureAttribute(),
        "__repr__": _repr,
        "__eq__": _eq,
        "__hash__": _hash if frozen else None,
    }
    own = {name for name in new if name in body}
    if "__eq__" not in own and body.get("__hash__", _MISSING) is None:
        own.discard("__hash__")
    new = {name: value for name, value in new.items() if name not in own}
    if frozen:
        new["__setattr__"], new["__delattr__"] = _refuse, _refuse
    if slots:
        for name in ("__dict__", "__weakref__", *names):
            body.pop(name, None)
        new["__slots__"] = names
        new["__getstate__"], new["__setstate__"] = _getstate, _setstate
        made = type(cls)(cls.__name__, cls.__bases__, {**body, **new})
        made.__qualname__ = cls.__qualname__
    else:
        made = cls
        for name, value in new.items():
            setattr(made, name, value)
        for each in fields:  # a default is a class attribute, as in `dataclasses`
            if each.default is not _MISSING:
                setattr(made, each.name, each.default)
            elif each.name in body:
                delattr(made, each.name)

    made.__init__ = _first_init(made, frozen=frozen, slots=slots)  # type: ignore[misc]
    return made


def _first_init(cls: Any, *, frozen: bool, slots: bool) -> Callable[..., None]:
    """The `__init__` for the first few instances. The class gets a compiled one later, because
    compiling takes as long as about thirty calls."""
    calls = 0

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        nonlocal calls
        calls += 1
        if calls <= _SLOW_CALLS:
            values = _arguments(cls.__value_fields__, args, kwargs)
            if values is not None:
                for name, value in values.items():
                    object.__setattr__(self, name, value)
                return
        init = _compile_init(cls, frozen=frozen, slots=slots)
        cls.__init__ = init
        init(self, *args, **kwargs)  # raises `TypeError` if the arguments are wrong

    return __init__


def _arguments(
    fields: tuple[_Field, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any] | None:
    """The value of each field, by name; None if an argument is missing or unknown."""
    values = {}
    given, rest = len(args), len(kwargs)
    for at, each in enumerate(fields):
        name = each.name
        if at < given:
            values[name] = args[at]
        elif name in kwargs:
            values[name] = kwargs[name]
            rest -= 1
        elif each.default is not _MISSING:
            values[name] = each.default
        elif each.default_factory is not _MISSING:
            values[name] = each.default_factory()
        else:
            return None
    return None if rest or given > len(fields) else values


def _compile_init(cls: Any, *, frozen: bool, slots: bool) -> Callable[..., None]:
    """The `__init__` of a class. It sets slots through their descriptors, because `__setattr__`
    raises an error."""
    scope: dict[str, Any] = {"_missing": _MISSING}
    parameters, body = [], []
    for each in cls.__value_fields__:
        name = each.name
        value = name
        if each.default_factory is not _MISSING:
            scope[f"_make_{name}"] = each.default_factory
            parameters.append(f"{name}=_missing")
            value = f"_make_{name}() if {name} is _missing else {name}"
        elif each.default is not _MISSING:
            scope[f"_default_{name}"] = each.default
            parameters.append(f"{name}=_default_{name}")
        else:
            parameters.append(name)
        if slots:
            scope[f"_set_{name}"] = cls.__dict__[name].__set__
            body.append(f" _set_{name}(self, {value})")
        else:
            body.append(
                f" self.__dict__[{name!r}] = {value}" if frozen else f" self.{name} = {value}"
            )
    source = f"def __init__(self, {', '.join(parameters)}):\n" + ("\n".join(body) or " pass")
    exec(source, scope)
    init: Callable[..., None] = scope["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


# --- methods that all classes share ---------------------------------------------------------------


def _values(value: Any) -> tuple[Any, ...]:
    names = value.__match_args__
    if len(names) < 2:
        return tuple([getattr(value, name) for name in names])
    values: tuple[Any, ...] = attrgetter(*names)(value)
    return values


def _repr(self: Any) -> str:
    shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in self.__match_args__])
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _refuse(self: object, name: str, *value: object) -> None:  # noqa: ARG001  # of a method
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot {'assign to' if value else 'delete'} field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return list(_values(self))


def _setstate(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__match_args__, state, strict=True):
        object.__setattr__(self, name, value)


class _StandardAttribute:
    """An attribute that `dataclasses` would have set, created when it is first read."""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, _instance: object, owner: Any) -> Any:
        import dataclasses

        declared = [
            (
                each.name,
                each.type,
                dataclasses.field(metadata=each.metadata)
                if each.default is _MISSING and each.default_factory is _MISSING
                else dataclasses.field(default=each.default, metadata=each.metadata)
                if each.default_factory is _MISSING
                else dataclasses.field(
                    default_factory=each.default_factory, metadata=each.metadata
                ),
            )
            for each in owner.__value_fields__
        ]
        frozen = owner.__setattr__ is _refuse
        standard = dataclasses.make_dataclass(owner.__name__, declared, frozen=frozen)
        for name in ("__dataclass_fields__", "__dataclass_params__"):
            type.__setattr__(owner, name, getattr(standard, name))
        return getattr(standard, self._name)


class _SignatureAttribute:
    """The signature of a class for `inspect` and `help`, whose constructor takes any arguments."""

    def __get__(self, _instance: object, owner: Any) -> Any:
        from inspect import Parameter, Signature

        kinds = owner.__annotations__
        defaults = getattr(owner, "_field_defaults", {})
        if fields := getattr(owner, "__value_fields__", ()):
            defaults = {
                each.name: each.default_factory if each.default is _MISSING else each.default
                for each in fields
                if each.default is not _MISSING or each.default_factory is not _MISSING
            }
        parameters = [
            Parameter(
                name,
                Parameter.POSITIONAL_OR_KEYWORD,
                default=defaults.get(name, Parameter.empty),
                annotation=kinds[name],
            )
            for name in owner.__match_args__
        ]
        return Signature(parameters)


# --- named tuples ---------------------------------------------------------------------------------


class _NamedTupleType(type):
    """Makes the classes below `NamedTuple`: tuples with names and the methods of the class."""

    def __new__(mcs, name: str, _bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        names = tuple(body.get("__annotations__", {}))
        defaults = {each: body[each] for each in names if each in body}
        getters = {each: _GETTER(at, "") for at, each in enumerate(names)}
        new = {
            "_fields": names,
            "_field_defaults": defaults,
            "__match_args__": names,
            "__signature__": _SignatureAttribute(),
            "__slots__": (),
            "_make": classmethod(tuple.__new__),
            "_replace": _replace_item,
            "_asdict": _as_dict,
            "__repr__": _repr,
            "__getnewargs__": _items,
        }
        made: Any = type(name, (tuple,), {**new, **body, **getters})
        made.__new__ = _first_new(made)
        return made


def _first_new(made: Any) -> Callable[..., Any]:
    """The `__new__` of the first instances (see `_first_init`)."""
    calls = 0

    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        nonlocal calls
        calls += 1
        if calls <= _SLOW_CALLS and len(args) <= len(made._fields):
            if len(args) == len(made._fields) and not kwargs:
                return tuple.__new__(cls, args)
            rest = made._fields[len(args) :]
            values = {**made._field_defaults, **kwargs}
            if kwargs.keys() <= set(rest) and all(name in values for name in rest):
                return tuple.__new__(cls, (*args, *[values[name] for name in rest]))
        new = _compile_new(made._fields, made._field_defaults)
        made.__new__ = new
        return new(cls, *args, **kwargs)  # raises `TypeError` if the arguments are wrong

    return __new__


def _compile_new(names: tuple[str, ...], defaults: dict[str, Any]) -> Callable[..., Any]:
    parameters = "".join([f"{each}, " for each in names])
    source = f"lambda _cls, {parameters}: _new(_cls, ({parameters}))"
    new: Callable[..., Any] = eval(source, {"_new": tuple.__new__, "__builtins__": {}})
    new.__defaults__ = tuple(defaults.values())
    new.__name__ = new.__qualname__ = "__new__"
    return new


def _replace_item(self: Any, /, **changes: Any) -> Any:
    values = [changes.pop(name, value) for name, value in zip(self._fields, self, strict=True)]
    if changes:
        raise ValueError(f"Got unexpected field names: {list(changes)!r}")
    return tuple.__new__(type(self), values)


def _as_dict(self: Any) -> dict[str, Any]:
    return dict(zip(self._fields, self, strict=True))


def _items(self: Any) -> tuple[Any, ...]:
    return tuple(self)


class _NamedTuple:
    """Replaces `typing.NamedTuple` as a base class. The classes derived from it do not have it as a
    base."""

    def __mro_entries__(self, _bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (_EMPTY,)


_EMPTY = type.__new__(_NamedTupleType, "NamedTuple", (), {})


class _Protocol:
    """Replaces `typing.Protocol` as a base class."""


if not TYPE_CHECKING:
    Any = IO = object  # in annotations only
    Protocol, asdict = _Protocol, _asdict
    dataclass, field, fields, replace, NamedTuple = (
        _dataclass, _field, _fields, _replace, _NamedTuple(),
    )  # fmt: skip
