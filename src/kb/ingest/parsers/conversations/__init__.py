"""Conversations with assistants, as ChatGPT and Claude export them.

Modules:

    export   the conversations of an export, and their messages
    parser   ConversationsParser
"""

from kb.ingest.parsers.conversations.parser import ConversationsParser

__all__ = ["ConversationsParser"]
