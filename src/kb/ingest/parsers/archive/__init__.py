"""Zip archives of files that kb reads: exports, backups, collections of notes.

Modules:

    members  the files of an archive, parsed one by one
    parser   ArchiveParser
"""

from kb.ingest.parsers.archive.parser import ArchiveParser

__all__ = ["ArchiveParser"]
