from __future__ import annotations

import sys

import pytest

from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parse import Parsers
from kb.ingest.parsers.epub import EpubParser
from kb.ports import Parsed, Source
from tests.ingest.parsers.archives import zipped
from tests.ingest.parsers.mutations import check_parsed, check_survives

CONTAINER = """<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
  <rootfile full-path="OEBPS/book.opf"/></rootfiles></container>"""
PACKAGE = """<package xmlns="http://www.idpf.org/2007/opf">
  <metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
    <dc:title>The book</dc:title><dc:creator>A. Writer</dc:creator>
    <dc:language>en-US</dc:language><dc:date>1999</dc:date></metadata>
  <manifest>
    <item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>
    <item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>
    <item id="two" href="text/two%20b.xhtml" media-type="application/xhtml+xml"/>
    <item id="one" href="text/one.xhtml" media-type="application/xhtml+xml"/>
    <item id="pic" href="pic.png" media-type="image/png"/>
  </manifest>
  <spine><itemref idref="nav"/><itemref idref="one"/><itemref idref="pic"/>
    <itemref idref="two"/><itemref idref="unheard-of"/></spine></package>"""
NAV = """<html xmlns:epub="x"><nav epub:type="toc"><ol><li><a href="text/one.xhtml">One</a></li>
  <li><a href="text/two%20b.xhtml">Chapter two</a>
  <ol><li><a href="text/two%20b.xhtml#later">Later</a></li></ol></li></ol></nav></html>"""
NCX = """<!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "http://x/ncx-2005-1.dtd">
  <ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap><navPoint><navLabel><text>Two by NCX
  </text></navLabel><content src="text/two%20b.xhtml"/></navPoint></navMap></ncx>"""
ONE = "<?xml version='1.0' encoding='utf-8'?><html><body><h1>Chapter one</h1><p>It began.</p>"
TWO = "<html><head><title>x</title></head><body><p>It “ended”.</p></body></html>"


def parts() -> dict[str, str | bytes]:
    return {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": CONTAINER,
        "OEBPS/book.opf": PACKAGE,
        "OEBPS/nav.xhtml": NAV,
        "OEBPS/toc.ncx": NCX,
        "OEBPS/text/one.xhtml": ONE,
        "OEBPS/text/two b.xhtml": TWO,
    }


parser = EpubParser()


def parse(every: dict[str, str | bytes]) -> Parsed:
    return parser.parse(Source("some-book.epub", zipped(every)))


def test_a_book_in_the_order_of_reading() -> None:
    parsed = parse(parts())
    assert check_parsed(parsed, b"") == (
        "# Chapter one\n\nIt began.\n\n# Chapter two\n\nIt “ended”.\n\n"
        "x\nLater\nTwo by NCX\nA. Writer"
    )
    assert (parsed.type, parsed.title, parsed.lang) == ("epub", "The book", "en")
    assert parsed.attributes.date == "1999-01-01"
    assert parsed.attributes.metadata == {"author": "A. Writer"}
    assert [block.heading_path for block in parsed.blocks][-1] == ("Chapter two",)


def test_chapter_titles_of_epub_2() -> None:
    every = parts()
    every["OEBPS/book.opf"] = PACKAGE.replace(' properties="nav"', "")
    assert "# Two by NCX" in check_parsed(parse(every), b"")


def test_a_table_of_contents_follows_the_text() -> None:
    links = "".join(f"<li><a href=x>Chapter {n}</a></li>" for n in range(9))
    parsed = parse(parts() | {"OEBPS/text/one.xhtml": f"<h1>Contents</h1><ul>{links}</ul>"})
    text = check_parsed(parsed, b"")
    assert text.index("It “ended”.") < text.index("Chapter 3")


def test_parts_without_a_place_in_the_book_are_read() -> None:
    package = PACKAGE.replace(
        "</manifest>",
        "<item id='n' href='text/notes.xhtml' media-type='application/xhtml+xml'/></manifest>",
    )
    described = package.replace(
        "</metadata>", "<dc:description>Of tides</dc:description></metadata>"
    )
    notes = "<h1>Notes</h1><p hidden>Zacharias saw it.</p>"
    parsed = parse(parts() | {"OEBPS/book.opf": described, "OEBPS/text/notes.xhtml": notes})
    text = check_parsed(parsed, b"")
    assert text.index("It “ended”.") < text.index("# Notes") < text.index("Zacharias saw it.")
    assert "Of tides" in text


def test_a_missing_chapter_is_a_warning() -> None:
    every = parts()
    del every["OEBPS/text/one.xhtml"]
    parsed = parse(every)
    assert parsed.warnings == ("OEBPS/text/one.xhtml is missing from the book",)
    assert "ended" in check_parsed(parsed, b"")


def test_a_broken_table_of_contents_is_a_warning() -> None:
    parsed = parse(parts() | {"OEBPS/toc.ncx": "<ncx>"})
    assert "not valid XML" in parsed.warnings[0]


@pytest.mark.parametrize("name", ["META-INF/container.xml", "OEBPS/book.opf"])
def test_a_missing_index_is_refused(name: str) -> None:
    every = parts()
    del every[name]
    with pytest.raises(Unreadable):
        parse(every)


def encryption(algorithm: str) -> str:
    method = f'<EncryptionMethod Algorithm="{algorithm}"/>'
    return f"<encryption><EncryptedData>{method}</EncryptedData></encryption>"


def test_drm_is_named() -> None:
    aes = encryption("http://www.w3.org/2001/04/xmlenc#aes128-cbc")
    with pytest.raises(Unsupported, match=r"^encrypted: .*DRM"):
        parse(parts() | {"META-INF/encryption.xml": aes})
    fonts = encryption("http://www.idpf.org/2008/embedding")
    assert parse(parts() | {"META-INF/encryption.xml": fonts}).blocks


def test_a_bomb_is_refused() -> None:
    with pytest.raises(Unreadable, match="too large when unpacked"):
        parse(parts() | {"OEBPS/text/one.xhtml": b" " * 20_000_000})


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "selectolax.lexbor", None)
    with pytest.raises(Unsupported, match="to read it, run: pip install"):
        parse(parts())


@pytest.mark.parametrize("name", ["a.epub", "a.txt", "a.zip", "a.docx"])
def test_detected(name: str) -> None:
    found = Parsers(1800, []).detect(Source(name, zipped(parts())))
    assert found is not None
    assert found.name == "epub"


@pytest.mark.parametrize("data", [b"", b"text", zipped(parts())[:200]])
def test_a_broken_file_is_refused(data: bytes) -> None:
    with pytest.raises(Unreadable):
        parser.parse(Source("a.epub", data))


def test_damage() -> None:
    check_survives(parser, "a.epub", zipped(parts()))


def test_a_self_closed_script_does_not_hide_a_chapter() -> None:
    head = "<html><head><script src='x.js'/><title/></head>"
    text = check_parsed(parse(parts() | {"OEBPS/text/one.xhtml": f"{head}<p>words</p>"}), b"")
    assert "words" in text


def test_a_chapter_that_is_plain_text() -> None:
    every = parts()
    plain = PACKAGE.replace(
        'href="text/one.xhtml" media-type="application/xhtml+xml"',
        'href="text/one.txt" media-type="text/plain"',
    )
    every |= {"OEBPS/book.opf": plain, "OEBPS/text/one.txt": "Plain <words>\n\nmore words"}
    assert check_parsed(parse(every), b"").startswith(
        "Plain <words>\n\nmore words\n\n# Chapter two"
    )


def test_a_chapter_of_another_type_is_named() -> None:
    package = PACKAGE.replace("image/png", "application/pdf")
    assert parse(parts() | {"OEBPS/book.opf": package}).warnings == (
        "OEBPS/pic.png is not read: its type is application/pdf",
    )


def test_every_author_and_subject_can_be_found() -> None:
    more = (
        "<dc:creator>B. Other</dc:creator><dc:subject>ice</dc:subject><dc:subject>snow</dc:subject>"
    )
    package = PACKAGE.replace("</metadata>", f"{more}</metadata>")
    nav = NAV.replace("<nav", "<h1>Overview</h1><nav")
    text = check_parsed(parse(parts() | {"OEBPS/book.opf": package, "OEBPS/nav.xhtml": nav}), b"")
    for word in ("Other", "ice", "snow", "Overview"):
        assert word in text


def test_a_part_that_several_items_name_is_read_once() -> None:
    every = parts()
    package = next(name for name in every if name.endswith(".opf"))
    item = '<item id="{}" href="text/one.xhtml" media-type="application/xhtml+xml"/>'
    copies = "".join(map(item.format, range(500)))
    once = parse(every)
    every[package] = str(every[package]).replace("</manifest>", f"{copies}</manifest>")
    assert parse(every).text == once.text
