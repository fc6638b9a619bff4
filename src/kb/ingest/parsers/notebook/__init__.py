"""Jupyter notebooks.

Modules:

    cells    the cells and their outputs
    parser   NotebookParser
"""

from kb.ingest.parsers.notebook.parser import NotebookParser

__all__ = ["NotebookParser"]
