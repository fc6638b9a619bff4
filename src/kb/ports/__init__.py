"""Protocols that stores, models and parsers implement.

    store         Store: five ports, snapshots, and where the store is
    catalog       Catalog: documents, chunks, tags and roots
    fulltext      Fulltext: retrieval by words
    vectors       Vectors: embedding models, their vectors, and retrieval by them
    queue         Queue: which chunks still need vectors, and which jobs work on them
    maintenance   Maintenance: checks, repairs, backups, exports and imports
    encoder       Encoder: turns texts into vectors
    judge         Judge: scores a query and a passage together
    model_traits  ModelTraits: optional properties of an encoder or a judge, with defaults
    parser        Parser: turns the bytes of one format into blocks of text

Import names from here: `from kb.ports import Store`. Each module is loaded when one of its names is
first used (PEP 562), because parser processes and lexical searches need only a few of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kb.ports.catalog import Catalog
    from kb.ports.encoder import Encoder
    from kb.ports.fulltext import Fulltext
    from kb.ports.judge import Judge
    from kb.ports.maintenance import Check, Maintenance
    from kb.ports.model_traits import ModelTraits, traits_of
    from kb.ports.parser import Parsed, Parser, Source
    from kb.ports.queue import Queue
    from kb.ports.store import Store
    from kb.ports.vectors import Vectors

Clock = Callable[[], float]  # seconds since the epoch, like time.time

_MODULES = {
    "Catalog": "catalog",
    "Check": "maintenance",
    "Encoder": "encoder",
    "Fulltext": "fulltext",
    "Judge": "judge",
    "Maintenance": "maintenance",
    "ModelTraits": "model_traits",
    "Parsed": "parser",
    "Parser": "parser",
    "Queue": "queue",
    "Source": "parser",
    "Store": "store",
    "Vectors": "vectors",
    "traits_of": "model_traits",
}

__all__ = [
    "Catalog",
    "Check",
    "Clock",
    "Encoder",
    "Fulltext",
    "Judge",
    "Maintenance",
    "ModelTraits",
    "Parsed",
    "Parser",
    "Queue",
    "Source",
    "Store",
    "Vectors",
    "traits_of",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
