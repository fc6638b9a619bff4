"""The MCP server: `kb mcp` offers a knowledge base to AI agents as tools.

    tools            the four tools: their parameters, and the calls they make
    formatting       their results as plain text with citations, within a length limit
    client_settings  adds kb to the settings of programs that use MCP servers
    stdio_messages   replies to lines on stdin that are not valid messages
    server           the official SDK's server, over stdio and over streamable HTTP

`KnowledgeBase` does the work. Only `server` and `stdio_messages` import the SDK, which needs the
extra `mcp`.
"""
