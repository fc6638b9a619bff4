"""Pure text processing: no I/O, no state beyond caches, no other package but types and errors.

    normalize     NFC, identifiers, and scripts without spaces between words
    tokenize      words and their offsets, as the full-text index sees them
    stem          the Porter stemmer of the full-text index
    unicode61     its table of letters and separators (generated)
    scripts       the writing systems of a query, and whether a model supports them
    language      the language of a document
    citations     citations such as `lib/a.md#L12-L34`, formatted and parsed
    globs         path patterns, matched in linear time
    headings      headings as they are searched
    timestamps    the timestamps of the store and the JSON shapes
    controls      control characters
"""
