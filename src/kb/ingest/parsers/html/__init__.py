"""Web pages: the main text first, then the other text.

Modules:

    page     converts a page into blocks; other formats use its functions for embedded HTML
    parser   HtmlParser
    rest     the text outside the main text: headers, footers, forms, attributes
    tree     the parsed page: traversal, limits, menus, the main element
    writer   writes elements as headings, paragraphs, lists, tables and listings
    xhtml    XML documents rewritten for the HTML parser
"""

from kb.ingest.parsers.html.parser import HtmlParser

__all__ = ["HtmlParser"]
