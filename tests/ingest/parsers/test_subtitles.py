"""Subtitles: the spoken text, with its time."""

from __future__ import annotations

from kb.ingest.parse import Parsers
from kb.ingest.parsers.subtitles import SubtitlesParser
from kb.ports import Parsed, Source
from tests.ingest.parsers.mutations import check_parsed, check_survives

SRT = """1
00:00:01,000 --> 00:00:03,500
<i>The tide</i> turns
at noon.

2
00:00:04,000 --> 00:00:06,000
{\\an8}Then we sail.

3
01:10:00,000 --> 01:10:02,000
Much later
"""
VTT = """WEBVTT - a lecture

NOTE by hand

intro
00:01.000 --> 00:03.000 align:start
<v Ada>Anchors &amp; chains</v>

00:03.000 --> 00:04.000
<v Ada>Anchors &amp; chains</v>
"""


def parse(text: str, name: str = "talk.srt") -> Parsed:
    return SubtitlesParser().parse(Source(name, text.encode()))


def test_srt() -> None:
    parsed = parse(SRT)
    assert parsed.text == (
        "[00:00:01] The tide turns\nat noon.\n[00:00:04] Then we sail.\n\n[01:10:00] Much later"
    )
    assert [block.heading_path for block in parsed.blocks] == [("00:00:01",), ("01:10:00",)]
    check_parsed(parsed, SRT.encode())


def test_vtt() -> None:
    parsed = parse(VTT, "talk.vtt")
    text = parsed.text or ""
    assert text.startswith("[00:00:01] Ada: Anchors & chains\n\n")
    assert all(word in text for word in ("lecture", "by hand", "intro", "align:start"))


def test_long_talks_are_several_passages() -> None:
    times = [f"00:{n // 60:02}:{n % 60:02}" for n in range(100)]
    cues = [f"{n}\n{time},000 --> {time},900\n{f'word{n} ' * 20}" for n, time in enumerate(times)]
    blocks = list(parse("\n\n".join(cues)).blocks)
    assert len(blocks) > 5
    assert all(block.text.startswith(f"[{block.heading_path[0]}]") for block in blocks)


def test_files_without_cues_are_text() -> None:
    parser = Parsers(1800, plug_ins=()).detect(Source("a.srt", b"no cues here"))
    assert parser is not None
    assert parser.name == "text"


def test_damaged_files() -> None:
    check_survives(SubtitlesParser(), "a.srt", SRT.encode())
    check_survives(SubtitlesParser(), "a.vtt", VTT.encode())
