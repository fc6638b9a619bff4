"""Source code, split by definitions if a grammar is available, otherwise by paragraphs.

Modules:

    definitions   the outline of a file: which lines belong to which definition
    grammars      the node types of each tree-sitter grammar
    languages     the language of a file, by its name or first line
    parser        CodeParser
"""

from kb.ingest.parsers.code.parser import CodeParser

__all__ = ["CodeParser"]
