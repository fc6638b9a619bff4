"""Web pages that a browser has saved as a single file (MHTML).

Modules:

    page    the page in a file, without the pictures and styles beside it
    parser  MhtmlParser
"""

from kb.ingest.parsers.mhtml.parser import MhtmlParser

__all__ = ["MhtmlParser"]
