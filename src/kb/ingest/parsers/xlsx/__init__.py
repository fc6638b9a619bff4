"""Excel workbooks, by sheet and row.

Modules:

    number_formats  percentages, leading zeros and elapsed time, as a sheet shows them
    parser          XlsxParser
    workbook        the rows of each sheet
"""

from kb.ingest.parsers.xlsx.parser import XlsxParser

__all__ = ["XlsxParser"]
