"""Pure text processing, without I/O.

    normalize       NFC, identifiers, and scripts without spaces between words
    plain_words     words with soft hyphens, ligatures and invisible characters
    tokenize        words and their offsets, as the full-text index sees them
    stem            the Porter stemmer of the full-text index
    unicode61       the letters and separators of the full-text index (generated)
    scripts         the scripts of a query or a passage, and whether a model supports them
    language        the language of a document
    function_words  the language of a query in Latin script
    english         whether a text is English, by groups of letters
    citations       citations such as `lib/a.md#L12-L34`, formatted and parsed
    links           addresses that open a file where a citation points
    wikilinks       links and tags in Markdown
    globs           path patterns, matched in linear time
    headings        the heading text of a passage
    units           sizes with units, as people read them
    timestamps      timestamps as in the store and the JSON shapes
    controls        control characters, escaped
    patterns        regular expressions that are compiled when they are first used

Indexing, queries and snippets share these functions, so that they agree on what a word is.
"""
