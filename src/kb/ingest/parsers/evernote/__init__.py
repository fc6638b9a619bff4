"""Notes that Evernote exports (`.enex`).

Modules:

    export  the notes of an export
    parser  EvernoteParser
"""

from kb.ingest.parsers.evernote.parser import EvernoteParser

__all__ = ["EvernoteParser"]
