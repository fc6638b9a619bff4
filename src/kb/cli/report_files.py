"""The files that `kb eval run` and `kb map` write, and the checks that keep them from overwriting
other files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from kb.atomic import atomic_path, check_not_store, open_stream
from kb.errors import InvalidRequest

_ENCODING = {"encoding": "utf-8", "errors": "backslashreplace"}
_HEAD_BYTES = 1024
_MARKS = (
    b'"schema_version": "eval_report.',
    b'<meta name="generator" content="kb eval">',
    b'role="img" aria-label="Map of the library"',
    b"Software\0kb map",  # in a PNG file
)


def check_outputs(
    paths: Iterable[Path | None], *, inputs: Iterable[Path | None], store: Path, force: bool
) -> None:
    """Check the output files before spending minutes on a run.

    A report or a map of an earlier run, or an empty file, may be replaced; any other file only with
    `force`. The files of the store, the `inputs`, and files in a folder among the inputs are never
    replaced.
    """
    outputs = [path for path in paths if path is not None]
    for path in outputs:
        check_not_store(path, store)
        if problem := _write_problem(path):
            raise InvalidRequest(f"cannot write {path}: {problem}", "choose another file")
        if not path.is_file() or _is_report(path):
            continue
        for given in inputs:
            if given is not None and _contains(given, path):
                raise InvalidRequest(f"{path} is an input of this run", "choose another file")
        if not force:
            raise InvalidRequest(f"{path} already exists", "choose another file, or use --force")
    if len({path.resolve() for path in outputs}) < len(outputs):
        raise InvalidRequest(
            f"{outputs[0]} is given for two different outputs", "choose another file"
        )


def write(path: Path, content: str | bytes) -> None:
    """Write a regular file atomically; write directly to a pipe or device."""
    data = content if isinstance(content, bytes) else content.encode(**_ENCODING)
    try:
        with open_stream(path) as stream:
            if stream is not None:
                stream.write(data)
                return
        with atomic_path(path, overwrite=True, follow_links=True) as part:
            part.write_bytes(data)
    except OSError as error:
        message = f"cannot write {path}: {error.strerror}"
        raise InvalidRequest(message, "choose another file") from error


def _write_problem(path: Path) -> str:
    if path.is_dir():
        return "it is a folder"
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist"
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        return "no permission to write there"
    return ""


def _is_report(path: Path) -> bool:
    """Whether an earlier run wrote the file, or the file is empty."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return False
    return not head or any(mark in head for mark in _MARKS)


def _contains(given: Path, path: Path) -> bool:
    """Whether `path` is the file `given`, under any name, or is in the folder `given`."""
    if given.is_dir():
        return path.resolve().is_relative_to(given.resolve())
    return given.exists() and given.samefile(path)
