"""The built-in parsers: every module or package here reads one format and turns it into blocks.

    asciidoc    AsciiDoc, by section
    code        source code, by definition
    docx        Word documents
    email       mail files, with attached mails and texts
    epub        books, in reading order
    html        web pages, main text first
    markdown    Markdown, by heading
    notebook    Jupyter notebooks
    org         Org mode, by headline
    pdf         PDF, by page and paragraph
    rst         reStructuredText, by section
    table       CSV and TSV by row, JSON Lines by line
    text        plain text and notes, by paragraph

To add a format, add `<format>.py` with a class `<Format>Parser` that extends `FormatParser`.
`kb.ingest.parser_registry` finds it; what parsers share is in `kb.ingest.parser_support`.
"""
