"""Browser bookmarks."""

from __future__ import annotations

from kb.ingest.parse import Parsers
from kb.ingest.parsers.bookmarks import BookmarksParser
from kb.ports import Source
from tests.ingest.parsers.mutations import check_parsed, check_survives

PAGE = b"""<!DOCTYPE NETSCAPE-Bookmark-file-1>
<!-- This is an automatically generated file. -->
<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=UTF-8">
<TITLE>Bookmarks</TITLE>
<H1>Bookmarks Menu</H1>
<DL><p>
    <DT><H3 ADD_DATE="1700000000">Sailing</H3>
    <DD>all about boats
    <DL><p>
        <DT><A HREF="https://example.org/tide?a=1&amp;b=2" ADD_DATE="1700000000" TAGS="sea,moon"
          ICON="data:image/png;base64,AAAA">Tide &amp; moon</A>
        <DD>when it turns
        <DT><H3>Ports</H3>
        <DL><p>
            <DT><A HREF="https://example.org/brest">Brest</A>
        </DL><p>
        <DT><A HREF="https://example.org/last">Last</A>
    </DL><p>
</DL>
"""


def test_folders_and_links() -> None:
    parsed = BookmarksParser().parse(Source("bookmarks.html", PAGE))
    assert (parsed.text or "").split("\n\n") == [
        "Bookmarks Menu",
        "# Sailing",
        "  all about boats",
        "- Tide & moon https://example.org/tide?a=1&b=2 2023-11-14 sea,moon\n  when it turns",
        "## Ports",
        "- Brest https://example.org/brest",
        "- Last https://example.org/last",
    ]
    paths = [block.heading_path for block in parsed.blocks]
    assert paths[-2:] == [("Sailing", "Ports"), ("Sailing",)]
    assert (parsed.title, parsed.type) == ("Bookmarks", "bookmarks")
    check_parsed(parsed, PAGE)


def test_recognized_before_html() -> None:
    parser = Parsers(1800, plug_ins=()).detect(Source("bookmarks.html", PAGE))
    assert parser is not None
    assert parser.name == "bookmarks"


def test_descriptions_of_many_lines_and_links_without_a_name() -> None:
    page = (
        b'<!DOCTYPE NETSCAPE-Bookmark-file-1><DL><p><DT><A HREF="http://a.example/">Knots</A>'
        b"\n<DD>Three:\n- bowline\n\n  - hitch\n"
        b'<DT><A HREF="http://b.example/"></A></DL>'
    )
    assert BookmarksParser().parse(Source("a.html", page)).text == (
        "- Knots http://a.example/\n  Three:\n  - bowline\n  - hitch\n- http://b.example/"
    )


def test_an_export_without_a_doctype() -> None:
    """As Google exported them, with microseconds."""
    page = (
        b'<META CONTENT="text/html"><TITLE>Bookmarks</TITLE><H1>Bookmarks</H1>\n<DL><p>\n'
        b'<DT><H3 ADD_DATE="1523996194943160">Sea</H3>\n<DL><p>\n'
        b'<DT><A HREF="http://a.example/" ADD_DATE="1515515697780642">Knots</A></DL><p></DL><p>'
    )
    source = Source("a.htm", page)
    assert isinstance(Parsers(1800, plug_ins=()).detect(source), BookmarksParser)
    assert BookmarksParser().parse(source).text == ("# Sea\n\n- Knots http://a.example/ 2018-01-09")
    words = b"<h1>Words</h1><dl><dt><a href='#a' class='x'>kedge</a></dt><dd>an anchor</dd></dl>"
    assert not BookmarksParser().accepts(Source("glossary.html", words))


def test_damaged_files() -> None:
    check_survives(BookmarksParser(), "a.html", PAGE)
