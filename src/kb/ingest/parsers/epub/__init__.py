"""Books in EPUB.

Modules:

    book     the chapters, the table of contents and the metadata
    parser   EpubParser
"""

from kb.ingest.parsers.epub.parser import EpubParser

__all__ = ["EpubParser"]
