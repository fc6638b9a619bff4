"""Images that a document shows: files beside it, read by the rules of an ingest.

A document opens only what its own text shows. The file must be one that a walk of the root would
list, and its first bytes must be those of an image, whatever its name is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from threading import Lock

from kb.config import IngestConfig
from kb.errors import InvalidRequest, NotFound
from kb.ingest.file_names import portable_path
from kb.ingest.secret_files import included_paths
from kb.ingest.walk import walk
from kb.library.passages import file_data
from kb.library.rendering_process import render_within_limits
from kb.ports import Store
from kb.regular_files import FileTooLarge
from kb.types import Document, FileLocation, Node

MAX_IMAGE_BYTES = 8 << 20
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_MAX_CACHED = 64

_cache: dict[bytes, frozenset[str]] = {}
_cache_lock = Lock()


def read_image(
    store: Store, document: Document, text: str, path: str, ingest: IngestConfig
) -> tuple[str, bytes]:
    """The media type and the bytes of an image. `document`, whose text is `text`, must show the
    image by the relative path `path`.

    Raises `NotFound` if the document does not show it or the file must not be read, and
    `InvalidRequest` if the file is too large or not an image.
    """
    location = store.catalog.file_location(document.doc_id)
    if location is None or path not in _shown_paths(document, text):
        raise NotFound(
            "the document does not show this image", "request an image that the document shows"
        )
    file = _find(location, path, ingest)
    try:
        data = file_data(
            file, replace(ingest, max_file_bytes=min(ingest.max_file_bytes, MAX_IMAGE_BYTES))
        )
    except FileTooLarge as error:
        raise InvalidRequest("the image is too large", "open the original") from error
    except OSError as error:
        raise NotFound(
            f"the image cannot be read: {error.strerror or error}", "check the file"
        ) from error
    if (media_type := media_type_of(data)) is None:
        raise InvalidRequest("this is not an image", "supported images: PNG, JPEG, GIF, WebP")
    return media_type, data


def media_type_of(data: bytes) -> str | None:
    """The media type of an image that browsers show, by its first bytes; None for other files."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((name for mark, name in _SIGNATURES if data.startswith(mark)), None)


def _find(location: FileLocation, path: str, ingest: IngestConfig) -> FileLocation:
    """The location of the file at `path`, relative to the file at `location`, if a walk lists it:
    it is inside the root, and neither hidden, ignored nor a secret."""
    folder = os.path.dirname(location.inside)
    inside = os.path.normpath(os.path.join(folder, path.replace("/", os.sep)))
    if os.path.isabs(inside) or inside.split(os.sep, 1)[0] in ("..", "") or "\0" in inside:
        raise NotFound("the image is outside its folder", "move it into the folder")
    if not location.detached:
        part = portable_path(inside)
        result = walk(
            location.root,
            part=part,
            hidden=ingest.hidden,
            follow_links=ingest.follow_links,
            include_secrets=included_paths(ingest.include_secrets),
        )
        for file in result.files:
            if file.path == part:
                return location._replace(inside=file.disk_path)
    raise NotFound("the image is missing, or an ingest would not read it", "check the file")


# --- the paths in a text --------------------------------------------------------------------------


def _shown_paths(document: Document, text: str) -> frozenset[str]:
    """The paths of the images that the rendered document shows. Cached, because a page requests
    many images of one document."""
    named = f"{document.doc_path}\0{document.type}\0{text}"
    key = blake2b(named.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    with _cache_lock:
        cached = _cache.get(key)
    if cached is not None:
        return cached
    rendered = render_within_limits(document.doc_path, document.type, text)
    paths = frozenset(_paths(rendered.nodes))
    if rendered.kind != "elements":  # it may have taken too long this time
        return paths
    with _cache_lock:
        _cache[key] = paths
        while len(_cache) > _MAX_CACHED:
            del _cache[next(iter(_cache))]
    return paths


def _paths(nodes: Sequence[Node]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, str):
            continue
        if node["tag"] == "img":
            yield node["image"]
        yield from _paths(node["children"])
