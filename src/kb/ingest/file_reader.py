"""Reads a file from disk and detects its parser."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kb.ingest import file_names
from kb.ingest.decode import Unsupported, looks_binary
from kb.ingest.file_entry import FileEntry, find_file
from kb.ingest.parse import HEAD_BYTES, Parsers
from kb.ingest.secret_files import HEAD_BYTES as SECRET_HEAD_BYTES
from kb.ingest.secret_files import secret_reason
from kb.ports import Parser, Source
from kb.regular_files import FileChanged, FileTooLarge, Links, OpenFile, open_file


def read_and_detect(
    root: str,
    entry: FileEntry,
    parsers: Parsers,
    limit_bytes: int,
    *,
    follow_links: bool = False,
    include_secrets: Sequence[str] = (),
) -> tuple[FileEntry, Parser, bytes]:
    """Return the current entry of the file `entry` below `root`, its parser and its bytes.

    `include_secrets` are the paths that `included_paths` returns. Raises `Unsupported` for a file
    that no parser reads or that holds a secret; then only its beginning was read. Raises
    `ReadRefused` for a file that was replaced after the walk.
    """
    try:
        return entry, *_read(root, entry, parsers, limit_bytes, follow_links, include_secrets)
    except FileChanged:  # replaced by another regular file, as editors do when they save
        current = find_file(root, entry.path, follow_links=follow_links)
        if current is None:
            raise
        return current, *_read(root, current, parsers, limit_bytes, follow_links, include_secrets)


def _read(
    root: str,
    entry: FileEntry,
    parsers: Parsers,
    limit_bytes: int,
    follow_links: bool,
    include_secrets: Sequence[str],
) -> tuple[Parser, bytes]:
    links: Links = "follow" if follow_links else "refuse"
    with open_file(entry.disk_path, root=root, links=links, expected=entry.identity) as file:
        path = file.real_path() if file.linked else file.path
        if reason := secret_reason(path, file.head(SECRET_HEAD_BYTES), include_secrets):
            raise Unsupported(reason)
        parser = _detect(file, entry, parsers, limit_bytes)
        try:
            data = file.read(limit_bytes)
        except FileTooLarge:  # it has grown since it was opened
            raise _too_large(limit_bytes + 1, limit_bytes) from None
    if data.isspace():
        raise Unsupported("empty")
    return parser, data


def _detect(file: OpenFile, entry: FileEntry, parsers: Parsers, limit_bytes: int) -> Parser:
    if file.info.st_size > limit_bytes:
        raise _too_large(file.info.st_size, limit_bytes)
    head = file.head(HEAD_BYTES)
    if not head:
        raise Unsupported("empty")
    name = os.path.basename(entry.path)
    parser = parsers.detect(Source(name, head, entry.mtime_ns))
    if parser is None:
        kind = "binary file" if looks_binary(head) else "unsupported format"
        raise Unsupported(f"{kind} {file_names.suffix_of(name)}".rstrip())
    return parser


def _too_large(size_bytes: int, limit_bytes: int) -> Unsupported:
    advice = f"to read it, raise ingest.max_file_bytes ({limit_bytes:,})"
    return Unsupported(f"too large: {size_bytes:,} bytes; {advice}")
