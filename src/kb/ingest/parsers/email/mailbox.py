"""Mailboxes (mbox): one e-mail after another, each read like a file of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kb.ingest import file_names
from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parser_support.extract import Extract
from kb.ingest.parsers.email.message import parse_email
from kb.ports import Parsed, Source

_SEPARATOR = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\r\n\r\n))From [^\n]*\n")
_QUOTED = re.compile(rb"^>(>*From )", re.MULTILINE)
_NAMED = 5  # messages, in a warning


def parse_mailbox(source: Source) -> Parsed:
    out = Extract()
    problems: list[str] = []
    warnings: list[str] = []
    messages = list(_messages(source.data))
    if not messages:
        raise Unreadable("not a mailbox: it does not begin with a `From ` line")
    done = 0
    for number, (start, end) in enumerate(messages, 1):
        data = _QUOTED.sub(rb"\1", source.data[start:end])
        try:
            parsed = parse_email(Source(source.name, data, source.mtime_ns))
        except (Unreadable, Unsupported) as error:
            problems.append(f"message {number}: {error.reason}")
            continue
        out.add_blocks((parsed.text or "").split("\n"), parsed.blocks)
        warnings += [f"message {number}: {each}" for each in parsed.warnings]
        done += 1
        source.on_progress(end, len(source.data))
    if not done:
        raise Unreadable(problems[0])
    notes = [*problems, *warnings]
    more = [f"and {len(notes) - _NAMED} more"] if len(notes) > _NAMED else []
    return Parsed(
        type="email",
        blocks=out.blocks,
        title=file_names.title_of(source.name),
        warnings=(*notes[:_NAMED], *more),
        text=out.text,
    )


def _messages(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each message begins and ends, without the lines that separate them."""
    start: int | None = None
    for separator in _SEPARATOR.finditer(data):
        if start is not None:
            yield start, separator.start()
        start = separator.end()
    if start is not None:
        yield start, len(data)
