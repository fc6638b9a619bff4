"""Mail files.

Modules:

    message  headers and texts, then attached mails and texts
    parser   EmailParser
    parts    the parts of a mail, and their text
"""

from kb.ingest.parsers.email.parser import EmailParser

__all__ = ["EmailParser"]
