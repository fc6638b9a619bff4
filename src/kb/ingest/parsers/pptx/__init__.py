"""PowerPoint presentations, by slide."""

from kb.ingest.parsers.pptx.parser import PptxParser

__all__ = ["PptxParser"]
