"""Books in EPUB: their chapters in the order of reading."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element

from kb.ingest import dates, file_names
from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parser_support.extract import Extract, clean, one_line
from kb.ingest.parser_support.format_parser import FormatParser
from kb.ingest.parser_support.sections import paragraphs
from kb.ingest.parser_support.signatures import signature
from kb.ingest.parser_support.zip_archive import Archive, named, resolved
from kb.ingest.parsers.html import parser as html
from kb.ingest.parsers.html import tree as html_tree
from kb.ingest.parsers.html.rest import rest_of
from kb.metadata import TITLE_CHARS
from kb.ports import Parsed, Source
from kb.types import Attributes

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
# Fonts are often made unreadable for other programs; the text is not.
_FONTS_ONLY = frozenset({"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"})
_XML_PAGES = frozenset(
    {"application/x-dtbook+xml", "application/xhtml+xml", "application/xml", "image/svg+xml"}
)
_PAGES = _XML_PAGES | {"text/html", "text/x-oeb1-document"}
_PLAIN = "text/plain"
_WORDLESS = ("audio/", "font/", "image/", "video/")
_NOTES = ("title", "creator", "contributor", "publisher", "description", "subject")
_YEAR = re.compile(r"\d{4}")


class EpubParser(FormatParser):
    name = "epub"
    version = "3"
    signatures = frozenset({"epub", "zip"})

    def accepts(self, source: Source) -> bool:
        return file_names.suffix_of(source.name) == ".epub" or signature(source.data) == "epub"

    def parse(self, source: Source) -> Parsed:
        book = _Book(Archive(source.data))
        out = Extract()
        rest: list[str] = []
        for chapter, media_type in book.chapters():
            rest += _write(book, chapter, media_type, out)
        said = book.said
        title = said.get("title", "")
        out.rest((*rest, *book.labels, *book.notes), title[:TITLE_CHARS])
        date = _date(said.get("date", ""))
        metadata: dict[str, Any] = {
            key: said[key] for key in ("creator", "publisher", "identifier") if key in said
        }
        if "creator" in metadata:
            metadata["author"] = metadata.pop("creator")
        language = re.split("[-_]", said.get("language", "").lower())[0]
        return Parsed(
            type="epub",
            blocks=out.blocks,
            title=said.get("title") or file_names.title_of(source.name),
            lang=language if re.fullmatch("[a-z]{2,3}", language) else None,
            attributes=Attributes(
                date=date, created_at=dates.moment(date) if date else None, metadata=metadata
            ),
            warnings=(*book.warnings, *out.warnings),
            text=out.text,
        )


def _write(book: _Book, chapter: str, media_type: str, out: Extract) -> list[str]:
    """A chapter, under its own heading or, where it has none, under the one that the book's table
    of contents gives it. Returns what has no place in it."""
    data = book.archive.read(chapter)
    if data is None:
        book.warnings.append(f"{chapter} is not in the book")
        return []
    title = book.titles.get(chapter)
    if media_type == _PLAIN:
        out.heading(1, title or "")
        lines = clean(html.decode(data)).split("\n")
        for start, end in paragraphs(lines, 0, len(lines)):
            out.lines(lines[start:end])
        return []
    tree = html_tree.parse(html.decode(data), xml=media_type in _XML_PAGES)
    if title and tree.css_first("h1, h2, h3") is None:
        out.heading(1, title)
    return html.write_all(tree, out, menus=False)


def _date(text: str) -> str | None:
    """Books often say no more than the year."""
    return dates.parse(text) or (dates.parse(f"{text}-01-01") if _YEAR.fullmatch(text) else None)


class _Book:
    """What the package file of a book says."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.warnings: list[str] = []
        _refuse_encrypted(archive)
        self._path = _package_path(archive)
        package = archive.xml(self._path)
        if package is None:
            raise Unreadable(f"{self._path} is missing")
        self._package = package
        self._items = {item.get("id", ""): item for item in named(package, "item")}
        every = _metadata(package)
        self.said = {key: texts[0] for key, texts in every.items()}
        self.notes = [text for key in _NOTES for text in every.get(key, ())]
        titles = list(self._titles())
        self.titles = dict(titles)
        self.labels = [title for _, title in reversed(titles)]

    def chapters(self) -> Iterator[tuple[str, str]]:
        """Yield the names and media types of the parts in reading order; last the parts that are
        not in it but linked from others, such as notes."""
        references = [one.get("idref", "") for one in named(self._package, "itemref")]
        for identity in dict.fromkeys((*references, *self._items)):
            item = self._items.get(identity)
            if item is None or "nav" in item.get("properties", "").split():
                continue
            path = resolved(self._path, item.get("href", ""))
            media_type = item.get("media-type", "").lower()
            is_chapter = identity in references
            if media_type in _PAGES or media_type == _PLAIN:
                if is_chapter or path in self.archive:
                    yield path, media_type
            elif is_chapter and not media_type.startswith(_WORDLESS):
                self.warnings.append(f"{path} is not read: its type is {media_type or 'not known'}")

    def _titles(self) -> Iterator[tuple[str, str]]:
        """(part, title) by the tables of contents, the one of EPUB 3 after the one of EPUB 2. Both
        go backwards, so that the last title for a part is the first that they have for it."""
        for item in self._items.values():
            if item.get("media-type") == "application/x-dtbncx+xml":
                yield from self._ncx(resolved(self._path, item.get("href", "")))
        for item in self._items.values():
            if "nav" in item.get("properties", "").split():
                yield from self._nav(resolved(self._path, item.get("href", "")))

    def _ncx(self, path: str) -> Iterator[tuple[str, str]]:
        try:
            root = self.archive.xml(path)
        except Unreadable as error:  # the chapters can be read without it
            self.warnings.append(error.reason)
            return
        for point in reversed(named(root, "navPoint")):
            label, content = point.find("{*}navLabel/{*}text"), point.find("{*}content")
            if label is not None and content is not None:
                yield resolved(path, content.get("src", "")), one_line(label.text or "")

    def _nav(self, path: str) -> Iterator[tuple[str, str]]:
        data = self.archive.read(path)
        if data is None:
            return
        tree = html_tree.parse(html.decode(data), xml=True)
        self.notes += rest_of(tree, set())
        for link in reversed(tree.css("nav a[href]")):
            yield resolved(path, link.attributes.get("href") or ""), one_line(link.text())


def _package_path(archive: Archive) -> str:
    container = archive.xml(_CONTAINER)
    if container is None:
        raise Unreadable(f"not a book: it has no {_CONTAINER}")
    for root in named(container, "rootfile"):
        if path := root.get("full-path"):
            return path
    raise Unreadable(f"{_CONTAINER} names no package")


def _refuse_encrypted(archive: Archive) -> None:
    encryption = archive.xml(_ENCRYPTION)
    if encryption is None:
        return
    methods = {node.get("Algorithm", "") for node in named(encryption, "EncryptionMethod")}
    if methods - _FONTS_ONLY:
        raise Unsupported("encrypted: by a shop, for certain readers (DRM)")


def _metadata(package: Element) -> dict[str, list[str]]:
    """Return the texts of each Dublin Core element, by its name."""
    texts: dict[str, list[str]] = {}
    for node in package.iter():
        namespace, _, name = str(node.tag).rpartition("}")
        if namespace == "{http://purl.org/dc/elements/1.1/" and (text := one_line(node.text or "")):
            texts.setdefault(name, []).append(text)
    return texts
