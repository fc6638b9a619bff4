"""Manual pages: sections, fonts, lists, and the macros of mdoc."""

from __future__ import annotations

from kb.ingest.parse import Parsers
from kb.ingest.parsers.man import ManParser, plain_text
from kb.ports import Parsed, Source
from tests.ingest.parsers.mutations import check_parsed, check_survives

MAN = rb""".\" a comment
.TH TIDE 1 2024\-05\-01 "tide 2.1" "User Commands"
.SH NAME
tide \- predict the \fIheight\fR of water
.SH SYNOPSIS
.B tide
[\fB\-\-port\fR \fINAME\fR]
.SH OPTIONS
.TP
.BR \-p ", " \-\-port =\fINAME\fR
the port, such as \(lqBrest\(rq
.IP \(bu 2
a point
.SS "Exit status"
0 on success
.nf
tide --port Brest
  > 4 m
.fi
"""
MDOC = rb""".Dd May 1, 2024
.Dt TIDE 1
.Sh NAME
.Nm tide
.Nd predict water
.Sh SYNOPSIS
.Nm
.Op Fl p Ar port
.Bl -tag
.It Fl p
use a
.Dq port
.El
"""


def parse(data: bytes, name: str = "tide.1") -> Parsed:
    return ManParser().parse(Source(name, data))


def test_man() -> None:
    parsed = parse(MAN)
    assert (parsed.text or "").split("\n\n") == [
        "# NAME",
        "tide - predict the height of water",
        "# SYNOPSIS",
        "tide [--port NAME]",
        "# OPTIONS",
        "-p, --port=NAME the port, such as “Brest”",
        "• a point",
        "## Exit status",
        "0 on success",
        "```\ntide --port Brest\n  > 4 m\n```",
        "2024-05-01\ntide 2.1\nUser Commands",
    ]
    assert parsed.title == "TIDE(1)"
    assert parsed.attributes.date == "2024-05-01"
    check_parsed(parsed, MAN)


def test_mdoc() -> None:
    parsed = parse(MDOC)
    text = parsed.text or ""
    assert "# SYNOPSIS\n\ntide [-p port]\n\n-p use a “port”" in text
    assert parsed.title == "TIDE(1)"
    assert "May 1, 2024" in text


GENERATED = r""".\" Generator: DocBook XSL Stylesheets
.ie n \{\
.    ds L" ""
.    ds R" ""
'br\}
.el\{\
.    ds L" ``
.    ds PI \(*p
.\}
.de Vb
.ft CW
.nf
..
.TH "GIT\-TIDE" "1"
.ie \n(.g .ds Aq \(aq
.el       .ds Aq '
.nh
.ad l
.SH "NAME"
git-tide \- reads \*(L"the\*(R" water
.sp
.if n \{\
.RS 4
.\}
.fam C
.BB lightgray adjust-for-leading-newline
it\*(Aqs high
.EB lightgray adjust-for-leading-newline
.if t \{\
.sp -1
typeset only
.\}
.if n the ebb
.ie t .IP hidden 4
.el .IP shown 4
.IX Item "shown"
.Vb 1
.\" the end
"""


def test_generated_pages_without_commands_for_typesetters() -> None:
    parsed = parse(GENERATED.encode(), "git-tide.1")
    assert parsed.text == (
        '# NAME\n\ngit-tide - reads "the" water\n\nit\'s high the ebb\n\nshown 1'
    )


def test_names_and_references_of_mdoc() -> None:
    lines = (".Dt TIDE 1", ".Sh NAME", ".Nm tide", ".Sh USE", "With", ".Nm", "on", ".Ux , see",
             ".Sm off", ".Xr port 5 .", ".Bk -words", "When", ".Nm ,", "end")  # fmt: skip
    text = parse("\n".join(lines).encode()).text or ""
    assert text == "# NAME\n\ntide\n\n# USE\n\nWith tide on UNIX, see port(5). When tide, end"


def test_tables() -> None:
    page = ".TH A 1\n.TS\ntab(@);\nl l.\nT{\nlow\nT}@T{\nwater\nT}\n.TE\nafter"
    assert parse(page.encode()).text == "low\n\nwater\n\nafter"


def test_a_definition_without_end_hides_nothing() -> None:
    assert "words" in (parse(b".TH A 1\n.de Vb\nwords").text or "")


def test_escapes() -> None:
    assert plain_text(r"\fBa\f(CWb\f[]c\s-2d\s0 \(co \[u00E9] \*(lq \e \&.x\h'1n'y") == (
        "abcd © é “ \\ .xy"
    )


def test_which_files() -> None:
    parsers = Parsers(1800, plug_ins=())
    names = {name: parsers.detect(Source(name, MAN)) for name in ("tide.1", "a.3p", "a.man", "a.c")}
    assert [parser and parser.name for parser in names.values()] == ["man", "man", "man", "code"]
    assert not ManParser().accepts(Source("libx.so.1", b"no macros"))


def test_damaged_files() -> None:
    check_survives(ManParser(), "a.1", MAN)
    check_survives(ManParser(), "a.1", MDOC)
