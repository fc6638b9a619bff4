"""PDF, by page and paragraph.

Modules:

    columns      groups runs into columns, in reading order
    document     converts the pages into blocks
    furniture    running headers, footers and page numbers
    headings     the title, and heading paths from the outline
    legibility   whether the text of a page is what a reader sees on it
    lines        groups words into runs, and runs into lines
    pages        PDFium: words and their boxes, comments, forms, outline, metadata
    paragraphs   groups lines into paragraphs, and joins hyphenated words
    parser       PdfParser
    scans        pages without readable text, by OCR
"""

from kb.ingest.parsers.pdf.parser import PdfParser

__all__ = ["PdfParser"]
