"""The locations of the store and the user's folders, as paths that are checked.

`kb.paths` finds them as text, without the checks, for the socket client of `kb search`.
"""

from __future__ import annotations

import os

from kb import paths
from kb.errors import ConfigError
from kb.paths import STORE_FILE
from kb.trust import is_own
from kb.values import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def store_path(
    location: str | os.PathLike[str] | None = None, *, start: Path | None = None
) -> Path:
    """Return the store's file, which may not exist yet.

    It is `location`, else KB_STORE, else in the nearest `.kb/` from `start` (the current folder)
    upwards, else in the user data folder. Raises `ConfigError` for the `.kb/` of another user, who
    could read what is stored there, and for a `.kb/` with links, which may come with a cloned
    folder and could lead anywhere. Either can be used if `location` or KB_STORE names it.
    """
    return to_path(_store_file(location, start=start))


def to_path(text: str) -> Path:
    """Return `text` as a path."""
    from pathlib import Path  # a search needs only the text

    return Path(text)


def _store_file(location: str | os.PathLike[str] | None, *, start: Path | None = None) -> str:
    """`store_path` as text."""
    file = paths.explicit_store(None if location is None else os.fspath(location))
    if file is not None:
        file = _normalize(file)
        _check_links(file)
        return file
    near = paths.nearest_store_folder(os.path.abspath(start or os.getcwd()))
    if near is None:
        return os.path.join(paths.user_folder("data"), STORE_FILE)
    if not is_own(os.stat(near)):
        raise ConfigError(f"{near} belongs to another user", f"to use it anyway: --store {near}")
    store = os.path.join(near, STORE_FILE)
    _check_links(store)
    return store


def _normalize(path: str) -> str:
    """The text of `Path(path)`, for an absolute path."""
    if os.name != "posix" or path.startswith("//"):
        return str(to_path(path))
    return "/" + "/".join([part for part in path.split("/") if part not in ("", ".")])


def _check_links(store: str) -> None:
    """Raise `ConfigError` if a store in a `.kb/` is a link, or the `.kb/` leads out of its
    folder."""
    folder = os.path.dirname(store)
    if os.path.basename(folder) != paths.STORE_FOLDER:
        return
    if os.path.islink(folder):
        target, parent = to_path(os.path.realpath(folder)), os.path.dirname(folder)
        if not target.is_relative_to(os.path.realpath(parent)):
            raise ConfigError(
                f"{folder} is a link to {target}, outside {parent}",
                f"remove the link, or give the store itself: --store {target}",
            )
    if os.path.islink(store):
        target = to_path(os.path.realpath(store))
        raise ConfigError(
            f"{store} is a link to {target}",
            f"remove the link, or give the store itself: --store {target}",
        )


def store_url(location: str | os.PathLike[str] | None = None) -> str:
    """Return `location` or KB_STORE if that is a URL, else the path that `store_path` returns.

    Raises `InvalidRequest` for a misspelled URL and for a list of connection parameters
    (`host=...`). They would count as a path and could appear in messages with their password, so
    the error does not repeat them.
    """
    url = location if location is not None else os.environ.get("KB_STORE")
    if isinstance(url, str):
        if "://" in url:
            return url
        if url.startswith(("postgres:", "postgresql:", "sqlite:/")) or any(
            word.startswith(("host=", "dbname=", "user=", "password=")) for word in url.split()
        ):
            from kb.errors import InvalidRequest

            raise InvalidRequest(
                "the store is neither a path nor a URL, which has '//' after its first colon",
                "use postgresql://USER@HOST/DATABASE, sqlite:///PATH, or a path",
            )
    return _store_file(location)


def data_folder() -> Path:
    """Return the folder of the user's default store and of downloaded models."""
    return to_path(paths.user_folder("data"))


def cache_folder() -> Path:
    """Return the folder for files that kb can recreate."""
    return to_path(paths.user_folder("cache"))
