"""Word documents.

Modules:

    alternative_chunks  embedded files of other formats
    document            the text of a document, then headers, footers and notes
    parser              DocxParser
    styles              which paragraphs are headings, list items, code or quotations
"""

from kb.ingest.parsers.docx.parser import DocxParser

__all__ = ["DocxParser"]
