"""The built-in parsers: every module or package here reads the format it is named after.

To add a format, add `<format>.py` with a class `<Format>Parser` that extends
`kb.ingest.parser_support.format_parser.FormatParser`, and a test. `kb.ingest.parser_registry` finds
it by its name. Code that parsers share is in `kb.ingest.parser_support`.
"""
