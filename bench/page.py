"""The time from the last key to the first result on the web page, in a real browser.

    python -m bench.page STORE [QUERIES]

Starts `kb serve` on a store, types queries at the pace of a person, and prints the median and the
95th percentile of the time from the last key to the first hits on the screen, the processor time of
the server for each query, which includes highlights and counts, and the load of the machine. On a
busy machine, only the processor time is meaningful. `python -m bench hybrid` leaves a store with
100,000 passages: build/bench/threeway-*-100000.sqlite.
"""

from __future__ import annotations

import os
import random
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from tests.browser import CHROMIUM

if TYPE_CHECKING:
    from playwright.sync_api import Page

_OBSERVE = """() => {
  window.shown = null;
  document.getElementById("query").addEventListener("input", () => {
    window.typed = performance.now();
    window.shown = null;
  });
  new MutationObserver(() => {
    const own = document.title === `${document.getElementById("query").value} – kb`;
    if (window.shown === null && own && document.querySelector(".hits"))
      window.shown = performance.now();
  }).observe(document.getElementById("results-content"), { childList: true });
}"""
_PACE_MS = (60, 160)  # between two keys
_TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def main(store: Path, count: int) -> None:
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-m", "kb", "--store", str(store), "serve", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert server.stdout is not None
        url = next(match[0] for line in server.stdout if (match := re.search(r"http://\S+", line)))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            page = browser.new_page()
            page.goto(url)
            page.locator(".empty").wait_for()
            page.evaluate(_OBSERVE)
            times, chance = [], random.Random(1)
            words = _words(page)
            used = 0.0
            for number in range(count + 3):
                if number == 3:  # the first ones load the model and the indexes
                    used = _processor_ms(server.pid)
                page.fill("#query", "")
                page.locator("#query").press_sequentially(
                    " ".join(chance.sample(words, 3)), delay=chance.randint(*_PACE_MS)
                )
                while page.evaluate("window.shown === null"):  # the policy forbids `eval`
                    page.wait_for_timeout(20)
                page.wait_for_timeout(500)  # highlights and counts
                times.append(page.evaluate("window.shown - window.typed"))
            cost = (_processor_ms(server.pid) - used) / count
            browser.close()
        steady = sorted(times[3:])
        print(f"last key to first hit: median {statistics.median(steady):.0f} ms, "
              f"95 % {steady[int(0.95 * len(steady))]:.0f} ms, {count} queries")  # fmt: skip
        print(f"processor time of the server: {cost:.0f} ms for each query, with every key typed")
        print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    finally:
        server.terminate()
        server.wait(30)


def _words(page: Page) -> list[str]:
    """Words of the store: those of the first passages of its first documents."""
    listed = page.evaluate("fetch('/documents?limit=20').then((r) => r.json())")
    text = ""
    for document in listed["documents"]:
        address = "/chunks?" + urlencode({"document": document["doc_path"], "limit": 5})
        chunks = page.evaluate("(address) => fetch(address).then((r) => r.json())", address)
        text += " ".join(each["text"] for each in chunks["chunks"])
    return sorted({word.lower() for word in re.findall(r"[A-Za-z]{4,}", text)})


def _processor_ms(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_MS


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 60)
