"""The packages: a docstring that lists every module, and exports for every type in a signature."""

from __future__ import annotations

import ast
import inspect
import re
import typing
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, get_args

import pytest

import kb
from kb import errors

SOURCE = Path(kb.__file__).parent
PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.py"))
NAMED_AFTER_FORMATS = "ingest/parsers"  # needs no list: a new format is one file
# Ruff removes an indent that all lines share.
_ENTRY = re.compile(r"^(?: {4})?(\w+)/? {2,}\S", re.MULTILINE)


def members(package: Path) -> set[str]:
    """The modules and subpackages of a package, without `__init__` and `__main__`."""
    modules = {path.stem for path in package.glob("*.py") if not path.stem.startswith("__")}
    return modules | {path.parent.name for path in package.glob("*/__init__.py")}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_docstring_lists_every_module_once(package: Path) -> None:
    if package == SOURCE / NAMED_AFTER_FORMATS:
        return
    source = (package / "__init__.py").read_text("utf-8")
    listed = _ENTRY.findall(ast.get_docstring(ast.parse(source), clean=False) or "")
    assert sorted(listed) == sorted(members(package))


# --- exports --------------------------------------------------------------------------------------


NOT_CONSTRUCTED = {"Worker"}  # by callers: `KnowledgeBase.worker` returns one
IMPLEMENTED_ELSEWHERE = {"Store"}  # whose ports and their types are in `kb.ports` and `kb.types`


def public_signatures() -> Iterator[tuple[str, Any]]:
    """Every public function, method, property and dataclass field, by its name."""
    for name in kb.__all__:
        value = getattr(kb, name)
        if isinstance(value, FunctionType):
            yield name, value
        elif isinstance(value, type) and name not in IMPLEMENTED_ELSEWHERE:
            yield name, value
            for member, attribute in vars(value).items():
                if not member.startswith("_") or (
                    member == "__init__" and name not in NOT_CONSTRUCTED
                ):
                    yield from ((f"{name}.{member}", each) for each in _functions(attribute))


def _functions(attribute: Any) -> Iterator[FunctionType]:
    if isinstance(attribute, property):
        attribute = attribute.fget
    attribute = inspect.unwrap(getattr(attribute, "__func__", attribute))
    if isinstance(attribute, FunctionType) and not attribute.__code__.co_filename.startswith("<"):
        yield attribute


@cache
def _names_for_type_checkers(module: ModuleType) -> dict[str, Any]:
    """What a module imports under `if TYPE_CHECKING`."""
    names: dict[str, Any] = {}
    for block in ast.parse(inspect.getsource(module)).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(block.body, []), module.__name__, "exec"), names)
    return names


def _types(hint: Any) -> Iterator[type]:
    if isinstance(hint, type):
        yield hint
    for part in get_args(hint):
        yield from (each for one in (part if isinstance(part, list) else [part])
                    for each in _types(one))  # fmt: skip


def mentioned_types() -> Iterator[tuple[str, type]]:
    for where, value in public_signatures():
        module = import_module(value.__module__)
        names = vars(module) | _names_for_type_checkers(module)
        for annotation in map(str, getattr(value, "__annotations__", {}).values()):
            for word in re.findall(r"\w+", annotation):
                yield from ((where, each) for each in _types(names.get(word)))


def test_every_type_in_a_public_signature_is_exported() -> None:
    """Errors are public in `kb.errors`."""
    exported = {getattr(kb, name) for name in kb.__all__ if name != "TYPE_WEIGHTS"}
    missing = {
        (where, each.__name__)
        for where, each in mentioned_types()
        if each.__module__.split(".")[0] == "kb"
        and each not in exported
        and each.__module__ != errors.__name__
    }
    assert not missing


def test_a_type_behind_an_alias_is_seen() -> None:
    assert set(_types(typing.Callable[[int], list[str] | None])) >= {int, str}
