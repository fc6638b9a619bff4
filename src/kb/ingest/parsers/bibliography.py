"""Bibliographies: BibTeX, RIS and CSL-JSON files, entry by entry.

The lines of an entry stay as they are, so that a citation opens the entry in the file. Its heading
has the authors, the year and the title, with LaTeX accents as letters.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote

from kb.ingest import file_names
from kb.ingest.decode import decode
from kb.ingest.parser_support.extract import one_line
from kb.ingest.parser_support.format_parser import SMALL_BYTES, FormatParser
from kb.ingest.parser_support.sections import HEADING_CHARS, line_block, paragraphs
from kb.ingest.parsers.markdown import LINKS
from kb.ports import Parsed, Source
from kb.text.wikilinks import MAX_LINKS, link_key
from kb.types import Attributes, Block

_ENTRY = re.compile(r"[ \t]*@[A-Za-z]+[ \t]*[{(]")
_PREAMBLE = re.compile(r"[ \t]*@(?:comment|preamble|string)\b", re.IGNORECASE)
_FIELD = re.compile(
    r"^[ \t]*(?:@\w+[ \t]*[{(][^,]*,[ \t]*)?(author|editor|title|year|date)[ \t]*=[ \t]*(.*)",
    re.IGNORECASE,
)
_INLINE = re.compile(
    r"[,{][ \t]*(author|editor|title|year|date)[ \t]*=[ \t]*([{\"])", re.IGNORECASE
)
_TAG = re.compile(r"([A-Z][A-Z0-9])  ?- ?(.*)")
_TAGS = {
    "AU": "author", "A1": "author", "ED": "editor", "TI": "title", "T1": "title", "PY": "year",
    "Y1": "year", "DA": "year",
}  # fmt: skip
_YEAR = re.compile(r"\d{4}")
_AND = re.compile(r"\s+and\s+")
_MAX_AUTHORS = 5
_MAX_VALUE_LINES = 50
_JSON_LIST = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[\s*\{")
_JSON_NAMES = re.compile(rb'"(?:issued|container-title|author|editor|citation-key)"\s*:')
_JSON_TYPES = re.compile(
    rb'"type"\s*:\s*"(?:article|article-(?:journal|magazine|newspaper)|book|bill|chapter|dataset'
    rb"|document|entry(?:-\w+)?|figure|interview|legal_case|manuscript|map|motion_picture|pamphlet"
    rb"|paper-conference|patent|personal_communication|post(?:-weblog)?|report|review(?:-book)?"
    rb'|software|song|speech|thesis|treaty|webpage)"'
)
_GAP = re.compile(r"[\s,\[]*")

# LaTeX accents, as combining characters.
_ACCENTS = {
    "`": "\u0300", "'": "\u0301", "^": "\u0302", "~": "\u0303", "=": "\u0304", "u": "\u0306",
    ".": "\u0307", '"': "\u0308", "r": "\u030a", "H": "\u030b", "v": "\u030c", "c": "\u0327",
    "k": "\u0328", "d": "\u0323", "b": "\u0331",
}  # fmt: skip
_LETTERS = {
    "ss": "ß", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "aa": "å", "AA": "Å", "o": "ø",
    "O": "Ø", "l": "ł", "L": "Ł", "i": "ı", "j": "ȷ", "dh": "ð", "th": "þ",
}  # fmt: skip
_SIGN_ACCENT = re.compile(r"\\([`'^~=.\"])\s?\{?\s?(\\[ij]|[A-Za-z])\s?\}?")
_LETTER_ACCENT = re.compile(r"\\([uvHckdbr])(?:\s?\{\s?(\\[ij]|[A-Za-z])\s?\}|\s(\\[ij]|[A-Za-z]))")
_LETTER = re.compile(r"\\(ss|ae|AE|oe|OE|aa|AA|dh|th|[oOlLij])(?![A-Za-z])\s?(?:\{\})?")
_COMMAND = re.compile(r"\\-|\\[A-Za-z]+\s?|\\(?=[&%$#_{}])")


_FILES = re.compile(
    r"\bfile[ \t]*=[ \t]*[{\"]([^{}\"\n]{1,2000})"
    r"|^L[14]  ?- ?([^\n]{1,2000})"
    r"|\"(?:file|path|pdf)\"[ \t]*:[ \t]*\"([^\"\n]{1,2000})\"",
    re.IGNORECASE | re.MULTILINE,
)
_FILE_SUFFIXES = (".pdf", ".epub", ".djvu", ".html")


class BibliographyParser(FormatParser):
    name = "bibliography"
    version = "3"
    priority = 1  # before the code parser, which reads other JSON
    max_local_bytes = SMALL_BYTES

    def accepts(self, source: Source) -> bool:
        suffix, head = file_names.suffix_of(source.name), source.data[:8192]
        if suffix == ".json":
            return all(part.search(head) for part in (_JSON_TYPES, _JSON_NAMES)) and bool(
                _JSON_LIST.match(head)
            )
        return suffix in (".bib", ".ris")

    def parse(self, source: Source) -> Parsed:
        text = decode(source.data)
        lines = text.split("\n")
        entries: Iterator[tuple[int, int]]
        match file_names.suffix_of(source.name):
            case ".ris":
                entries, read = _ris_entries(lines), _ris_fields
            case ".json":
                entries, read = _json_entries(text), _json_fields
            case _:
                entries, read = _bibtex_entries(lines), _bibtex_fields
        return Parsed(
            type="reference",
            blocks=list(_blocks(lines, entries, read)),
            title=file_names.title_of(source.name),
            attributes=Attributes(metadata={LINKS: links} if (links := _links(text)) else {}),
        )


def _blocks(
    lines: Sequence[str],
    entries: Iterator[tuple[int, int]],
    read: Callable[[Sequence[str]], dict[str, list[str]]],
) -> Iterator[Block]:
    """Yield a block for each entry, and the paragraphs between entries."""
    at = 0
    for start, end in entries:
        yield from _others(lines, at, start)
        heading = _heading(read(lines[start:end]))
        path = (heading,) if heading else ()
        block = line_block(lines, start, end, heading_path=path, atomic=True, boundary=True)
        if block is not None:
            yield block
        at = end
    yield from _others(lines, at, len(lines))


def _others(lines: Sequence[str], start: int, end: int) -> Iterator[Block]:
    for first, last in paragraphs(lines, start, end):
        if (block := line_block(lines, first, last, boundary=True)) is not None:
            yield block


def _links(text: str) -> list[str]:
    """The keys of the links to the files of the references, in the fields that reference managers
    write: `file` in BibTeX, `L1` in RIS, `file` and `path` in JSON."""
    paths = (
        path
        for field in _FILES.finditer(text)
        for path in _file_paths(field[1] or field[2] or field[3])
    )
    return list(dict.fromkeys(key for path in paths if (key := link_key(path))))[:MAX_LINKS]


def _file_paths(value: str) -> Iterator[str]:
    """Yield the paths in a field such as `Full text:papers/a.pdf:application/pdf;b.pdf`."""
    for part in re.split(r"(?<!\\)[:;]", value):
        path = unquote(part.replace("\\:", ":").replace("\\\\", "/").replace("\\", "").strip())
        if path.lower().endswith(_FILE_SUFFIXES):
            # Only the name of an absolute path is the same on every machine.
            is_absolute = path.startswith(("/", "~")) or ":" in path
            yield path.replace("\\", "/").rpartition("/")[2] if is_absolute else path


# --- entries --------------------------------------------------------------------------------------


def _bibtex_entries(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the line ranges of entries. An entry ends with its closing brace, or before the next
    entry if the brace is missing."""
    at = 0
    while at < len(lines):
        if not _ENTRY.match(lines[at]) or _PREAMBLE.match(lines[at]):
            at += 1
            continue
        end, depth = at, 0
        while end < len(lines):
            if end > at and _ENTRY.match(lines[end]):
                break
            depth += lines[end].count("{") - lines[end].count("}")
            end += 1
            if depth <= 0 and ("}" in lines[end - 1] or ")" in lines[end - 1]):
                break
        yield at, end
        at = end


def _ris_entries(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the line ranges of entries, from `TY` to `ER`."""
    start: int | None = None
    for number, line in enumerate(lines):
        if line.startswith("TY  -"):
            if start is not None:
                yield start, number
            start = number
        elif line.startswith("ER  -") and start is not None:
            yield start, number + 1
            start = None
    if start is not None:
        yield start, len(lines)


def _json_entries(text: str) -> Iterator[tuple[int, int]]:
    """Yield the line ranges of the objects in a list; objects that share a line are one entry."""
    decoder = json.JSONDecoder()
    at = line = 0
    range_: tuple[int, int] | None = None
    while (gap := _GAP.match(text, at)) and text.startswith("{", gap.end()):
        start = line + text.count("\n", at, gap.end())
        try:
            end_at = decoder.raw_decode(text, gap.end())[1]
        except (ValueError, RecursionError):
            break
        end = start + text.count("\n", gap.end(), end_at) + 1
        if range_ is not None and start < range_[1]:
            range_ = (range_[0], end)
        else:
            if range_ is not None:
                yield range_
            range_ = (start, end)
        at, line = end_at, end - 1
    if range_ is not None:
        yield range_


# --- fields ---------------------------------------------------------------------------------------


def _bibtex_fields(lines: Sequence[str]) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for number, line in enumerate(lines):
        if (match := _FIELD.match(line)) and match[1].lower() not in fields:
            value = _value("\n".join([match[2], *lines[number + 1 : number + _MAX_VALUE_LINES]]))
            fields[match[1].lower()] = _AND.split(plain_text(value))
        for match in _INLINE.finditer(line):  # several fields on one line
            if match[1].lower() not in fields:
                fields[match[1].lower()] = _AND.split(plain_text(_value(line[match.start(2) :])))
    return fields


def _value(text: str) -> str:
    """The value at the beginning of `text`: in braces, in quotes, or a single word."""
    if text[:1] == "{":
        depth = 0
        for at, char in enumerate(text):
            depth += (char == "{") - (char == "}")
            if depth == 0:
                return text[1:at]
        return text[1:]
    if text[:1] == '"':
        end = re.search(r'(?<!\\)"\s*(?:,|\}|\n|$)', text[1:])
        return text[1 : end.start() + 1] if end else text[1:]
    return re.split(r"[,}\n]", text, maxsplit=1)[0]


def _ris_fields(lines: Sequence[str]) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for line in lines:
        if (match := _TAG.match(line)) and match[1] in _TAGS and match[2].strip():
            fields.setdefault(_TAGS[match[1]], []).append(one_line(match[2]))
    return fields


def _json_fields(lines: Sequence[str]) -> dict[str, list[str]]:
    """The fields of a single entry; none if several entries share a line."""
    try:
        item = json.loads("\n".join(lines).strip().strip("[],").strip())
    except (ValueError, RecursionError):
        return {}
    if not isinstance(item, dict):
        return {}
    fields = {kind: _json_names(item.get(kind)) for kind in ("author", "editor")}
    title = item.get("title")
    fields["title"] = [one_line(title)] if isinstance(title, str) else []
    fields["year"] = [_json_year(item.get("issued"))]
    return fields


def _json_names(people: Any) -> list[str]:
    names: list[str] = []
    for person in people if isinstance(people, list) else ():
        parts = [person.get(key) for key in ("family", "given")] if isinstance(person, dict) else []
        known = [one_line(part) for part in parts if isinstance(part, str)]
        literal = person.get("literal") if isinstance(person, dict) else None
        if known:
            names.append(", ".join(known) + "," * (len(known) == 1))
        elif isinstance(literal, str):
            names.append(f"{one_line(literal)},")
    return names


def _json_year(issued: Any) -> str:
    parts = issued.get("date-parts") if isinstance(issued, dict) else None
    return json.dumps(parts or issued)[:100]


def _heading(fields: dict[str, list[str]]) -> str:
    """The heading of an entry: `Noether, Klein 1918: Invariante Variationsprobleme`."""
    people = fields.get("author") or fields.get("editor") or []
    names = [name.partition(",")[0] if "," in name else name.rpartition(" ")[2] for name in people]
    more = " et al." if len(names) > _MAX_AUTHORS else ""
    year = _YEAR.search(" ".join(fields.get("year") or fields.get("date") or []))
    who = one_line(f"{', '.join(names[:_MAX_AUTHORS])}{more} {year[0] if year else ''}")
    title = one_line(" and ".join(fields.get("title", [])))
    return ": ".join(filter(None, (who, title)))[:HEADING_CHARS]


def plain_text(value: str) -> str:
    """Convert LaTeX to text: accents and special letters become characters, braces and commands are
    removed."""
    value = _SIGN_ACCENT.sub(lambda match: _add_accent(match[2], match[1]), value)
    value = _LETTER_ACCENT.sub(lambda match: _add_accent(match[2] or match[3], match[1]), value)
    value = _LETTER.sub(lambda match: _LETTERS[match[1]], value)
    value = _COMMAND.sub("", value).replace("~", " ").replace("--", "–")
    return one_line(unicodedata.normalize("NFC", value.replace("{", "").replace("}", "")))


def _add_accent(letter: str, accent: str) -> str:
    return letter.removeprefix("\\") + _ACCENTS[accent]
