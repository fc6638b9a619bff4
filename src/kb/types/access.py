"""Access: what a token may do, and which documents it may see."""

from __future__ import annotations

from dataclasses import dataclass, field

RIGHTS = ("read", "write", "admin")
NOTES_ROOT = "note:"  # in `Limits.roots`: the notes, which belong to no root


@dataclass(frozen=True, slots=True)
class Limits:
    """The documents that a token may see: those with one of the scopes, in one of the roots, and
    with one of the tags. An empty tuple does not limit."""

    scopes: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.scopes or self.roots or self.tags)


@dataclass(frozen=True, slots=True)
class Identity:
    """The sender of a request: the name of the token, its rights and its limits. `admin` includes
    `write`, and `write` includes `read`. `requests_per_minute` is 0 for any number."""

    name: str
    right: str = "admin"
    limits: Limits = field(default_factory=Limits)
    requests_per_minute: int = 0

    def may(self, right: str) -> bool:
        """Whether the token has this right."""
        return RIGHTS.index(right) <= RIGHTS.index(self.right)
