"""Manual pages (roff with the macros of `man` or `mdoc`), by section."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kb.ingest import dates, file_names
from kb.ingest.decode import decode
from kb.ingest.parser_support.extract import Extract, one_line
from kb.ingest.parser_support.format_parser import FormatParser
from kb.metadata import TITLE_CHARS
from kb.ports import Parsed, Source
from kb.types import Attributes

_SUFFIX = re.compile(r"\.(?:[1-9ln][a-z]{0,3}|man|mdoc|roff|me|ms|troff)", re.IGNORECASE)
_MACROS = re.compile(rb"^[.'][ \t]*(?:TH|Dd|Dt|SH|Sh)\b", re.MULTILINE)
_REQUEST = re.compile(r"[.'][ \t]*([A-Za-z0-9\[\]]{1,20}|\\\"|\\#)?[ \t]*(.*)", re.DOTALL)
_ARGUMENT = re.compile(r'"((?:[^"]|"")*)"?|(\S+)')
_ESCAPE = re.compile(
    r"""\\(?:
    f(?:\([\w-]{2}|\[[^\]\n]{0,40}\]|.) | s(?:[+-]?\d{1,2}|\([+-]?\d\d|\[[^\]\n]{0,10}\])
    | [mMFgkn](?:\(..|\[[^\]\n]{0,40}\]|.) | [hvwlLDoXAbBZ]'[^'\n]{0,200}'
    | \((..) | \[([^\]\n]{1,40})\] | \*(?:\((..)|\[([^\]\n]{1,40})\]|(.)) | ["#].* | (.)
    )""",
    re.VERBOSE,
)
_CHARS = {
    "aq": "'", "dq": '"', "lq": "“", "rq": "”", "oq": "‘", "cq": "’", "em": "—", "en": "–",
    "hy": "-", "bu": "•", "co": "©", "rg": "®", "tm": "™", "ti": "~", "ha": "^", "rs": "\\",
    "ga": "`", "pl": "+", "mu": "×", "<=": "≤", ">=": "≥", "!=": "≠", "->": "→", "<-": "←",
    "de": "°", "sc": "§", "ss": "ß", ":a": "ä", ":o": "ö", ":u": "ü", "'e": "é", "`e": "è",
    "at": "@", "sh": "#", "Do": "$", "Eu": "€", "or": "|", "ba": "|", "sl": "/", "lB": "[",
    "rB": "]", "lC": "{", "rC": "}", "la": "⟨", "ra": "⟩", "Fo": "«", "Fc": "»", "'": "´",
}  # fmt: skip
_STRINGS = {"lq": "“", "rq": "”", "Tm": "™", "R": "®", "Aq": "'"}
_SIMPLE = {"-": "-", "e": "\\", "\\": "\\", "&": "", "|": "", "^": "", " ": " ", "~": "\xa0",
           "0": " ", "'": "´", "`": "`", ".": ".", "c": "", "%": "", "/": "", ",": "", ":": "",
           "t": "\t", "p": "", "d": "", "u": "", "r": "", "E": "\\", ")": "", "{": "",
           "}": ""}  # fmt: skip
_BREAKS = frozenset(
    """
    PP P LP IP TP TQ HP RS RE Pp Bl El Bd Ed It D1 Dl br sp nf fi EX EE SY YS in ti ne pp
    """.split()
)
_HIDDEN = frozenset(
    r"""\" \# de am ig if ie el nr ds rm so hy nh ad na ta PD UE ME DT tr ft ss lf cs ev po ll pl
    als do mso warn hw ns rs rr als1 ie1 TS TE EQ EN Os Bx Ns Pf Xo Xc als""".split()
)
_CODE = {"nf": True, "EX": True, "Bd": True, "fi": False, "EE": False, "Ed": False}
_ENCLOSING = {"Dq": ("“", "”"), "Qq": ('"', '"'), "Sq": ("‘", "’"), "Op": ("[", "]"),
              "Pq": ("(", ")"), "Bq": ("[", "]"), "Aq": ("<", ">"),
              "Ql": ("'", "'")}  # fmt: skip
_INNER_SPACE = re.compile(r"([“‘\[(<]) | ([”’\])>.,;:])")
_ALTERNATING = frozenset({"BR", "RB", "BI", "IB", "IR", "RI", "SB"})
_MDOC = frozenset(
    """
    It Ar Cm Dv Er Ev Fa Fn Ft Ic Li Nm Pa Sx Sy Em Va Vt Xr Lk Mt An Tn Nd Ns No Fl Op Pq Dq Sq Qq
    Bq Aq Ql Cd In Bx Ux Nx Fx Ox Rv St Ex Dl D1 Lb Oo Oc Po Pc Ao Ac Bo Bc So Sc Do Dc
    """.split()
)


class ManParser(FormatParser):
    name = "man"
    version = "1"
    priority = 1  # before the parsers for text and code

    def accepts(self, source: Source) -> bool:
        suffix = file_names.suffix_of(source.name)
        return bool(_SUFFIX.fullmatch(suffix) and _MACROS.search(source.data[:8192]))

    def parse(self, source: Source) -> Parsed:
        writer = _Writer()
        for line in _logical_lines(decode(source.data)):
            writer.line(line)
        writer.flush()
        out = writer.out
        out.append_missing(writer.rest, writer.title[:TITLE_CHARS])
        day = next((day for text in writer.rest if (day := dates.parse(text))), None)
        return Parsed(
            type="man",
            blocks=out.blocks,
            title=writer.title or file_names.title_of(source.name),
            attributes=Attributes(date=day, created_at=dates.moment(day) if day else None),
            text=out.text,
        )


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines, joined where a backslash hides their end."""
    pending = ""
    for line in text.split("\n"):
        if line.endswith("\\") and not line.endswith("\\\\") and len(pending) < 10_000:
            pending += line[:-1]
            continue
        yield pending + line
        pending = ""
    if pending:
        yield pending


class _Writer:
    """Writes the lines of a page: sections, paragraphs, and listings."""

    def __init__(self) -> None:
        self.out = Extract()
        self.title = ""
        self.rest: list[str] = []
        self._words: list[str] = []
        self._is_code = False
        self._is_heading = 0  # the level, if the heading is on the next line

    def line(self, line: str) -> None:
        if not line.startswith((".", "'")):
            self._text(plain_text(line))
            return
        match = _REQUEST.match(line)
        name, rest = (match[1] or "", match[2]) if match else ("", "")
        if name in ("TH", "Dt", "Dd"):
            self._page(name, _arguments(rest))
        elif name in ("SH", "Sh", "SS", "Ss"):
            self.flush()
            self._is_heading = 1 if name[1] in "Hh" else 2
            self._text(" ".join(_arguments(rest)))
        elif name in _BREAKS:
            self._break(name, rest)
        elif name in _HIDDEN:
            if name not in ('\\"', "\\#"):  # comments do not belong to the text
                self.rest.append(plain_text(rest))
        else:
            self._text(_macro(name, _arguments(rest)))

    def flush(self) -> None:
        lines, self._words = self._words, []
        if self._is_code:
            self.out.code("\n".join(lines), whole=False)
        else:
            self.out.paragraph(one_line(" ".join(lines)))

    def _page(self, name: str, arguments: list[str]) -> None:
        if name == "Dd":
            self.rest.append(" ".join(arguments))
        else:
            title, section, *more = [*arguments, "", ""]
            self.title = self.title or (f"{title}({section})" if section else title)
            self.rest += [title, section, *more]

    def _break(self, name: str, rest: str) -> None:
        if self._is_code and name in ("br", "sp", "in", "PP", "ti"):
            self._words.append("")
            self.rest.append(plain_text(rest))
            return
        self.flush()
        self._is_code = _CODE.get(name, self._is_code)
        if name in ("IP", "It", "D1", "Dl", "HP", "SY"):
            arguments = _arguments(rest)
            label = arguments[:1] if name == "IP" else [_macro("It", arguments)]
            self.rest += arguments[1:] if name == "IP" else []
            self._text(" ".join(label))
        else:
            self.rest.append(plain_text(rest))

    def _text(self, text: str) -> None:
        if self._is_heading and text.strip():
            self.out.heading(self._is_heading, text)
            self._is_heading = 0
        elif not text.strip() and not self._is_code:
            self.flush()
        else:
            self._words.append(text)


def _macro(name: str, arguments: list[str]) -> str:
    """The text of a macro: its arguments, with the quotes that it adds, and spaces between them
    unless it alternates two fonts. In `mdoc`, arguments may be macros as well."""
    if name not in _MDOC:
        return ("" if name in _ALTERNATING else " ").join(arguments)
    words: list[str] = []
    closing: list[str] = []
    flag = ""
    for part in (name, *arguments):
        if part in _ENCLOSING:
            opening, end = _ENCLOSING[part]
            words.append(opening)
            closing.append(end)
        elif part in _MDOC:
            flag = "-" if part == "Fl" else ""
        else:
            words.append(flag + part)
    text = " ".join([*words, *reversed(closing)])
    return _INNER_SPACE.sub(r"\1\2", text)


def _arguments(text: str) -> list[str]:
    pairs = _ARGUMENT.findall(text)
    found = (quoted.replace('""', '"') if quoted else bare for quoted, bare in pairs)
    return [plain_text(each) for each in found if each]


def plain_text(text: str) -> str:
    """The text without its escapes for fonts, sizes and spaces, and with special characters."""
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    special, long_special, *strings, simple = match.groups("")
    if name := special or long_special:
        if re.fullmatch("u[0-9A-F]{4,5}", name):
            return chr(int(name[1:], 16)).encode("utf-8", "replace").decode()
        return _CHARS.get(name, name)
    string: str | None
    if string := next(filter(None, strings), None):
        return _STRINGS.get(string, string)
    return _SIMPLE.get(simple, str(simple)) if simple else ""
