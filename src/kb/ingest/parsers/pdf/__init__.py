"""PDF, by page and paragraph.

Modules:

    columns      runs into columns, in reading order
    document     the pages into blocks
    furniture    running headers, footers and page numbers
    headings     the title, and heading paths from the outline
    lines        words into runs, runs into lines
    pages        PDFium: words and their boxes, comments, forms, outline, metadata
    paragraphs   lines into paragraphs, hyphenation undone
    parser       PdfParser
"""

from kb.ingest.parsers.pdf.parser import PdfParser

__all__ = ["PdfParser"]
