"""Regular expressions that are compiled when they are first used. Pure.

Compiling one takes up to half a millisecond, and a lexical search uses few of the patterns that its
modules declare.
"""

from __future__ import annotations

import re

from kb.values import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from re import compile as _compile

    compile_later = _compile


class _LaterPattern:
    """A pattern that is compiled on first use. Has the methods and attributes of `re.Pattern`."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._source = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._source), name)
        self.__dict__[name] = value  # later accesses do not call `__getattr__`
        return value

    def __repr__(self) -> str:
        return repr(re.compile(*self._source))


if not TYPE_CHECKING:
    compile_later = _LaterPattern
