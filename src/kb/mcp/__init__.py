"""The MCP door: `kb mcp`, a knowledge base as an agent's tools.

    tools      the four tools: what they take, checked, and which calls they become
    answers    what they say: plain text with citations, never longer than was asked for
    messages   lines that are no messages, and what they are answered with
    serving    the server of the official SDK, over stdio and over streamable HTTP

Thin: `KnowledgeBase` does all the work. `tools` and `answers` know nothing of the SDK; only
`serving` and `messages` import it, which needs the extra `mcp`.
"""
