"""From a file on disk to its bytes and the parser that reads them."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kb.ingest import file_names
from kb.ingest.decode import Unsupported, looks_binary
from kb.ingest.file_entry import Found, find
from kb.ingest.parse import HEAD_BYTES, Parsers
from kb.ingest.secret_files import HEAD_BYTES as SECRET_HEAD_BYTES
from kb.ingest.secret_files import secret_reason
from kb.ports import Parser, Source
from kb.regular_files import FileChanged, FileTooLarge, Links, OpenFile, open_file


def load(
    root: str,
    found: Found,
    parsers: Parsers,
    limit_bytes: int,
    *,
    follow_links: bool = False,
    include_secrets: Sequence[str] = (),
) -> tuple[Found, Parser, bytes]:
    """The file `found` below `root` as it is now, its parser and its bytes. `include_secrets` are
    those of `included_paths`.

    Raises `Unsupported` when there is no parser for it, or when it keeps a secret; then no more
    than its beginning was read. Raises `ReadRefused` for a file that something else has replaced
    since the walk.
    """
    try:
        return found, *_load(root, found, parsers, limit_bytes, follow_links, include_secrets)
    except FileChanged:  # another regular file, as editors leave one when they save
        now = find(root, found.path, follow_links=follow_links)
        if now is None:
            raise
        return now, *_load(root, now, parsers, limit_bytes, follow_links, include_secrets)


def _load(
    root: str,
    found: Found,
    parsers: Parsers,
    limit_bytes: int,
    follow_links: bool,
    include_secrets: Sequence[str],
) -> tuple[Parser, bytes]:
    links: Links = "follow" if follow_links else "refuse"
    with open_file(found.inside, root=root, links=links, expected=found.identity) as file:
        path = file.real_path() if file.linked else file.path
        if reason := secret_reason(path, file.head(SECRET_HEAD_BYTES), include_secrets):
            raise Unsupported(reason)
        parser = _parser(file, found, parsers, limit_bytes)
        try:
            data = file.read(limit_bytes)
        except FileTooLarge:  # it has grown since it was opened
            raise _too_large(limit_bytes + 1, limit_bytes) from None
    if data.isspace():
        raise Unsupported("empty")
    return parser, data


def _parser(file: OpenFile, found: Found, parsers: Parsers, limit_bytes: int) -> Parser:
    if file.info.st_size > limit_bytes:
        raise _too_large(file.info.st_size, limit_bytes)
    head = file.head(HEAD_BYTES)
    if not head:
        raise Unsupported("empty")
    name = os.path.basename(found.path)
    parser = parsers.detect(Source(name, head, found.mtime_ns))
    if parser is None:
        kind = "binary file" if looks_binary(head) else "unsupported format"
        raise Unsupported(f"{kind} {file_names.suffix_of(name)}".rstrip())
    return parser


def _too_large(size_bytes: int, limit_bytes: int) -> Unsupported:
    return Unsupported(f"too large: {size_bytes:,} bytes, at most {limit_bytes:,} are read")
