"""OpenDocument texts, spreadsheets and presentations, as LibreOffice writes them.

Modules:

    document  headings, paragraphs, tables, sheets and slides
    parser    OpendocumentParser
"""

from kb.ingest.parsers.opendocument.parser import OpendocumentParser

__all__ = ["OpendocumentParser"]
