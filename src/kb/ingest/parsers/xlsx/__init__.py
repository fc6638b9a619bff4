"""Excel workbooks, by sheet and row."""

from kb.ingest.parsers.xlsx.parser import XlsxParser

__all__ = ["XlsxParser"]
