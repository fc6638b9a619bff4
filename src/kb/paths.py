"""The locations of the store and the user's folders, as text.

Imports only `os` and `sys`, so that the socket client of `kb search` can use it: `pathlib` and
`platformdirs` take longer to import than that client needs in total.
"""

from __future__ import annotations

import os
import sys

STORE_FILE = "kb.sqlite"
STORE_FOLDER = ".kb"
SETTINGS_FILE = "config.toml"
_SUFFIXES = (".sqlite", ".sqlite3", ".db")
_XDG = {
    "data": ("XDG_DATA_HOME", "~/.local/share"),
    "config": ("XDG_CONFIG_HOME", "~/.config"),
    "cache": ("XDG_CACHE_HOME", "~/.cache"),
    "state": ("XDG_STATE_HOME", "~/.local/state"),
}


def explicit_store(location: str | None) -> str | None:
    """Return the store file that `location`, or else KB_STORE, refers to; None if neither is
    set."""
    location = location if location is not None else os.environ.get("KB_STORE")
    if not location:
        return None
    path = os.path.expanduser(location)
    return _file_in(path if os.path.isabs(path) else os.path.join(os.getcwd(), path))


def nearest_store_folder(start: str) -> str | None:
    """Return the `.kb/` in `start` or the nearest parent folder that has one."""
    folder = start
    while True:
        candidate = os.path.join(folder, STORE_FOLDER)
        if os.path.isdir(candidate):
            return candidate
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def find_store(location: str | None) -> str:
    """Return the store file: `location`, else KB_STORE, else the nearest `.kb/`, else the user data
    folder. It may not exist yet."""
    if (file := explicit_store(location)) is not None:
        return file
    folder = nearest_store_folder(os.getcwd())
    return os.path.join(folder or user_folder("data"), STORE_FILE)


def _file_in(path: str) -> str:
    """Return `path` if it is a file or has the suffix of one; otherwise the store file inside."""
    if os.path.isfile(path) or os.path.splitext(path)[1] in _SUFFIXES:
        return path
    nested = os.path.join(path, STORE_FOLDER)
    if os.path.basename(path.rstrip(os.sep)) != STORE_FOLDER and os.path.isdir(nested):
        return os.path.join(nested, STORE_FILE)
    return os.path.join(path, STORE_FILE)


def user_folder(kind: str) -> str:
    """Return the user's folder for `data`, `config`, `cache` or `state`, as platformdirs defines
    it."""
    if sys.platform == "linux" and "ANDROID_ROOT" not in os.environ:
        variable, default = _XDG[kind]
        value = os.environ.get(variable, "")
        return os.path.join(value if value.strip() else os.path.expanduser(default), "kb")
    import platformdirs

    folder = {
        "data": platformdirs.user_data_dir,
        "config": platformdirs.user_config_dir,
        "cache": platformdirs.user_cache_dir,
        "state": platformdirs.user_state_dir,
    }[kind]
    return folder("kb", appauthor=False)


def user_settings() -> str:
    """Return the path of the user's settings file: KB_CONFIG, or the one in the user's folder."""
    if path := os.environ.get("KB_CONFIG"):
        return os.path.abspath(os.path.expanduser(path))
    return os.path.join(user_folder("config"), SETTINGS_FILE)
