"""Mailboxes (mbox): a sequence of e-mails, each read like a separate file.

Some programs do not quote a line of a text that begins with `From `. Such a line separates messages
only if a header follows, and if it resembles the first line of the file: with a date, or with a
single word. Otherwise it is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kb.ingest import file_names
from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parser_support.extract import Extract
from kb.ingest.parsers.email.message import parse_email
from kb.ingest.secret_files import extracted_reason
from kb.ports import Parsed, Source

_FIRST = re.compile(rb"From [^\n]*\n")
_OTHERS = re.compile(
    rb"(?:(?<=\n\n)|(?<=\r\n\r\n))From [^\n]*\n(?=[\x21-\x39\x3b-\x7e]++[ \t]*+:|>From )"
)
_DATE = re.compile(rb"\d:\d\d\b.*\b\d{4}\b")
_QUOTED = re.compile(rb"^>(>*From )", re.MULTILINE)
_LINE_BYTES = 1_000  # searched for a date
_NAMED = 5  # messages listed in a warning


def parse_mailbox(source: Source) -> Parsed:
    out = Extract()
    problems: list[str] = []
    warnings: list[str] = []
    messages = list(_messages(source.data))
    if not messages:
        raise Unreadable("not a mailbox: it has no `From ` line before a header")
    before = source.data[: messages[0][0]]
    _write_text(out, before[: before.rfind(b"From ")])
    done = 0
    for number, (start, end) in enumerate(messages, 1):
        out.place = f"message {number}"
        data = _QUOTED.sub(rb"\1", source.data[start:end])
        try:
            parsed = parse_email(Source(source.name, data, source.mtime_ns))
        except (Unreadable, Unsupported) as error:
            problems.append(f"message {number} is kept as plain text: {error.reason}")
            _write_text(out, data)
            continue
        if reason := extracted_reason(parsed.text or ""):
            warnings.append(f"message {number} is not read: it {reason}")
            done += 1
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
    first = _FIRST.match(data)
    dated = first is None or _has_date(first.group())
    start = None if first is None else first.end()
    for separator in _OTHERS.finditer(data):
        line = separator.group()
        if not (_has_date(line) if dated else len(line.split()) == 2):
            continue
        if start is not None:
            yield start, separator.start()
        start = separator.end()
    if start is not None:
        yield start, len(data)


def _has_date(line: bytes) -> bool:
    """Whether a line contains a time and, after it, a year."""
    return _DATE.search(line[:_LINE_BYTES]) is not None


def _write_text(out: Extract, data: bytes) -> None:
    """Write bytes that are not a message as plain text, so that no text is lost."""
    out.lines(data.decode("utf-8", "replace").split("\n"))
