"""The browser for tests of web pages: `KB_TEST_CHROMIUM`, or one on the path."""

from __future__ import annotations

import os
import shutil

CHROMIUM = os.environ.get("KB_TEST_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
if CHROMIUM is None and os.environ.get("KB_TEST_BROWSER") == "required":
    raise RuntimeError("there is no chromium, and the tests of pages must not be skipped")
