"""Reads that are repeated if the server ends their snapshot."""

from __future__ import annotations

from functools import wraps

from kb import deadline
from kb.errors import SnapshotLost
from kb.values import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ParamSpec, TypeVar

    _Parameters = ParamSpec("_Parameters")
    _Value = TypeVar("_Value")


def repeat_if_lost(read: Callable[_Parameters, _Value]) -> Callable[_Parameters, _Value]:
    """Decorate a function that reads in a snapshot of its own: if it is lost, the function runs
    once more, in a new one."""

    @wraps(read)
    def repeated(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Value:
        try:
            return read(*args, **kwargs)
        except SnapshotLost:
            deadline.check()
            return read(*args, **kwargs)

    return repeated
