from __future__ import annotations

import html
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parse import Parsers
from kb.ingest.parsers.html import tree as html_tree
from kb.ingest.parsers.html import xhtml
from kb.ingest.parsers.html.parser import HtmlParser
from kb.ports import Parsed, Source
from tests.ingest.parsers.mutations import check_parsed, check_survives

PAGE = dedent("""
    <!doctype html>
    <html lang="en-GB">
    <head>
      <meta charset="utf-8">
      <title>Radio slots | Field notes</title>
      <meta name="author" content="A. Writer">
      <meta name="keywords" content="radio, slots">
      <meta property="article:published_time" content="2026-03-01T09:30:00+01:00">
      <style>p { color: red }</style>
    </head>
    <body>
      <nav><a href="/">Home</a> <a href="/all">All</a></nav>
      <main>
        <h1>Radio slots<a class="headerlink" href="#x">¶</a></h1>
        <p>The slots were <b>widened</b> to
           40&nbsp;ms &amp; more,<br>see <a href="https://x.test">the log</a>.</p>
        <h2>Why</h2>
        <ul><li>drift<ul><li>warm <code>xtal</code></li></ul></li><li>noise</li></ul>
        <ol start="3"><li>measure</li><li>decide</li></ol>
        <pre class="language-python"><code>def width():
        return 40
    </code></pre>
        <table><caption>Widths</caption>
          <tr><th>year</th><th>ms</th></tr><tr><td>2025</td><td>30</td></tr></table>
        <blockquote><p>Wider is safer.</p></blockquote>
        <dl><dt>slot</dt><dt>window</dt><dd>A time to send.</dd><dt>drift</dt><dd>Time.</dd></dl>
      </main>
      <footer>© nobody</footer>
      <script>alert("no")</script>
    </body>
    </html>
    """)
TEXT = dedent("""\
    # Radio slots

    The slots were widened to 40 ms & more,
    see the log.

    ## Why

    - drift
      - warm `xtal`
    - noise

    3. measure
    4. decide

    ```python
    def width():
        return 40
    ```

    Widths
    year | ms
    2025 | 30

    > Wider is safer.

    slot
    window
      A time to send.

    drift
      Time.

    Radio slots | Field notes
    A. Writer
    Home All
    © nobody""")

parser = HtmlParser()


def parse(page: str | bytes, name: str = "some-page.html") -> Parsed:
    return parser.parse(Source(name, page.encode() if isinstance(page, str) else page))


def text_of(page: str | bytes, name: str = "some-page.html") -> str:
    parsed = parse(page, name)
    assert parsed.text is not None
    return check_parsed(parsed, b"")


def test_a_page_becomes_its_main_text() -> None:
    assert text_of(PAGE) == TEXT


def test_structure() -> None:
    blocks = list(parse(PAGE).blocks)
    assert [(block.heading_path, block.boundary) for block in blocks][:4] == [
        (("Radio slots",), True),
        (("Radio slots",), False),
        (("Radio slots", "Why"), True),
        (("Radio slots", "Why"), False),
    ]
    atomic = [block.text for block in blocks if block.atomic]
    assert atomic == ["```python\ndef width():\n    return 40\n```", "Widths\nyear | ms\n2025 | 30"]


def test_attributes_of_a_page() -> None:
    parsed = parse(PAGE)
    assert (parsed.type, parsed.title, parsed.lang) == ("html", "Radio slots", "en")
    assert parsed.attributes.date == "2026-03-01T08:30:00Z"
    assert parsed.attributes.metadata == {"author": "A. Writer", "keywords": ["radio", "slots"]}


@pytest.mark.parametrize(
    ("head", "title"),
    [
        ("<title>A\n page</title>", "A page"),
        ("<title>One - Two</title>", "One - Two"),
        ("<title>One - Two</title><meta property=og:site_name content=two>", "One"),
        ("<meta property=og:title content=Said>", "Said"),
        ("<title>Site » Head</title>", "Head"),
        ("<title>Head — Part — Site</title>", "Head"),
        ("<title>Header — Site</title>", "Header — Site"),
        ("", "Head"),
    ],
)
def test_title(head: str, title: str) -> None:
    assert parse(f"<head>{head}</head><h1>Head</h1>").title == title


def test_title_without_any() -> None:
    assert parse("<p>text").title == "some page"


MENU = "<ul>" + "".join(f"<li><a href=x>Item {n}</a>" for n in range(9)) + "</ul>"


def test_lists_of_links_follow_a_text_that_is_not_marked() -> None:
    items = "\n".join(f"Item {n}" for n in range(9))
    assert text_of(f"<body>{MENU}<div><p>The text with <a>one link</a>.</p></div>") == (
        f"The text with one link.\n\n{items}"
    )


def test_menus_that_are_marked_are_left_out() -> None:
    assert text_of(f"<body><nav>{MENU}</nav><p>The text.</p>") == "The text."
    assert text_of(f"<body><nav>{MENU} and a word</nav><p>The text.</p>") == "The text."
    assert "a sentence" in text_of(f"<nav>{MENU} and a sentence as long as they are</nav><p>x")


def test_lists_of_links_in_the_main_part_are_text() -> None:
    assert "- Item 3" in text_of(f"<main><p>See</p>{MENU}</main>")


def test_a_page_of_nothing_but_links_is_kept() -> None:
    assert "- Item 3" in text_of(f"<body>{MENU}</body>")


@pytest.mark.parametrize(
    "part",
    [
        "<nav>x</nav>", "<footer>x</footer>", "<aside>x</aside>", "<noscript>x</noscript>",
        "<form><input><label>x</label></form>", "<div role=navigation>x</div>",
        "<div class='sidebar left'>x</div>", "<p hidden>x</p>", "<p style='display: none'>x</p>",
        "<header><a>x</a></header>", "<textarea>x</textarea>", "<button>x</button>",
        "<select><option>x</select>", "<svg><text>x</text></svg>", "<dialog>x</dialog>",
        "<video>x</video>", "<object>x</object>", "<input value=x>", "<input placeholder=x>",
        "<img alt=x>", "<abbr title=x></abbr>", "<map><area alt=x></map>",
        "<iframe srcdoc='&lt;p&gt;x'></iframe>", "<optgroup label=x></optgroup>",
    ],
)  # fmt: skip
def test_surrounding_text_follows_the_main_text(part: str) -> None:
    assert text_of(f"<body><p>before</p>{part}<p>after</p>") == "before\n\nafter\n\nx"


@pytest.mark.parametrize(
    "noise",
    [
        "<script>x</script>", "<style>x</style>", "<template><p>x</p></template>", "<!-- x -->",
        "<a class=headerlink>¶</a>", "<table><tr><td class=linenos><pre>1\n2\n</pre></table>",
        "<a class=heading-anchor># </a>", "<a class=headerlink>🔗</a>",
        "<a class='anchor headerlink'>Permalink</a>", "<a class=headerlink>Link to this</a>",
        "<a class=edit-link>Edit this page</a>", "<a class=edit-link>Edit on GitHub</a>",
        "<a class=edit-link href=https://x.org/y/edit/main/a.md>Diese Seite ändern</a>",
        "<span class=mw-editsection>[<a href='?action=edit'>edit</a>]</span>",
        "<span class=mw-editsection>[ edytuj | edytuj kod ]</span>",
        "<a class=mw-jump-link href=#top>Zur Suche springen</a>",
        "<span class=viewcode-link>[Quellcode]</span>",
        "<i aria-hidden=true>x</i>",
        "<nav><a>x y</a> <a>y z</a> <a>z</a></nav>", "<input type=hidden value=x>",
    ],
)  # fmt: skip
def test_noise_is_left_out(noise: str) -> None:
    assert text_of(f"<body><p>before</p>{noise}<p>after</p>") == "before\n\nafter"


@pytest.mark.parametrize(
    "name", ["headerlink", "heading-anchor", "edit-link", "mw-editsection", "linenos"]
)
def test_text_of_authors_in_the_classes_of_programs(name: str) -> None:
    heading = f'<h2><a class="{name}" href="#x">Install notes</a></h2>'
    assert text_of(f"<main>{heading}<p>after</p></main>") == "## Install notes\n\nafter"
    assert text_of(f"<p>before</p><div class={name}><p>Our text.</p></div>").endswith("Our text.")


def test_numbers_are_text_except_beside_code() -> None:
    page = "<h2><a class=heading-anchor href=#x>2026</a></h2><p>after</p>"
    assert text_of(page) == "## 2026\n\nafter"


def test_repeated_text_is_omitted() -> None:
    page = "<title>Wear | Tides</title><main><h1>Wear</h1><p>Chain wear is slow.</p></main>"
    assert text_of(f"{page}<footer>slow chain</footer><footer>Tides</footer>") == (
        "# Wear\n\nChain wear is slow.\n\nWear | Tides"
    )


def test_pages_within_pages_end() -> None:
    page = "<p>x"
    for _ in range(9):
        page = f'<iframe srcdoc="{html.escape(page)}"></iframe>'
    assert parse(page).blocks == []


def test_asides_and_headers_of_an_article_are_text() -> None:
    page = "<article><header><h1>T</h1><p>by A</p></header><aside>note</aside><p>end</p></article>"
    assert text_of(page) == "# T\n\nby A\n\nnote\n\nend"


def test_several_articles_are_all_read() -> None:
    assert text_of("<article>one</article><article>two</article>") == "one\n\ntwo"


def test_a_table_for_layout_is_read_as_text() -> None:
    page = "<table><tr><td><h2>Left</h2><p>a</p></td><td><p>b</p></td></tr></table>"
    assert text_of(page) == "## Left\n\na\n\nb"


def test_a_listing_in_an_item_is_a_block() -> None:
    page = "<ol><li>run<pre>make</pre></li><li>wait</li></ol>"
    assert text_of(page) == "1. run\n\n```\nmake\n```\n\n2. wait"


def test_backquotes_in_a_listing() -> None:
    assert text_of("<pre>```\nx\n```</pre>") == "````\n```\nx\n```\n````"


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("a&shy;b", "ab"), ("<ruby>漢<rt>かん</rt></ruby>", "漢\n\nかん"), ("a<br><br>b", "a\n\nb"),
        ("<img alt='A red kite'>", "A red kite"), ("<img alt=icon>x", "x\n\nicon"),
        ("<code></code>x", "x"),
        ("e\u0301", "é"), ("a\x0cb", "a b"), ("a<wbr>b", "ab"), ("&lt;b&gt;", "<b>"),
        ("<math alttext='x^2'><mi>x</mi></math>", "x^2"), ("<li>a</li><p>b</p>", "- a\n\nb"),
    ],
)  # fmt: skip
def test_words(markup: str, text: str) -> None:
    assert text_of(f"<div>{markup}</div>") == text


def test_long_paragraphs_are_several_lines() -> None:
    lines = text_of(f"<p>{'A sentence that goes on. ' * 100}</p>").split("\n")
    assert len(lines) > 2
    assert all(line.endswith(".") and len(line) <= 800 for line in lines)


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>größe".encode(), "größe"),
        ("\ufeff<p>größe".encode(), "größe"),
        ("\ufeff<p>größe".encode("utf-16-le"), "größe"),
        ("\ufeff<p>größe".encode("utf-16-be"), "größe"),
        ("<p>größe “x”".encode("cp1252"), "größe “x”"),
        ("<meta charset=iso-8859-1><p>größe “x”".encode("cp1252"), "größe “x”"),
        ("<meta charset=gb2312><p>中文".encode("gb18030"), "中文"),
        (b"<meta http-equiv=Content-Type content='text/html; charset=Shift_JIS'><p>" +
         "日本".encode("cp932"), "日本"),
        ("<?xml version='1.0' encoding='koi8-r'?><p>мир".encode("koi8-r"), "мир"),
        ("<meta charset=koi8-r><p>größe".encode(), None),
        ("<meta charset=unheard-of><p>größe".encode(), "größe"),
        (b"<meta charset=hex><p>x", "x"),
        (b"<meta charset=utf-8><p>gr\xf6\xdfe", "größe"),
        ("<meta charset=utf-8><p>größe, 中文 ".encode() + b"\xe9 x", "größe, 中文 \ufffd x"),
        ("<p>größe über 中文 ".encode() + b"\xe9 x", "größe über 中文 \ufffd x"),
        ("<p>数据库的索引用来加快查询速度。".encode("gb18030"), "数据库的索引用来加快查询速度。"),
        ("<p>データベースの索引です。".encode("iso2022_jp"), "データベースの索引です。"),
    ],
)  # fmt: skip
def test_encoding(page: bytes, text: str | None) -> None:
    assert text is None or text_of(page) == text


def test_a_guessed_encoding_is_a_warning() -> None:
    assert parse("<p>Привет, как дела?".encode("cp1251")).warnings == (
        "not UTF-8: read as Windows-1251",
    )
    assert parse("<meta charset=cp1251><p>Привет".encode("cp1251")).warnings == ()


@pytest.mark.parametrize(
    "tag", ["div", "b", "ul><li", "blockquote", "table><tr><td", "header", "section", "code", "a"]
)
def test_nothing_is_too_deep(tag: str) -> None:
    assert "deep" in text_of(f"<{tag}>" * 10_000 + "deep")


def test_deeper_than_any_page_is_refused() -> None:
    with pytest.raises(Unreadable, match="levels deep"):
        parse("<div>" * 100_000 + "deep")


@pytest.mark.parametrize("name", ["a", "a<a", "a<1", "/a", "script", "textarea"])
def test_a_tag_with_more_attributes_than_anybody_writes_is_refused(name: str) -> None:
    attributes = " ".join(f"a{number}='>'" for number in range(2_001))
    with pytest.raises(Unreadable, match="more than 2,000 attributes"):
        parse(f"<p>text</p><{name} {attributes}>")
    assert "text" in text_of(f"<p>text</p><{name} {attributes[:9_000]}>")


@pytest.mark.parametrize("unit", ["<meta", "<a b='", '<a b="', "<!-- "])
def test_tags_that_never_end_take_linear_time(unit: str) -> None:
    """In quadratic time, such a page would take half an hour."""
    assert "text" in text_of("<p>text</p>" + unit * (2_000_000 // len(unit)))


@pytest.mark.parametrize("page", ["", " ", "<", "<html>", "<frameset><frame src=x></frameset>"])
def test_nothing_in_it(page: str) -> None:
    assert text_of(page) in ("", "<")


def test_a_line_of_one_megabyte() -> None:
    assert len(text_of("<p>" + "word " * 200_000)) > 999_000


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "selectolax.lexbor", None)
    with pytest.raises(Unsupported) as refusal:
        parse(PAGE)
    assert refusal.value.reason == "to read it, run: pip install 'kb-search[html]'"


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.html", b"text", "html"),
        ("a.HTM", b"", "html"),
        ("a.txt", b"<!DOCTYPE html>\n<p>", "html"),
        ("a.txt", b"\xef\xbb\xbf\n<html>", "html"),
        ("page", b"<!-- saved --><!doctype html>", "html"),
        ("a.txt", "\ufeff<!doctype html>".encode("utf-16-le"), "html"),
        ("a.txt", b"<p>not quite", "text"),
        ("a.md", b"<div>centred</div>", "markdown"),
        ("a.php", b"<!doctype html><?php", "code"),
        ("a.vue", b"<html>", "code"),
    ],
)
def test_detected(name: str, data: bytes, expected: str) -> None:
    found = Parsers(1800, []).detect(Source(name, data))
    assert found is not None
    assert found.name == expected


def test_damage() -> None:
    check_survives(parser, "a.html", PAGE.encode())


TAGS = (
    "<p>", "</p>", "<h1>", "</h1>", "<h3>", "</h3>", "<ul>", "</ul>", "<ol>", "</ol>", "<li>",
    "<pre>", "</pre>", "<code>", "</code>", "<table>", "<tr>", "<td>", "</table>", "<br>", "<dl>",
    "<dt>", "<dd>", "</dl>", "<blockquote>", "</blockquote>", "<div>", "</div>", "<main>",
    "</main>", "a", "b c\n", " ", "é中", "`", "#", "\x0b", "&nbsp;", "<a>", "</a>", "<!--", "-->",
)  # fmt: skip


@given(st.lists(st.sampled_from(TAGS), max_size=40).map("".join))
def test_text_and_spans_agree(page: str) -> None:
    text_of(page)


def test_through_the_store(tmp_path: Path) -> None:
    from kb import KnowledgeBase

    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "slots.html").write_text(PAGE, "utf-8")
    with KnowledgeBase(tmp_path / "kb.sqlite") as kb:
        kb.ingest(tmp_path / "docs")
        hit = kb.search("why wider drift").hits[0]
        assert hit.type == "html"
        assert kb.get(hit.citation.uri).state == "exact"


@pytest.mark.parametrize("value", ["", "=1", '=">"', "='<p>'"])
@pytest.mark.parametrize("tag", ["p", "/p", "script", "my-tag"])
def test_a_tag_of_very_many_attributes_is_refused(tag: str, value: str) -> None:
    attributes = " ".join(f"a{number}{value}" for number in range(80_000))
    with pytest.raises(Unreadable, match="more than 2,000 attributes"):
        parse(f"<p>x<{tag} {attributes}>x</p>")


def test_text_that_resembles_attributes_is_not_counted() -> None:
    words = "a<b c d e " * 3000
    assert text_of(f"<script>{words}</script><!-- {words} --><p>x</p>") == "x"
    assert text_of(f"<p title='{words}'>x</p>").startswith("x\n\na<b c d e")


def test_undecodable_bytes_are_counted() -> None:
    page = b"<meta charset=euc-kr><p>a \xff\xff b</p>"
    assert parse(page).warnings == ("2 characters cannot be decoded and are shown as \ufffd",)
    assert parse("<p>é").warnings == ()


# --- XHTML ----------------------------------------------------------------------------------------

XHTML = '<?xml version="1.0"?>\n<html xmlns="http://www.w3.org/1999/xhtml">'
PLAIN_HTML = "<!DOCTYPE html><html>"


@pytest.mark.parametrize(
    "element",
    ["<script src='x.js'/>", "<style/>", "<title/>", "<template />", "<textarea\n/>",
     '<script type="a/b" src="x>y"/>', "<iframe src='x'/>", "<SCRIPT/>"],
)  # fmt: skip
@pytest.mark.parametrize(
    ("name", "begin"),
    [("a.html", XHTML), ("a.html", XHTML.partition("\n")[2]), ("a.xhtml", "<html>"),
     ("a.html", PLAIN_HTML)],
)  # fmt: skip
def test_a_self_closed_element_does_not_hide_the_rest(name: str, begin: str, element: str) -> None:
    page = f"{begin}<head><title>T</title>{element}</head><body><p>words</p></body></html>"
    if begin == PLAIN_HTML and "title" in element:
        page = page.replace("<title>T</title>", "")
    assert "words" in text_of(page, name).split("\n")


def test_elements_of_xhtml_end_where_they_are_closed() -> None:
    page = f"{XHTML}<body><h1>One</h1><p><a id='p1'/>two <b/>three<br/>four</p></body></html>"
    assert text_of(page, "a.xhtml") == "# One\n\ntwo three\nfour"


def test_cdata_sections_of_xhtml() -> None:
    page = f"{XHTML}<body><p>a <![CDATA[b < c <script/> & d]]> e</p><p>f</p></body></html>"
    assert text_of(page, "a.xhtml") == "a b < c <script/> & d e\n\nf"
    page = f"{XHTML}<script>//<![CDATA[\nx</p>\n//]]></script><p>f</p>"
    assert text_of(page, "a.xhtml") == "f"


def test_comments_of_xhtml_stay_comments() -> None:
    page = f"{XHTML}<body><!-- <script/> <![CDATA[x]]> --><p>f</p></body></html>"
    assert text_of(page, "a.xhtml") == "f"


def test_entities_that_xhtml_defines() -> None:
    head = """<?xml version='1.0'?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "x.dtd" [
      <!ENTITY kb "knowledge"> <!ENTITY both '&kb; base'> ]>"""
    page = f"{head}<html><body><p>The &both; &amp; &auml;</p></body></html>"
    assert text_of(page, "a.xhtml") == "The knowledge base & ä"


def test_entities_that_grow_are_refused() -> None:
    entities = "".join(f"<!ENTITY e{n} '{f'&e{n - 1};' * 10}'>" for n in range(1, 12))
    head = f"<?xml version='1.0'?><!DOCTYPE html [<!ENTITY e0 'words '>{entities}]>"
    with pytest.raises(Unreadable, match="entities expand"):
        text_of(f"{head}<html><p>&e11;</p></html>", "a.xhtml")


@pytest.mark.parametrize(
    "unit", ["<script/>", "<a b=\"", "<a", "<a ", "<!--", "<![CDATA[", "<a b='x' />", "<a /", "&a;"]
)  # fmt: skip
def test_xhtml_takes_linear_time(unit: str) -> None:
    xhtml.to_html(XHTML + unit * (400_000 // len(unit)))
    xhtml.close_opaque(unit * (400_000 // len(unit)))


def test_links_in_asides_and_footers_can_be_found() -> None:
    links = "".join(f"<li><a href=x>word{n}</a></li>" for n in range(9))
    page = "<main><p>text</p></main><{0}><ul>{1}</ul></{0}>"
    for tag in ("aside", "footer", "aside role=complementary", "div role=contentinfo"):
        assert "word7" in text_of(page.format(tag, links).replace(f"/{tag}", f"/{tag.split()[0]}"))
    assert "word7" not in text_of(page.format("nav", links))


def test_many_options_take_linear_time() -> None:
    options = "".join(f"<option>choice{number}" for number in range(50_000))
    started = time.thread_time()
    parsed = HtmlParser().parse(Source("a.html", f"<p>x<SELECT>{options}</select>".encode()))
    assert time.thread_time() - started < 8  # quadratic: above ten
    assert "choice49999" in (parsed.text or "")


def test_labels_of_pictures_are_text_and_those_of_buttons_are_not() -> None:
    page = """<main><p>Sales</p><svg aria-label="Harbour chart"></svg>
    <div role="img" aria-label="Ferry map"></div><button aria-label="Close">x</button></main>"""
    text = HtmlParser().parse(Source("a.html", page.encode())).text or ""
    assert "Harbour chart" in text
    assert "Ferry map" in text
    assert "Close" not in text


def test_the_text_of_a_shadow_root_is_read() -> None:
    page = (
        "<main><p>before</p><my-card><TEMPLATE shadowrootmode='open'><h2>Slots</h2>"
        "<p>in the shadow</p><template><p>unused</p></template>"
        "<inner-card><template class=a shadowrootmode=closed>deeper</template></inner-card>"
        "<p>below</p></TEMPLATE></my-card><p>after</p></main>"
    )
    text = text_of(page)
    assert [word for word in ("unused", "template") if word in text] == []
    places = [text.index(words) for words in
              ("before", "## Slots", "in the shadow", "deeper", "below", "after")]  # fmt: skip
    assert places == sorted(places)
    assert "never shown" not in text_of("<p>text</p><template>never shown</template>")


@pytest.mark.parametrize(
    "unit", ["<template", "<template shadowrootmode=open>", "</template", " shadowrootmode"]
)
def test_shadow_roots_take_linear_time(unit: str) -> None:
    html_tree._open_shadow_roots(unit * (2_000_000 // len(unit)))
