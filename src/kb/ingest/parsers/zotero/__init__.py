"""Zotero libraries (`zotero.sqlite` in Zotero's data folder).

Modules:

    library  the items, with their notes and annotations
    parser   ZoteroParser
"""

from kb.ingest.parsers.zotero.parser import ZoteroParser

__all__ = ["ZoteroParser"]
