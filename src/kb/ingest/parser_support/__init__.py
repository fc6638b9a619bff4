"""Code that several parsers share.

Modules:

    extract         the text and blocks of a format that is not plain text
    format_parser   the base class of the built-in parsers
    ocr             text in pictures, by optical character recognition
    office          properties and relations of office files
    roff            the requests and letters of manual pages
    sections        blocks from ranges of lines: headings, atomic parts, paragraphs
    signatures      the format that a file's first bytes show
    zip_archive     bounded access to zip files of unknown origin
"""
