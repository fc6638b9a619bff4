"""The files of an archive: each is parsed like a file in a folder, under its path in the archive as
the heading.

Bounded: the size limits of `zip_archive.Archive` apply to the archive as a whole, nested archives
are read to a depth of two, and at most `_MAX_MEMBERS` files and `_MAX_BLOCKS` paragraphs are read.
A warning lists what is not read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace

from kb.ingest import file_names
from kb.ingest.decode import Unreadable, Unsupported, decode
from kb.ingest.parse import HEAD_BYTES, Parsers
from kb.ingest.parsed_document import all_warnings
from kb.ingest.parser_support.extract import Extract
from kb.ingest.parser_support.zip_archive import TOTAL_BYTES, Archive
from kb.ingest.parsers.conversations import ConversationsParser, slack
from kb.ingest.secret_files import HEAD_BYTES as SECRET_BYTES
from kb.ingest.secret_files import secret_reason
from kb.ports import Parsed, Source
from kb.types import Attributes, Block

_MAX_MEMBERS = 5_000
_MAX_BLOCKS = 500_000  # paragraphs and list items; prose of 100 MB has fewer
_MAX_DEPTH = 2  # of nested archives, as in Notion exports
_NAMED = 5  # files listed in a warning
_TAGS = 100  # per document
_METADATA = frozenset({"__MACOSX", ".DS_Store"})  # of macOS; without text of the user


def parse_archive(source: Source, max_chars: int) -> Parsed:
    reader = _Reader(Parsers(max_chars, plug_ins=()), source)
    reader.read(source.data, "", 1)
    if not reader.types:
        raise Unsupported(f"none of its files can be read{reader.example()}")
    return Parsed(
        type="archive",
        blocks=reader.out.blocks,
        title=file_names.title_of(source.name),
        attributes=Attributes(tags=tuple(reader.tags)[:_TAGS]),
        warnings=tuple(reader.all_warnings()),
        text=reader.out.text,
    )


class _Reader:
    """Reads the files of an archive, and of archives inside it, into one extract."""

    def __init__(self, parsers: Parsers, source: Source) -> None:
        self.out = Extract()
        self.types: Counter[str] = Counter()
        self.tags: dict[str, None] = {}
        self._parsers = parsers
        self._source = source
        self._skipped: dict[str, list[str]] = defaultdict(list)  # by reason
        self._display_paths: set[str] = set()
        self._people: dict[str, str] = {}
        self._hidden: list[str] = []
        self._warnings: list[str] = []
        self._left_bytes = TOTAL_BYTES
        self._left_members = _MAX_MEMBERS

    def read(self, data: bytes, prefix: str, depth: int) -> None:
        archive = Archive(data)
        for name in filter(_is_file, archive.replaced_names()):
            path = prefix + "/".join(_steps(name))
            self._skip(path, "a later file has the same name")
        names = []
        for name in archive.names():
            if _is_hidden(name):
                self._hidden.append(prefix + "/".join(_steps(name)))
            elif _is_file(name):
                names.append(name)
        self._people |= _people(archive)
        for number, name in enumerate(names, 1):
            path = prefix + "/".join(_steps(name))
            if self._left_members == 0:
                self._warnings.append(f"only the first {_MAX_MEMBERS:,} files are read")
                return
            if len(self.out.blocks) >= _MAX_BLOCKS:
                self._warnings.insert(0, f"the files after {_MAX_BLOCKS:,} paragraphs are not read")
                return
            self._left_members -= 1
            try:
                member = archive.read(name) or b""
                self._left_bytes -= len(member)
                if self._left_bytes < 0:
                    self._warnings.append(f"only the first {TOTAL_BYTES:,} bytes are read")
                    return
                self._read_member(path, member, depth)
            except (Unreadable, Unsupported) as error:
                self._skip(path, error.reason)
            if depth == 1:
                self._source.on_progress(number, len(names))

    def _read_member(self, path: str, data: bytes, depth: int) -> None:
        if reason := secret_reason(path, data[:SECRET_BYTES], ()):
            raise Unsupported(reason)
        if not data.strip():
            return
        name = path.rpartition("/")[2]
        if file_names.suffix_of(name) == ".zip" and data.startswith(b"PK"):
            if depth == _MAX_DEPTH:
                raise Unsupported(f"archives are read to a depth of {_MAX_DEPTH}")
            self.read(data, f"{path}/", depth + 1)
            return
        parser = self._parsers.detect(Source(name, data[:HEAD_BYTES]))
        if parser is None:
            raise Unsupported("unsupported format")
        source = Source(name, data, self._source.mtime_ns)
        if isinstance(parser, ConversationsParser):
            parsed = parser.parse(source, self._people)
        else:
            parsed = parser.parse(source)
        self._write(self._display_path(path), parsed, data)

    def _skip(self, path: str, reason: str) -> None:
        self._skipped[reason].append(file_names.without_notion_ids(path))

    def _display_path(self, path: str) -> str:
        """The path as headings and citations show it, without the ids of Notion. If another file
        has this path already, the ids are kept."""
        shown = file_names.without_notion_ids(path)
        if shown in self._display_paths:
            return path
        self._display_paths.add(shown)
        return shown

    def _write(self, path: str, parsed: Parsed, data: bytes) -> None:
        self.out.place = path
        self.out.enter_section(1, "")
        self.out.heading(1, path)
        if parsed.title and parsed.title not in path:
            self.out.paragraph(parsed.title)
        blocks = list(parsed.blocks)
        text = decode(data) if parsed.text is None else parsed.text
        if any(block.span.page is not None for block in blocks):
            for page, paragraphs in _pages(text):
                self.out.place = f"{path}, page {page}"
                self.out.heading(2, f"Page {page}")
                for paragraph in paragraphs:
                    self.out.paragraph(paragraph)
        else:
            lines = _cited_lines(text, blocks)
            self.out.add_blocks(lines, map(_at_line, blocks) if parsed.text is None else blocks)
        self.types[parsed.type] += 1
        self.tags |= dict.fromkeys(parsed.attributes.tags)
        self._warnings += [f"{path}: {warning}" for warning in all_warnings(parsed, data)]

    def example(self) -> str:
        if self._skipped:
            reason, paths = next(iter(self._skipped.items()))
            return f": {paths[0]}: {reason}"
        return f": hidden: {self._hidden[0]}" if self._hidden else ""

    def all_warnings(self) -> Iterator[str]:
        yield from self._warnings[:_NAMED]
        if len(self._warnings) > _NAMED:
            yield f"and {len(self._warnings) - _NAMED} more"
        for reason, paths in self._skipped.items():
            yield f"not read: {reason}: {_listed(paths)}"
        if self._hidden:
            yield f"hidden files are not read: {_listed(self._hidden)}"


def _people(archive: Archive) -> dict[str, str]:
    """The names of people by id, if the archive is an export of Slack."""
    try:
        return slack.people(archive.read(slack.USERS) or b"")
    except (Unreadable, Unsupported):
        return {}


def _listed(items: list[str]) -> str:
    """The first items, and how many more there are."""
    more = f", and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return "; ".join(items[:_NAMED]) + more


def _is_file(name: str) -> bool:
    """Whether a member is a file with content of the user, not a folder or metadata of a system."""
    return not name.endswith("/") and not any(step in _METADATA for step in _steps(name))


def _is_hidden(name: str) -> bool:
    """Whether kb would leave the file out if it were in a folder."""
    steps = _steps(name)
    return _is_file(name) and any(
        step in file_names.TOOL_FOLDERS or step.startswith(".") for step in steps
    )


def _steps(name: str) -> list[str]:
    """The names in the path of a member, without those that stand for a folder, such as `..`."""
    return [step for step in name.split("/") if step not in ("", ".", "..")]


def _cited_lines(text: str, blocks: list[Block]) -> list[str]:
    """The lines of a text; those in no block, such as front matter, are blank."""
    cited = set[int]()
    for block in blocks:
        cited.update(range((block.span.start or 1) - 1, block.span.end or 1))
    return [line if number in cited else "" for number, line in enumerate(text.split("\n"))]


def _at_line(block: Block) -> Block:
    """The block of a text file, with its line as its place."""
    return replace(block, span=replace(block.span, extra={"place": f":{block.span.start or 1}"}))


def _pages(text: str) -> Iterator[tuple[int, list[str]]]:
    for number, page in enumerate(text.split("\f"), 1):
        if paragraphs := [each for each in page.split("\n\n") if each.strip()]:
            yield number, paragraphs
