"""Conversations, as ChatGPT, Claude and Slack export them.

Modules:

    export   the conversations of an export, and their messages
    parser   ConversationsParser
    slack    the messages of a Slack channel on one day
"""

from kb.ingest.parsers.conversations.parser import ConversationsParser

__all__ = ["ConversationsParser"]
