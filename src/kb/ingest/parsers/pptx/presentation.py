"""PowerPoint presentations: the slides in order, each with its notes."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from kb.ingest import file_names
from kb.ingest.decode import Unreadable
from kb.ingest.parser_support.extract import Extract, one_line
from kb.ingest.parser_support.office import (
    SHOWN_PROPERTIES,
    attributes_of,
    embedded_texts,
    open_archive,
    properties_of,
    relations,
    unescape,
)
from kb.ingest.parser_support.zip_archive import Archive, find_all, local_name
from kb.metadata import TITLE_CHARS
from kb.ports import Parsed, Source

_PRESENTATION = "ppt/presentation.xml"
_TITLES = ("title", "ctrTitle")
_FURNITURE = ("dt", "ftr", "hdr")  # date, footer and header: written once, at the end
_NUMBERS = ("sldNum", "sldImg")
_OTHER_PARTS = ("ppt/charts/", "ppt/comments", "ppt/diagrams/data")
_BREAKS = {"br": "\n", "tab": "\t"}


def parse_pptx(source: Source) -> Parsed:
    archive = open_archive(source.data, ".pptx")
    root = archive.xml(_PRESENTATION)
    if root is None:
        raise Unreadable(f"not a PowerPoint presentation: {_PRESENTATION} is missing")
    out = Extract()
    first = ""
    layouts: dict[str, None] = {}
    hidden: list[str] = []
    slides = _slides(archive, root)
    for number, path in enumerate(slides, 1):
        slide = archive.xml(path)
        if slide is None:
            continue
        out.place = f"slide {number}"
        title = _write_slide(out, number, slide)
        first = first or title
        for kind, notes in relations(archive, path).values():
            if kind == "notesSlide":
                for text in _notes(archive.xml(notes)):
                    out.paragraph(text, "> ")
                hidden += _furniture(archive.xml(notes))
        hidden += [*_descriptions(slide), *_furniture(slide)]
        _add_layouts(archive, path, layouts)
        source.on_progress(number, len(slides))
    for path in layouts:
        hidden += _boxes(archive.xml(path))
    properties = properties_of(archive)
    title = properties.get("title") or first
    others = [text for name in archive.names() if name.startswith(_OTHER_PARTS)
              and name.endswith(".xml") for text in _texts(archive.xml(name))]  # fmt: skip
    shown = [properties[key] for key in SHOWN_PROPERTIES if key in properties]
    warnings: list[str] = []
    embedded = embedded_texts(archive, "ppt/embeddings", warnings)
    out.append_missing([*hidden, *others, *embedded, *shown], title[:TITLE_CHARS])
    return Parsed(
        type="pptx",
        blocks=out.blocks,
        title=title or file_names.title_of(source.name),
        attributes=attributes_of(properties),
        warnings=tuple(warnings),
        text=out.text,
    )


def _slides(archive: Archive, root: Element) -> list[str]:
    """The parts of the slides, in the order of the presentation, each once."""
    parts = relations(archive, _PRESENTATION)
    ids = [value for each in find_all(root, "sldId") for key, value in each.items()
           if key.endswith("}id")]  # fmt: skip
    slides = (parts[each][1] for each in ids if each in parts and parts[each][0] == "slide")
    return list(dict.fromkeys(slides))


def _add_layouts(archive: Archive, path: str, layouts: dict[str, None]) -> None:
    """Add the layout of a slide, and the master of the layout."""
    for kind, layout in relations(archive, path).values():
        if kind == "slideLayout" and layout not in layouts:
            layouts[layout] = None
            parts = relations(archive, layout).values()
            layouts |= {part: None for kind, part in parts if kind == "slideMaster"}


def _boxes(root: Element | None) -> Iterator[str]:
    """Yield the text that a layout shows on its slides: the text of boxes that are not
    placeholders."""
    for shape in find_all(root, "sp"):
        if not find_all(shape, "ph"):
            yield from _paragraphs(shape)


def _write_slide(out: Extract, number: int, slide: Element) -> str:
    """Write a slide under a heading with its number, by which it can be found; return its
    title."""
    shapes = list(_shapes(slide))
    titles = [one_line(" ".join(_paragraphs(each))) for kind, each in shapes if kind in _TITLES]
    title = next((text for text in titles if text), "")
    out.heading(1, f"Slide {number}" + (f": {title}" if title else ""))
    for kind, shape in shapes:
        if kind in _TITLES and one_line(" ".join(_paragraphs(shape))) == title:
            continue
        if kind == "table":
            rows = (each for each in shape.iter() if local_name(each) == "tr")
            out.table([" ".join(_paragraphs(cell)) for cell in find_all(row, "tc")] for row in rows)
        else:
            out.lines(_paragraphs(shape))
    return title


def _shapes(root: Element) -> Iterator[tuple[str, Element]]:
    """Yield the shapes with text and the tables, each with the kind of its placeholder."""
    for element in root.iter():
        kind = local_name(element)
        if kind == "tbl":
            yield "table", element
        elif kind == "sp":
            types = [each.get("type", "") for each in find_all(element, "ph")]
            if not any(each in (*_FURNITURE, *_NUMBERS) for each in types):
                yield (types[0] if types else ""), element


def _paragraphs(root: Element) -> Iterator[str]:
    for paragraph in find_all(root, "p"):
        pieces = (_BREAKS.get(local_name(each)) or (each.text or "" if local_name(each) == "t"
                  else "") for each in paragraph.iter())  # fmt: skip
        if text := one_line(unescape("".join(pieces))):
            yield text


def _notes(root: Element | None) -> Iterator[str]:
    for _kind, shape in _shapes(root) if root is not None else ():
        yield from _paragraphs(shape)


def _furniture(root: Element | None) -> Iterator[str]:
    """Yield the dates, headers and footers of a slide, which most slides share."""
    for shape in find_all(root, "sp"):
        if any(each.get("type", "") in _FURNITURE for each in find_all(shape, "ph")):
            yield from _paragraphs(shape)


def _descriptions(root: Element) -> Iterator[str]:
    """Yield the descriptions of pictures and shapes."""
    for element in find_all(root, "cNvPr"):
        yield element.get("descr", "")
        yield element.get("title", "")


def _texts(root: Element | None) -> Iterator[str]:
    """Yield the texts of charts, diagrams and comments."""
    for element in root.iter() if root is not None else ():
        if local_name(element) in ("t", "v", "text") and element.text:
            yield unescape(element.text)
