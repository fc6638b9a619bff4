"""Takes the pictures of the web page and of `kb find` for the documentation.

    python docs/screenshots.py         writes docs/pictures/page-*.png

Needs the extra `serve`, playwright and a Chromium. The pictures show the example library; people
review them, and no test compares them.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
FOLDER = DOCS / "pictures"
sys.path.insert(0, str(ROOT))

VIEWS = {
    "search": ("#q=how+wide+are+the+radio+slots", ".hit mark"),
    "ask": ("#q=How+wide+are+the+radio+slots%3F&ask=1", ".answer mark"),
    "document": ("read/library/guides/radio-link-planning.md#L66-L67", ".cited"),
    "paper": ("read/library/papers/mooring-study.pdf#page=2", ".sheet img"),
    "library": ("library", "#map circle"),
}
SIZES = {"": (1280, 800, "light"), "-dark": (1280, 800, "dark"), "-400": (400, 800, "light"),
         "-2560": (2560, 1200, "light")}  # fmt: skip
KEPT = ("search", "ask-dark", "document", "library", "search-400")  # for the documentation


def main() -> None:
    """Take every picture at every size; with `--all FOLDER`, keep all of them there."""
    from playwright.sync_api import sync_playwright
    from tests.browser import CHROMIUM
    from tests.server.conftest import settings, start

    from kb import KnowledgeBase

    target = Path(sys.argv[2]) if sys.argv[1:2] == ["--all"] else None
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        shutil.copytree(ROOT / "examples" / "library", work / "library")
        with KnowledgeBase(work / "kb.sqlite", config=settings()) as kb:
            running = start(kb, None, ())
            kb.ingest(work / "library")
            kb.embed()
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM)
                for size, (width, height, scheme) in SIZES.items():
                    context = browser.new_context(
                        viewport={"width": width, "height": height},
                        color_scheme="dark" if scheme == "dark" else "light",
                        reduced_motion="reduce",
                    )
                    for view, (address, shown) in VIEWS.items():
                        picture = f"{view}{size}"
                        if target is None and picture not in KEPT:
                            continue
                        page = context.new_page()
                        page.goto(f"{running.url}/{address}")
                        page.locator(shown).first.wait_for()
                        page.wait_for_timeout(500)  # pictures and counts come last
                        folder = target or FOLDER
                        page.screenshot(path=folder / f"page-{picture}.png")
                        page.close()
                    context.close()
                browser.close()
            running.client.close()
            running.stop()


if __name__ == "__main__":
    main()
