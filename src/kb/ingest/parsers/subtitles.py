"""Subtitles (SubRip and WebVTT): the spoken text, with the time at which it begins.

Consecutive cues form one passage. Its heading is the time of its first cue, at which the recording
can be opened.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

from kb.ingest import file_names
from kb.ingest.decode import decode
from kb.ingest.parser_support.extract import Extract, one_line
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ports import Parsed, Source

_SUFFIXES = frozenset({".srt", ".vtt", ".webvtt"})
_TIME = r"(?:(\d{1,3}):)?(\d{1,2}):(\d{2})[.,]\d{1,3}"
_TIMING = re.compile(rf"\s*{_TIME}[ \t]*-->[ \t]*{_TIME}(.*)")
_TIMING_BYTES = re.compile(rb"\d\d[.,]\d{1,3}[ \t]*-->[ \t]*\d")
_VOICE = re.compile(r"<v(?:\.[^\s>]{0,80})?[ \t]+([^>]{1,200})>")
_TAG = re.compile(r"</?(?:[biuc]|v|lang|ruby|rt|font|\d\d:)[^>]{0,200}>|\{\\an?\d\}", re.IGNORECASE)
_PAUSE_S = 5  # a longer pause begins a new passage
_PASSAGE_CHARS = 1000


class _Cue(NamedTuple):
    start_s: int
    end_s: int
    lines: list[str]


class SubtitlesParser(FormatParser):
    name = "subtitles"
    version = "1"
    priority = 1  # before the text parser

    def accepts(self, source: Source) -> bool:
        is_named = file_names.suffix_of(source.name) in _SUFFIXES
        return is_named and bool(_TIMING_BYTES.search(source.data[:8192].replace(b"\0", b"")))

    def parse(self, source: Source) -> Parsed:
        out = Extract()
        rest: list[str] = []
        passage: list[str] = []
        before = _Cue(0, 0, [])
        for cue in _cues(decode(source.data), rest):
            is_apart = not -_PAUSE_S <= cue.start_s - before.end_s <= _PAUSE_S
            if passage and (is_apart or sum(map(len, passage)) > _PASSAGE_CHARS):
                out.lines(passage)
                passage = []
            if not passage and cue.lines:
                out.enter_section(1, time_of(cue.start_s))
            if cue.lines and cue.lines != before.lines:  # rolling captions repeat their lines
                passage += [f"[{time_of(cue.start_s)}] {cue.lines[0]}", *cue.lines[1:]]
            before = cue
        out.lines(passage)
        out.enter_section(1, "")
        out.append_missing(rest)
        return Parsed(
            type="subtitles",
            blocks=out.blocks,
            title=file_names.title_of(source.name),
            text=out.text,
        )


def time_of(seconds: int) -> str:
    """Format a number of seconds as `01:02:03`."""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _cues(text: str, rest: list[str]) -> Iterator[_Cue]:
    """Yield the cues of a file. Lines outside cues are added to `rest`."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        timing = _TIMING.fullmatch(lines[at])
        if timing is None:
            following = lines[at + 1] if at + 1 < len(lines) else ""
            is_number = lines[at].strip().isdecimal() and _TIMING.fullmatch(following)
            if not is_number and lines[at].strip():
                rest.append(lines[at])
            at += 1
            continue
        *numbers, settings = timing.groups()
        start = [int(number or 0) for number in numbers[:3]]
        end = [int(number or 0) for number in numbers[3:]]
        rest.append(settings.strip())
        at += 1
        said: list[str] = []
        while at < len(lines) and lines[at].strip() and not _TIMING.fullmatch(lines[at]):
            said.append(lines[at])
            at += 1
        yield _Cue(
            _seconds(start), _seconds(end), [each for line in said if (each := _plain(line))]
        )


def _seconds(parts: list[int]) -> int:
    hours, minutes, seconds = parts
    return hours * 3600 + minutes * 60 + seconds


def _plain(line: str) -> str:
    """A line without its tags; a voice becomes `Name: `."""
    line = _TAG.sub("", _VOICE.sub(lambda match: f"{match[1]}: ", line))
    return one_line(html.unescape(line))
