"""Renders long documents in a parser process, under limits.

An uploaded file may have any content, and a malicious text can take far more time than its size
suggests. In a parser process, rendering does not delay other requests, and is stopped at the limits
or when the client disconnects. A document that cannot be rendered within them is shown as lines.
"""

from __future__ import annotations

import json

from kb import deadline
from kb.errors import DeadlineExceeded, ParserUnavailable
from kb.ingest import parser_pool
from kb.ingest.decode import Unreadable, Unsupported
from kb.ingest.parser_limits import Limits
from kb.library.rendering import render
from kb.ports import Parsed, Source
from kb.types import Rendering

_LOCAL_CHARS = 16 * 1024  # shorter texts take a fraction of a second, whatever they contain
_LIMITS = Limits(memory_bytes=512 << 20, timeout_s=5.0, output_bytes=64 << 20)


def render_within_limits(doc_path: str, kind: str, text: str) -> Rendering:
    """Render the text of a document of the type `kind`. Raises the error of the deadline."""
    if len(text) <= _LOCAL_CHARS or kind == "pdf":
        return render(doc_path, kind, text)
    head = json.dumps([doc_path, kind])
    source = Source("", f"{head}\n{text}".encode("utf-8", "surrogatepass"))
    try:
        with deadline.share():
            answer = parser_pool.extract_text(RenderingParser.location, source, 0, _LIMITS)
        kind, nodes, outline = json.loads(answer or "")
        return Rendering(kind, tuple(nodes), tuple(map(tuple, outline)))
    except (Unreadable, Unsupported, ParserUnavailable, ValueError):
        return Rendering("lines")
    except DeadlineExceeded:
        deadline.check()  # of the request itself
        return Rendering("lines")


class RenderingParser:
    """Runs `render` in a parser process, and returns the result as JSON."""

    location = f"{__name__}:RenderingParser"
    name = "rendering"
    version = "1"

    def accepts(self, _source: Source) -> bool:
        return False  # no file of a folder

    def parse(self, source: Source) -> Parsed:
        head, _, text = source.data.decode("utf-8", "surrogatepass").partition("\n")
        doc_path, kind = json.loads(head)
        rendered = render(doc_path, kind, text)
        shape = [rendered.kind, rendered.nodes, rendered.outline]
        return Parsed(self.name, (), text=json.dumps(shape, ensure_ascii=False))
