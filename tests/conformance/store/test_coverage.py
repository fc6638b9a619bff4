"""Every method of every port is called somewhere in this suite."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from kb.ports import Catalog, Fulltext, Maintenance, Queue, Store, Vectors

PORTS: dict[str, type] = {
    "catalog": Catalog,
    "fulltext": Fulltext,
    "vectors": Vectors,
    "queue": Queue,
    "maintenance": Maintenance,
}


def methods(port: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(port) if not name.startswith("_")}


def used() -> set[tuple[str, str]]:
    """Every attribute of an attribute in the suite: `store.catalog.tags` gives catalog, tags."""
    trees = [ast.parse(path.read_text("utf-8")) for path in Path(__file__).parent.glob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    pairs = {(one.value.attr, one.attr) for one in nodes if isinstance(one.value, ast.Attribute)}
    return pairs | {("store", one.attr) for one in nodes}


@pytest.mark.parametrize("name", PORTS)
def test_every_method_of_a_port_is_covered(name: str) -> None:
    covered = {method for port, method in used() if port == name}
    assert methods(PORTS[name]) - covered == set()


def test_every_member_of_the_store_is_covered() -> None:
    assert set(PORTS) < methods(Store)
    covered = {method for port, method in used() if port == "store"}
    assert methods(Store) - covered == set()
