"""Excel workbooks, by sheet and row.

Modules:

    parser    XlsxParser
    workbook  the rows of each sheet
"""

from kb.ingest.parsers.xlsx.parser import XlsxParser

__all__ = ["XlsxParser"]
