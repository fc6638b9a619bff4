"""Zip files for tests."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping


def zipped(parts: Mapping[str, str | bytes]) -> bytes:
    """A zip file whose first part is not compressed, as EPUB requires."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, (name, content) in enumerate(parts.items()):
            how = zipfile.ZIP_STORED if name == "mimetype" and not number else None
            archive.writestr(name, content, how)
    return stream.getvalue()
