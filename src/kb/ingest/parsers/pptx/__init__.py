"""PowerPoint presentations, by slide.

Modules:

    parser        PptxParser
    presentation  the slides, with notes and tables
"""

from kb.ingest.parsers.pptx.parser import PptxParser

__all__ = ["PptxParser"]
