"""EPUB books: the chapters in reading order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element

from kb.ingest import dates, file_names
from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parser_support.extract import Extract, clean, one_line
from kb.ingest.parser_support.sections import paragraphs
from kb.ingest.parser_support.zip_archive import Archive, find_all, resolve_href
from kb.ingest.parsers.html import page as html
from kb.ingest.parsers.html import tree as html_tree
from kb.ingest.parsers.html.rest import other_text
from kb.metadata import TITLE_CHARS
from kb.ports import Parsed, Source
from kb.types import Attributes

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"
# Obfuscated fonts do not affect the text.
_FONTS_ONLY = frozenset({"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"})
_XML_PAGES = frozenset(
    {"application/x-dtbook+xml", "application/xhtml+xml", "application/xml", "image/svg+xml"}
)
_PAGE_TYPES = _XML_PAGES | {"text/html", "text/x-oeb1-document"}
_PLAIN = "text/plain"
_WORDLESS = ("audio/", "font/", "image/", "video/")
_SEARCHABLE = ("title", "creator", "contributor", "publisher", "description", "subject")
_YEAR = re.compile(r"\d{4}")


def parse_book(source: Source) -> Parsed:
    book = _Book(Archive(source.data))
    out = Extract()
    rest: list[str] = []
    for chapter, media_type in book.chapters():
        rest += _write(book, chapter, media_type, out)
    properties = book.metadata
    title = properties.get("title", "")
    out.append_missing((*rest, *book.labels, *book.notes), title[:TITLE_CHARS])
    date = _date(properties.get("date", ""))
    metadata: dict[str, Any] = {
        key: properties[key] for key in ("creator", "publisher", "identifier") if key in properties
    }
    if "creator" in metadata:
        metadata["author"] = metadata.pop("creator")
    language = re.split("[-_]", properties.get("language", "").lower())[0]
    return Parsed(
        type="epub",
        blocks=out.blocks,
        title=properties.get("title") or file_names.title_of(source.name),
        lang=language if re.fullmatch("[a-z]{2,3}", language) else None,
        attributes=Attributes(
            date=date, created_at=dates.moment(date) if date else None, metadata=metadata
        ),
        warnings=(*book.warnings, *out.warnings),
        text=out.text,
    )


def _write(book: _Book, chapter: str, media_type: str, out: Extract) -> list[str]:
    """Write a chapter under its own heading or, without one, under its title in the table of
    contents. Returns its other text, as `write_page` does."""
    data = book.archive.read(chapter)
    if data is None:
        book.warnings.append(f"{chapter} is missing from the book")
        return []
    title = book.titles.get(chapter)
    out.place = chapter
    if media_type == _PLAIN:
        out.heading(1, title or "")
        lines = clean(html.decode_html(data)).split("\n")
        for start, end in paragraphs(lines, 0, len(lines)):
            out.lines(lines[start:end])
        return []
    tree = html_tree.parse_html(html.decode_html(data), xml=media_type in _XML_PAGES)
    if title and tree.css_first("h1, h2, h3") is None:
        out.heading(1, title)
    return html.write_page(tree, out, chapter, menus=False)


def _date(text: str) -> str | None:
    """Parse a date, which is often only a year in books."""
    return dates.parse(text) or (dates.parse(f"{text}-01-01") if _YEAR.fullmatch(text) else None)


class _Book:
    """The package file of a book: metadata, chapters and titles."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.warnings: list[str] = []
        _refuse_encrypted(archive)
        self._path = _package_path(archive)
        package = archive.xml(self._path)
        if package is None:
            raise Unreadable(f"{self._path} is missing")
        self._package = package
        self._items = {item.get("id", ""): item for item in find_all(package, "item")}
        every = _metadata(package)
        self.metadata = {key: texts[0] for key, texts in every.items()}
        self.notes = [text for key in _SEARCHABLE for text in every.get(key, ())]
        titles = list(self._titles())
        self.titles = dict(titles)
        self.labels = [title for _, title in reversed(titles)]

    def chapters(self) -> Iterator[tuple[str, str]]:
        """Yield the names and media types of the parts in reading order, followed by parts that
        only other parts link to, such as notes."""
        references = [item.get("idref", "") for item in find_all(self._package, "itemref")]
        seen = set[str]()
        for identity in dict.fromkeys((*references, *self._items)):
            item = self._items.get(identity)
            if item is None or "nav" in item.get("properties", "").split():
                continue
            path = resolve_href(self._path, item.get("href", ""))
            if path in seen:  # several items may share a part
                continue
            seen.add(path)
            media_type = item.get("media-type", "").lower()
            is_chapter = identity in references
            if media_type in _PAGE_TYPES or media_type == _PLAIN:
                if is_chapter or path in self.archive:
                    yield path, media_type
            elif is_chapter and not media_type.startswith(_WORDLESS):
                self.warnings.append(f"{path} is not read: its type is {media_type or 'not known'}")

    def _titles(self) -> Iterator[tuple[str, str]]:
        """Yield (part, title) from the tables of contents: first from that of EPUB 2, then from
        that of EPUB 3. Each is in reverse order, so that the first title of a part comes last and
        overrides the others."""
        for item in self._items.values():
            if item.get("media-type") == "application/x-dtbncx+xml":
                yield from self._ncx(resolve_href(self._path, item.get("href", "")))
        for item in self._items.values():
            if "nav" in item.get("properties", "").split():
                yield from self._nav(resolve_href(self._path, item.get("href", "")))

    def _ncx(self, path: str) -> Iterator[tuple[str, str]]:
        try:
            root = self.archive.xml(path)
        except Unreadable as error:  # the chapters are readable without it
            self.warnings.append(error.reason)
            return
        for point in reversed(find_all(root, "navPoint")):
            label, content = point.find("{*}navLabel/{*}text"), point.find("{*}content")
            if label is not None and content is not None:
                yield resolve_href(path, content.get("src", "")), one_line(label.text or "")

    def _nav(self, path: str) -> Iterator[tuple[str, str]]:
        data = self.archive.read(path)
        if data is None:
            return
        tree = html_tree.parse_html(html.decode_html(data), xml=True)
        self.notes += other_text(tree, set())
        for link in reversed(tree.css("nav a[href]")):
            yield resolve_href(path, link.attributes.get("href") or ""), one_line(link.text())


def _package_path(archive: Archive) -> str:
    container = archive.xml(_CONTAINER)
    if container is None:
        raise Unreadable(f"not an EPUB book: {_CONTAINER} is missing")
    for root in find_all(container, "rootfile"):
        if path := root.get("full-path"):
            return path
    raise Unreadable(f"{_CONTAINER} names no package")


def _refuse_encrypted(archive: Archive) -> None:
    encryption = archive.xml(_ENCRYPTION)
    if encryption is None:
        return
    methods = {node.get("Algorithm", "") for node in find_all(encryption, "EncryptionMethod")}
    if methods - _FONTS_ONLY:
        raise Unsupported("encrypted: protected by DRM")


def _metadata(package: Element) -> dict[str, list[str]]:
    """Return the texts of each Dublin Core element, by its name."""
    texts: dict[str, list[str]] = {}
    for node in package.iter():
        namespace, _, name = str(node.tag).rpartition("}")
        if namespace == "{http://purl.org/dc/elements/1.1/" and (text := one_line(node.text or "")):
            texts.setdefault(name, []).append(text)
    return texts
