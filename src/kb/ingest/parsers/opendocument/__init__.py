"""OpenDocument texts, spreadsheets and presentations, as LibreOffice writes them."""

from kb.ingest.parsers.opendocument.parser import OpendocumentParser

__all__ = ["OpendocumentParser"]
