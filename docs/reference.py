"""Generates `docs/reference/` from the code, so that the two cannot differ.

    python docs/reference.py             write the pages
    python docs/reference.py --check     exit 1 if a page is out of date

A page is a function without arguments that returns Markdown; `PAGES` lists them. Nothing depends on
the width of a terminal, the time or a path, so the same code gives the same pages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from _cli_page import cli_page
from _errors_page import errors_page
from _python_page import python_page
from _settings_page import settings_page
from _shapes_page import shapes_page

FOLDER = Path(__file__).resolve().parent / "reference"


def main(args: Sequence[str]) -> int:
    if args not in ([], ["--check"]):
        sys.exit("usage: python docs/reference.py [--check]")
    FOLDER.mkdir(exist_ok=True)
    stale = []
    for name, page in PAGES.items():
        path, text = FOLDER / f"{name}.md", page()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if args:
            sys.stderr.write(f"docs/reference/{name}.md is out of date: make docs\n")
        else:
            path.write_text(text, encoding="utf-8", newline="\n")
            sys.stdout.write(f"wrote docs/reference/{name}.md\n")
    return 1 if args and stale else 0


PAGES: Mapping[str, Callable[[], str]] = {
    "cli": cli_page,
    "settings": settings_page,
    "shapes": shapes_page,
    "errors": errors_page,
    "python": python_page,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
