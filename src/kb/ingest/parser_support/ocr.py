"""Text in pictures, by optical character recognition (OCR) with the extra `ocr`.

The package of RapidOCR includes its models, so nothing is downloaded. A page of a book takes
several seconds on one core.
"""

from __future__ import annotations

import io
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from kb.ingest.decode import Unreadable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PARSERS = frozenset({"image", "pdf"})  # the parsers that use OCR
EXTRA = "the extra ocr: pip install 'kb-search[ocr]'"
MAX_PAGES = 100  # of one file; they take about ten minutes
_MIN_SCORE = 0.5
_CONTRAST = 40  # of 255, between ink and paper
_MARGIN = 30  # pixels
_MAX_PIXELS = 50_000_000


class TextLine(NamedTuple):
    """A line of text in a picture, and its box in pixels, with y growing downwards."""

    text: str
    x0: float
    x1: float
    top: float
    bottom: float


def is_available() -> bool:
    """Whether the extra is installed."""
    return find_spec("rapidocr") is not None


def version_suffix() -> str:
    """A suffix for the version of the parsers that use OCR, so that files are read again once it is
    installed."""
    return "+ocr" if is_available() else ""


def read_lines(image: NDArray[np.uint8]) -> list[TextLine]:
    """The lines of text in a picture, from top to bottom."""
    image, left, above = _without_margins(image)
    result = _engine()(image)
    if result.txts is None or result.boxes is None:
        return []
    lines = [
        TextLine(
            text,
            left + float(min(x for x, _ in box)),
            left + float(max(x for x, _ in box)),
            above + float(min(y for _, y in box)),
            above + float(max(y for _, y in box)),
        )
        for text, box, score in zip(result.txts, result.boxes, result.scores, strict=True)
        if text.strip() and score >= _MIN_SCORE
    ]
    return sorted(lines, key=lambda line: (line.top, line.x0))


def _without_margins(image: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], int, int]:
    """Crop a picture to the part that is not empty, and return its position: on a mostly empty
    page, OCR overlooks lines."""
    import numpy as np

    gray = image.mean(axis=2)
    marked = np.abs(gray - np.median(gray)) > _CONTRAST
    rows, columns = np.flatnonzero(marked.any(axis=1)), np.flatnonzero(marked.any(axis=0))
    if not len(rows):
        return image, 0, 0
    above, left = max(int(rows[0]) - _MARGIN, 0), max(int(columns[0]) - _MARGIN, 0)
    inner = image[above : int(rows[-1]) + _MARGIN, left : int(columns[-1]) + _MARGIN]
    return np.ascontiguousarray(inner), left, above


def decode_image(data: bytes) -> NDArray[np.uint8]:
    """The pixels of a picture file. Raises `Unreadable` if it is damaged or too large."""
    import numpy as np
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.width * image.height > _MAX_PIXELS:
                raise Unreadable(f"too large: {image.width:,} × {image.height:,} pixels")
            upright = ImageOps.exif_transpose(image) or image
            return np.asarray(upright.convert("RGB"))[:, :, ::-1]
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise Unreadable(f"not a valid picture: {error}") from error


@cache
def _engine() -> Any:
    import logging

    from rapidocr import RapidOCR

    threads = "EngineConfig.onnxruntime.intra_op_num_threads"
    engine = RapidOCR(params={"Global.log_level": "error", "Global.use_cls": False, threads: 1})
    logging.getLogger("RapidOCR").setLevel(logging.ERROR)
    return engine
