"""E-mail files, and mailboxes of many e-mails.

Modules:

    mailbox  the messages of an mbox file
    message  headers and texts, then attached messages and texts
    parser   EmailParser
    parts    the parts of an e-mail, and their text
"""

from kb.ingest.parsers.email.parser import EmailParser

__all__ = ["EmailParser"]
