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
    assert parsed.text == ('# NAME\n\ngit-tide - reads "the" water\n\nit\'s high the ebb\n\nshown')


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


# Definitions as `pod2man` writes them before each page.
POD = rb""".de Sp
.if t .sp .5v
..
.ds C+ C\v'-.1v'+\h'-1p'+
.ie n \{\
.    ds L" ""
.    ds R" ""
.    ds C` ""
.    if (\n(.H=4u)&(1m=24u) .ds -- \(*W\h'-12u'-
'br\}
.el\{\
.    ds -- \|\(em\|
typeset only
'br\}
.if (\n(rF:(\n(.g==0)) \{\
.    if \nF \{\
.        de IX
.        tm Index:\\$1
..
.        nr F 2
.    \}
.\}
.TH TIDE 3pm
.SH "NAME"
.IX Header "NAME"
tide \*(-- \*(L"high\*(R" water in \*(C+
.IX Item "port-of-call"
.Sp
.Vb 1
\&  tide("Brest");
.Ve
Run \f(CW\*(C`tide \-\-port\*(C'\fR.
.if n in a terminal
.if t on paper
.if !\nX either way
"""


def test_definitions_are_not_text() -> None:
    parsed = parse(POD, "Tide.3perl")
    assert (parsed.text or "").split("\n\n") == [
        "# NAME",
        'tide -- "high" water in C++',
        '```\n  tide("Brest");\n```',
        'Run "tide --port". in a terminal either way',
    ]
    check_parsed(parsed, POD)


def test_strings() -> None:
    text = (
        parse(b'.ds A one\n.ds B \\*A two\n.as B " three\n.SH N\n\\*B \\*[A] \\*(zz\n').text or ""
    )
    assert text == "# N\n\none two three one zz"
    doubled = b"".join(b".ds %c \\*%c\\*%c\n" % (n + 1, n, n) for n in range(97, 121))
    bomb = parse(b".ds a word\n" + doubled + b".SH N\n\\*y\n").text or ""
    assert len(bomb) < 1100


def test_letters() -> None:
    assert plain_text(r"\('a\(:A\(,c\[oa]\(/o\[u0065_0301]\[char233]\N'233'\(*a\[vs]") == (
        "áÄçåøéééαš"
    )
    assert plain_text(r"\(zz \('1 \[char99999999] \N'9999999'") == "zz '1 char99999999 "


def test_which_files() -> None:
    parsers = Parsers(1800, plug_ins=())
    names = {name: parsers.detect(Source(name, MAN)) for name in ("tide.1", "a.3p", "a.man", "a.c")}
    assert [parser and parser.name for parser in names.values()] == ["man", "man", "man", "code"]
    assert not ManParser().accepts(Source("libx.so.1", b"no macros"))


def test_damaged_files() -> None:
    check_survives(ManParser(), "a.1", MAN)
    check_survives(ManParser(), "a.1", MDOC)
