"""`kb open`.

A store may come from someone else. It cannot choose a program, because programs come from the
user's environment and settings. It cannot choose a file outside the folders attached to it: before
a file is opened, `KnowledgeBase.get` has read it by the rules of an ingest. Nor can it choose how a
file is opened: the name and the first bytes of the file decide that.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import click

from kb.cli import output, programs
from kb.cli.hit_number import citation_of
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.options import Command, common_options, document_argument
from kb.errors import ConfigError

if TYPE_CHECKING:
    from kb.config import OpenConfig
    from kb.types import Citation, Passage

_PDF_HEAD_BYTES = 1024  # a PDF may begin with other bytes
_DOCUMENT_SUFFIXES = (
    ".html", ".htm", ".xhtml", ".docx", ".epub", ".odt", ".ods", ".odp", ".rtf", ".pptx", ".xlsx",
    ".mht", ".mhtml",
)  # fmt: skip
_PAGE_SUFFIXES = (".html", ".htm", ".xhtml")
_STATES = {
    "exact": "",
    "moved": " (the passage has moved)",
    "stale": " (the file has changed since it was indexed; to update: kb ingest)",
}


@click.command("open", cls=Command)
@document_argument("target", metavar="N|CITATION")
@common_options()
@pass_invocation
def open_command(invocation: Invocation, *, target: str) -> int:
    """Open a hit in your editor or PDF viewer.

    N is the number of a hit of the last search in this terminal; if there is no such hit, N is the
    name of a document. CITATION is a citation from `kb search`, or the path or the unique name of a
    document.

    Text files open in $VISUAL or $EDITOR, at the line if kb knows the editor's option for that.
    PDFs open in the system's viewer, at the page if kb knows the viewer's option. HTML pages, books
    and office documents open in their application; with $BROWSER, a page opens at its anchor.
    Everything else is shown in the pager: notes, mail, files that no longer exist or must not be
    read, and everything but text files if there is no display. The settings open.editor and
    open.pdf_viewer select other programs.

    With --json, nothing is opened: the citation is printed, with file, line, page and link.

    \b
    Examples:
      kb open 1
      kb open notes/retry.md#L12-L34
    """
    with invocation.open() as kb:
        passage = kb.get(citation_of(target, kb, invocation), count=not invocation.json)
        if invocation.json:
            from kb import wire

            output.write_json(wire.citation(passage.citation))
            return 0
        return open_passage(passage, kb.config.open)


def open_passage(passage: Passage, config: OpenConfig) -> int:
    """Open a passage in its program, and return the exit status."""
    citation = passage.citation
    # A reason means that the file could not be read, or must not be.
    file = citation.file if passage.reason is None else None
    place = f" ({citation.place})" if citation.place else ""
    note = output.escape(f"{citation.uri}{place}{_STATES[passage.state]}")
    if file is not None and citation.line is not None:
        output.note(f"opening {note}")
        return run_editor(programs.editor_command(file, citation.line, config.editor, os.environ))
    if file is not None and programs.has_display(os.environ) and _open_window(
        file, citation, config
    ):  # fmt: skip
        output.note(f"opened {note}")
        return 0
    if passage.reason is not None:
        note += f" (this is the indexed text; {output.escape(passage.reason)})"
    output.note(note)
    from kb.cli.hit_view import passage_text

    click.echo_via_pager(passage_text(passage, output.Console.of(sys.stdout)))
    return 0


def run_editor(command: list[str]) -> int:
    """Run an editor in this terminal, and return its exit status."""
    try:
        return subprocess.run(command, check=False).returncode
    except OSError as error:
        raise ConfigError(
            f"cannot start {command[0]}: {error.strerror}",
            "set $EDITOR, or open.editor in your settings",
        ) from error


def _open_window(file: str, citation: Citation, config: OpenConfig) -> bool:
    """Open a PDF, or another document that has its own application. Returns False for other files,
    and if no program is known."""
    command = None
    if _is_pdf(file):
        viewer = _default_pdf_viewer()
        command = programs.pdf_command(file, citation.page, config.pdf_viewer, viewer)
    elif not file.lower().endswith(_DOCUMENT_SUFFIXES):
        return False
    elif file.lower().endswith(_PAGE_SUFFIXES):
        command = programs.browser_command(file, citation.place, os.environ)
    if command is None and sys.platform == "win32":
        os.startfile(file)
        return True
    command = command or programs.system_command(file)
    if command is None:
        return False
    nothing = subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
        )
        process.returncode = 0  # nobody waits for it, which Python would warn about
    except OSError as error:
        raise ConfigError(
            f"cannot start {command[0]}: {error.strerror}",
            "install it, or set open.pdf_viewer in your settings"
            if _is_pdf(file)
            else "install it, or open the file yourself",
        ) from error
    return True


def _is_pdf(file: str) -> bool:
    from kb.regular_files import open_file

    if not file.lower().endswith(".pdf"):
        return False
    with open_file(file, links="follow") as opened:
        return b"%PDF-" in opened.head(_PDF_HEAD_BYTES)


def _default_pdf_viewer() -> str | None:
    """The name of the system's PDF viewer, if the system reports it and kb knows it."""
    if sys.platform != "linux":
        return None
    query = ["xdg-mime", "query", "default", "application/pdf"]
    try:
        asked = subprocess.run(query, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return programs.default_pdf_viewer(asked.stdout)
