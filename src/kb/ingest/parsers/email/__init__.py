"""Mail files.

Modules:

    parser   EmailParser: headers and texts, then attached mails and texts
    parts    the parts of a mail: which there are, and their text
"""

from kb.ingest.parsers.email.parser import EmailParser

__all__ = ["EmailParser"]
