"""Manual pages (roff with the macros of `man` or `mdoc`), by section."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

from kb.ingest import dates, file_names
from kb.ingest.decode import decode
from kb.ingest.parser_support.extract import Extract, one_line
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ingest.parser_support.roff import shown_lines
from kb.metadata import TITLE_CHARS
from kb.ports import Parsed, Source
from kb.types import Attributes

_SUFFIX = re.compile(r"\.(?:[1-9ln][a-z]{0,9}|man|mdoc|roff|me|ms|troff)", re.IGNORECASE)
_MACROS = re.compile(rb"^[.'][ \t]*(?:TH|Dd|Dt|SH|Sh)\b", re.MULTILINE)
_REQUEST = re.compile(r"[.'][ \t]*([A-Za-z0-9\[\]]{1,20}|\\\"|\\#)?[ \t]*(.*)", re.DOTALL)
_ARGUMENT = re.compile(r'"((?:[^"]|"")*)"?|(\S+)')
_ESCAPE = re.compile(
    r"""\\(?:
    f(?:\([\w-]{2}|\[[^\]\n]{0,40}\]|.) | s(?:[+-]?\d{1,2}|\([+-]?\d\d|\[[^\]\n]{0,10}\])
    | [mMFgkn](?:\(..|\[[^\]\n]{0,40}\]|.) | [hvwlLDoXAbBZ]'[^'\n]{0,200}' | N'(\d{1,7})'
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
_LETTERS = {
    "AE": "Æ", "ae": "æ", "OE": "Œ", "oe": "œ", "/O": "Ø", "/o": "ø", "/L": "Ł", "/l": "ł",
    "-D": "Ð", "Sd": "ð", "TP": "Þ", "Tp": "þ", ".i": "ı", "IJ": "Ĳ", "ij": "ĳ", "r!": "¡",
    "r?": "¿", "Po": "£", "Ye": "¥", "ct": "¢", "ps": "¶", "dg": "†", "dd": "‡", "12": "½",
    "14": "¼", "34": "¾", "+-": "±", "di": "÷", "==": "≡", "~=": "≅", "if": "∞", "sr": "√",
    "*S": "Σ", "mi": "−", "no": "¬", "mc": "µ", "%0": "‰", "fm": "′", "Bq": "„", "bq": "‚",
}  # fmt: skip
_ACCENTS = {"'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303", ":": "\u0308",
            ",": "\u0327", "v": "\u030c", "o": "\u030a"}  # fmt: skip
_GREEK = dict(zip("ABGDEZYHIKLMNCOPRSTUFXQWabgdezyhiklmncoprstufxqw",
                  "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩαβγδεζηθικλμνξοπρστυφχψω", strict=True))  # fmt: skip
# The strings of the macros of `man`, and those of `pod2man`, which its definitions draw.
_STRINGS = {"lq": "“", "rq": "”", "Tm": "™", "R": "®", "Aq": "'", 'L"': '"', 'R"': '"', "C`": '"',
            "C'": '"', "C+": "C++", "--": "--", "PI": "pi"}  # fmt: skip
_SIMPLE = {"-": "-", "e": "\\", "\\": "\\", "&": "", "|": "", "^": "", " ": " ", "~": "\xa0",
           "0": " ", "'": "´", "`": "`", ".": ".", "c": "", "%": "", "/": "", ",": "", ":": "",
           "t": "\t", "p": "", "d": "", "u": "", "r": "", "E": "\\", ")": "", "{": "",
           "}": ""}  # fmt: skip
_BREAKS = frozenset(
    """
    PP P LP IP TP TQ HP RS RE Pp Bl El Bd Ed It D1 Dl br sp nf fi EX EE SY YS in ti ne pp Vb Ve
    """.split()
)
# Requests whose arguments are measures, names of fonts and registers, or entries of an index.
_FORMATTING = frozenset(
    r"""
    \" \# ad af als als1 am aln Bk bp brp c2 cc ce cev cf cp cs cu da de di do ds DT EB EM EN EQ BB
    BM Ek ec el em eo ev fam fc fl fp ft hc hw hy hym hys ie ie1 if ig it IX kern lc lf lg ll ls lt
    mc mk mso na nh nm nn nr ns nx pc PD pev pi pl pm pn po ps rj rm rn rr rs rt Sm ss sv sy ta tc
    tkf tr uf ul vpt vs warn
    """.split()
)
_HIDDEN = frozenset("so tm Os".split())
_CELL_ENDS = re.compile(r"T\{|T\}(?:.T\{)?|[_=]")
_MAX_STRING_CHARS = 40  # of a string that the page defines
_CODE = {
    "nf": True,
    "EX": True,
    "Bd": True,
    "Vb": True,
    "Ve": False,
    "fi": False,
    "EE": False,
    "Ed": False,
}
_ENCLOSING = {"Dq": ("“", "”"), "Qq": ('"', '"'), "Sq": ("‘", "’"), "Op": ("[", "]"),
              "Pq": ("(", ")"), "Bq": ("[", "]"), "Aq": ("<", ">"),
              "Ql": ("'", "'")}  # fmt: skip
_INNER_SPACE = re.compile(r"([“‘\[(<]) | ([”’\])>.,;:])")
_ALTERNATING = frozenset({"BR", "RB", "BI", "IB", "IR", "RI", "SB"})
_PUNCTUATION = re.compile(r"[.,:;()\[\]?!|]")
_SYSTEMS = {"Ux": "UNIX", "Bx": "BSD", "Nx": "NetBSD", "Fx": "FreeBSD", "Ox": "OpenBSD"}
_MDOC = frozenset(
    """
    It Ar Cm Dv Er Ev Fa Fn Ft Ic Li Nm Pa Sx Sy Em Va Vt Xr Lk Mt An Tn Nd Ns No Fl Op Pq Dq Sq Qq
    Bq Aq Ql Cd In Bx Ux Nx Fx Ox Rv St Ex Dl D1 Lb Oo Oc Po Pc Ao Ac Bo Bc So Sc Do Dc Pf
    Xo Xc
    """.split()
)


class ManParser(FormatParser):
    name = "man"
    version = "3"
    priority = 1  # before the parsers for text and code

    def accepts(self, source: Source) -> bool:
        suffix = file_names.suffix_of(source.name)
        return bool(_SUFFIX.fullmatch(suffix) and _MACROS.search(source.data[:8192]))

    def parse(self, source: Source) -> Parsed:
        writer = _Writer()
        for line in shown_lines(decode(source.data)):
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


class _Writer:
    """Writes the lines of a page: sections, paragraphs, and listings."""

    def __init__(self) -> None:
        self.out = Extract()
        self.title = ""
        self.rest: list[str] = []
        self._words: list[str] = []
        self._name = ""
        self._strings = dict(_STRINGS)
        self._is_table_head = False  # the options and the formats of the columns
        self._is_code = False
        self._is_heading = 0  # the level, if the heading is on the next line

    def line(self, line: str) -> None:
        if self._is_table_head and not line.startswith("."):
            self._is_table_head = not line.rstrip().endswith(".")
        elif _CELL_ENDS.fullmatch(line):
            self.flush()
        elif not line.startswith((".", "'")):
            self._text(plain_text(line, self._strings))
        else:
            self._request(line)

    def _request(self, line: str) -> None:
        match = _REQUEST.match(line)
        name, rest = (match[1] or "", match[2]) if match else ("", "")
        if name in ("TH", "Dt", "Dd"):
            self._page(name, self._arguments(rest))
        elif name in ("SH", "Sh", "SS", "Ss"):
            self.flush()
            self._is_heading = 1 if name[1] in "Hh" else 2
            self._text(" ".join(self._arguments(rest)))
        elif name in ("ds", "as"):
            self._define(name, *rest.partition(" ")[::2])
        elif name in ("TS", "TE", "T&"):
            self.flush()
            self._is_table_head = name != "TE"
        elif name in _FORMATTING:
            return
        elif name in _BREAKS:
            self._break(name, rest)
        elif name in _HIDDEN:
            self.rest.append(plain_text(rest, self._strings))
        else:
            arguments = self._arguments(rest)
            if name == "Nm":
                arguments = self._page_name(arguments)
            if text := _macro(name, arguments):
                self._text(text)

    def _page_name(self, arguments: list[str]) -> list[str]:
        """The arguments of a request for the name of the page, which its first use sets."""
        if arguments and not _PUNCTUATION.fullmatch(arguments[0]):
            self._name = self._name or arguments[0]
            return arguments
        return [self._name, *arguments] if self._name else arguments

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

    def _define(self, request: str, name: str, value: str) -> None:
        """Define a string, such as a quotation mark, that lines refer to by its name, or append to
        it."""
        value = plain_text(value.lstrip().removeprefix('"'), self._strings)
        if request == "as":
            value = self._strings.get(name, "") + value
        if len(value) <= _MAX_STRING_CHARS and name not in _STRINGS:
            self._strings[name] = value

    def _break(self, name: str, rest: str) -> None:
        if self._is_code and name in ("br", "sp", "in", "PP", "ti"):
            self._words.append("")
            return
        self.flush()
        self._is_code = _CODE.get(name, self._is_code)
        if name == "IP":
            self._text(" ".join(self._arguments(rest)[:1]))  # the second is an indentation
        elif name in ("It", "D1", "Dl", "SY"):
            self._text(_macro("It", self._arguments(rest)))

    def _arguments(self, text: str) -> list[str]:
        pairs = _ARGUMENT.findall(text)
        found = (quoted.replace('""', '"') if quoted else bare for quoted, bare in pairs)
        return [plain_text(each, self._strings) for each in found if each]

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
    if name == "Xr" and len(arguments) > 1 and arguments[1].isalnum():
        page, section, *rest = arguments
        return _INNER_SPACE.sub(r"\1\2", " ".join([f"{page}({section})", *rest]))
    words: list[str] = []
    closing: list[str] = []
    flag = ""
    for part in (name, *arguments):
        if part in _ENCLOSING:
            opening, end = _ENCLOSING[part]
            words.append(opening)
            closing.append(end)
        elif part in _SYSTEMS:
            words.append(_SYSTEMS[part])
        elif part in _MDOC:
            flag = "-" if part == "Fl" else ""
        else:
            words.append(flag + part)
    text = " ".join([*words, *reversed(closing)])
    return _INNER_SPACE.sub(r"\1\2", text)


def plain_text(text: str, strings: Mapping[str, str] = _STRINGS) -> str:
    """The text without its escapes for fonts, sizes and spaces, and with special characters and
    strings."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: _character(match, strings), text)


def _character(match: re.Match[str], strings: Mapping[str, str]) -> str:
    number, special, long_special, *names, simple = match.groups("")
    if number:
        return _char(int(number))
    if name := special or long_special:
        return _named_character(name)
    string: str | None
    if string := next(filter(None, names), None):
        return strings.get(string, string)
    return _SIMPLE.get(simple, str(simple)) if simple else ""


def _named_character(name: str) -> str:
    if known := _CHARS.get(name) or _LETTERS.get(name):
        return known
    if re.fullmatch("u[0-9A-F]{4,6}(?:_[0-9A-F]{4,6})*", name):
        points = (int(each, 16) for each in name[1:].split("_"))
        return unicodedata.normalize("NFC", "".join(map(_char, points)))
    if re.fullmatch(r"char\d{1,7}", name):
        return _char(int(name[4:]))
    if len(name) == 2 and name[0] == "*":
        return _GREEK.get(name[1], name)
    if len(name) == 2 and name[0] in _ACCENTS and name[1].isalpha():
        letter = unicodedata.normalize("NFC", name[1] + _ACCENTS[name[0]])
        return letter if len(letter) == 1 else name
    return name


def _char(number: int) -> str:
    return chr(number).encode("utf-8", "replace").decode() if number <= 0x10FFFF else ""
