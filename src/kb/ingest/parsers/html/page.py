"""Converts a page into blocks: its main text, then its other text."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING, Any

from kb.ingest import dates, file_names
from kb.ingest.legacy_encodings import decode_guessed
from kb.ingest.parser_support.extract import Extract, one_line
from kb.ingest.parsers.html import tree as html_tree
from kb.ingest.parsers.html.rest import other_text
from kb.ingest.parsers.html.writer import HtmlWriter
from kb.ports import Parsed, Source
from kb.types import Attributes

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

_XML_SUFFIXES = frozenset({".xht", ".xhtml"})
_HEAD_BYTES = 8192
_CHARSET = re.compile(
    rb"""<meta[^>]{1,200}?charset\s*=\s*["']?\s*([\w:.+-]{1,40})"""
    rb"""|^\s*<\?xml[^>]{1,80}?encoding\s*=\s*["']([\w:.+-]{1,40})""",
    re.IGNORECASE,
)
# The encodings that browsers use for these labels (from the WHATWG encoding table).
_ENCODINGS = {
    "ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030", "iso-8859-1": "cp1252",
    "iso8859-1": "cp1252", "latin-1": "cp1252", "latin1": "cp1252", "shift_jis": "cp932",
    "shift-jis": "cp932", "us-ascii": "cp1252", "x-sjis": "cp932", "utf-16": "utf-8",
    "ks_c_5601-1987": "cp949", "euc-kr": "cp949", "big5": "big5hkscs",
    "iso-8859-8-i": "iso8859-8", "iso-8859-9": "cp1254", "latin5": "cp1254",
    "windows-31j": "cp932", "ks_c_5601": "cp949", "korean": "cp949", "x-mac-roman": "mac_roman",
    "macintosh": "mac_roman", "x-gbk": "gb18030",
}  # fmt: skip
_DATES = (
    "article:published_time", "datepublished", "date", "dc.date", "dcterms.date",
    "dcterms.created", "dc.date.issued", "citation_publication_date", "pubdate",
)  # fmt: skip
_TITLE_CHARS = 500
_SEPARATOR = re.compile(r"\s+(?:[|·»«•–—-]|::)\s+")


def parse_page(source: Source) -> Parsed:
    is_xml = file_names.suffix_of(source.name) in _XML_SUFFIXES
    page, note = decode_page(source.data)
    tree = html_tree.parse_html(page, xml=is_xml)
    out = Extract()
    written = write_main(tree, out, "")
    meta = _meta(tree)
    title = _title(tree, meta, out.first_heading)
    out.append_missing(other_text(tree, written), title or "")
    return Parsed(
        type="html",
        blocks=out.blocks,
        title=title or file_names.title_of(source.name),
        lang=_language(tree),
        attributes=_attributes(tree, meta),
        warnings=(*filter(None, [note]), *out.warnings),
        text=out.text,
    )


def write_main(tree: LexborHTMLParser, out: Extract, page: str | None = None) -> set[int]:
    """Write the main text of a page, or all its text if there is no main text. Returns the ids of
    the text nodes written. For `page`, see `HtmlWriter`."""
    if tree.root is None or tree.body is None:
        return set()
    weights = html_tree.Weights.measure(tree.root)
    root, is_marked = html_tree.main_element(tree, weights)
    if root is not None:
        noise = html_tree.Noise(weights, menus=not is_marked, inside=int(is_marked))
        writer = HtmlWriter(out, noise, page)
        writer.write(root)
        if out.blocks:
            return writer.written
    return _write_everything(tree, out, page, menus=True)


def write_page(
    tree: LexborHTMLParser, out: Extract, page: str | None = None, *, menus: bool = True
) -> list[str]:
    """Write the visible text of a page. Returns its other text, for `Extract.append_missing`.
    `menus` includes menus, which in books are tables of contents. For `page`, see `HtmlWriter`."""
    return other_text(tree, _write_everything(tree, out, page, menus=menus))


def _write_everything(
    tree: LexborHTMLParser, out: Extract, page: str | None, *, menus: bool
) -> set[int]:
    if tree.body is None:
        return set()
    weights = html_tree.Weights.measure(tree.body)
    writer = HtmlWriter(out, html_tree.Noise(weights, menus=not menus, boilerplate=False), page)
    writer.write(tree.body)
    return writer.written


# --- bytes into text ------------------------------------------------------------------------------


def decode_html(data: bytes) -> str:
    """Decode a page. Like a browser, never fails."""
    return decode_page(data)[0]


def decode_page(data: bytes) -> tuple[str, str | None]:
    """Decode a page by its byte order mark, its declaration, as UTF-8 or in a guessed encoding,
    whichever fits first. A guess comes with a note for the user."""
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):  # fmt: skip
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace"), None
    declared = _declared_encoding(data[:_HEAD_BYTES])
    if declared.lower() in ("utf-8", "utf8"):
        return decode_guessed(data)
    for encoding, errors in ((declared, "strict"), ("utf-8", "strict"), (declared, "replace")):
        try:
            return data.decode(encoding, errors), None
        except (LookupError, ValueError):
            continue
    return decode_guessed(data)


def _declared_encoding(head: bytes) -> str:
    match = _CHARSET.search(head)
    if match is None:
        # No mark and no declaration: ASCII in UTF-16 has a zero in every other byte.
        zeros = head[1:200:2].count(0)
        return "utf-16-le" if zeros > 40 or (head and zeros * 3 > len(head)) else "utf-8"
    return encoding_of((match[1] or match[2]).decode("ascii", "replace"))


def encoding_of(label: str) -> str:
    """The encoding that pages and mails use when they declare this label, which is often a superset
    of the declared one."""
    return _ENCODINGS.get(label.strip().lower(), label)


# --- attributes -----------------------------------------------------------------------------------


def _meta(tree: LexborHTMLParser) -> dict[str, str]:
    """The first value for each name of a meta element."""
    meta: dict[str, str] = {}
    for node in tree.css("meta"):
        attributes = node.attributes
        name = attributes.get("name") or attributes.get("property") or attributes.get("itemprop")
        content = one_line(attributes.get("content") or "")
        if name and content:
            meta.setdefault(name.lower(), content)
    return meta


def _title(tree: LexborHTMLParser, meta: dict[str, str], heading: str | None) -> str | None:
    """The title of the page, without the name of its site."""
    node = tree.css_first("head title") or tree.css_first("title")
    title = one_line(node.text()[:_TITLE_CHARS]) if node is not None else ""
    title = title or meta.get("og:title") or meta.get("citation_title") or heading or ""
    title = title[:_TITLE_CHARS]
    steps = _SEPARATOR.split(title)
    if len(steps) > 1:
        if heading and heading in _without_one_end(title):
            return heading
        if steps[-1].casefold() == meta.get("og:site_name", "").casefold():
            return title[: title.rindex(steps[-1])].rstrip(" |·»«•–—-:")
    return title or None


def _without_one_end(title: str) -> set[str]:
    """The title without a part at its beginning or end, where the site's name may be."""
    places = list(_SEPARATOR.finditer(title))
    return {title[: place.start()] for place in places} | {title[place.end() :] for place in places}


def _language(tree: LexborHTMLParser) -> str | None:
    """The language of the page: `en` for `en-GB`."""
    is_marked = tree.root.attributes if tree.root is not None else {}
    code = (is_marked.get("lang") or is_marked.get("xml:lang") or "").strip().lower()
    code = re.split("[-_]", code)[0]
    return code if re.fullmatch("[a-z]{2,3}", code) else None


def _attributes(tree: LexborHTMLParser, meta: dict[str, str]) -> Attributes:
    date = next((day for name in _DATES if (day := dates.parse(meta.get(name, "")))), None)
    metadata: dict[str, Any] = {}
    if author := meta.get("author") or meta.get("dc.creator") or meta.get("citation_author"):
        metadata["author"] = author
    if description := meta.get("description") or meta.get("og:description"):
        metadata["description"] = description
    if keywords := [word.strip() for word in meta.get("keywords", "").split(",")]:
        metadata |= {"keywords": words} if (words := [word for word in keywords if word]) else {}
    canonical = tree.css_first("link[rel=canonical]")
    url = (canonical.attributes.get("href") if canonical else None) or meta.get("og:url")
    if url and url.startswith(("http://", "https://")):
        metadata["url"] = url
    return Attributes(date=date, created_at=dates.moment(date) if date else None, metadata=metadata)
