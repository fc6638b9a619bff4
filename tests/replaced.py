"""Replacements for an ingested file, each created at a free path."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path


def huge(path: Path) -> None:
    """A sparse file of three gigabytes."""
    with open(path, "wb") as file:
        file.truncate(3 << 30)


def link_outside(path: Path) -> None:
    """A link to this very file, outside the folder."""
    path.symlink_to(Path(__file__).resolve())


def unix_socket(path: Path) -> None:
    before = os.getcwd()
    os.chdir(path.parent)  # the path of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(before)


REPLACEMENTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "pipe": (os.mkfifo if hasattr(os, "mkfifo") else Path.touch, "not a regular file"),
    "socket": (unix_socket, "not a regular file"),
    "folder": (Path.mkdir, "not a regular file"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
    "link": (link_outside, "leads out of its folder"),
    "huge": (huge, "larger than 268,435,456 bytes"),
}
