"""The response of a search on stdout: as text, JSON, JSON Lines, or the paths of its files."""

from __future__ import annotations

from functools import partial

from kb.cli import output
from kb.errors import KbError
from kb.values import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kb.cli.invocation import Invocation
    from kb.library.knowledge_base import KnowledgeBase
    from kb.types import Filters, Hit, Response

_QUERY_CHARS = 60  # of the query, in the message that nothing was found
_NAMED_HITS = 5  # in the message about hits without a file


class HitOutput(NamedTuple):
    """The options that select what `kb search` and `kb similar` print."""

    jsonl: bool
    paths: bool
    files: bool
    null: bool

    def check(self, *, json: bool) -> None:
        """Raise `click.UsageError` if the options contradict each other."""
        names = {"--json": json, "--jsonl": self.jsonl, "--paths": self.paths, "-l": self.files}
        chosen = [name for name, given in names.items() if given]
        if len(chosen) > 1 and chosen != ["--json", "--jsonl"]:
            fault = f"{' and '.join(chosen)} cannot be used together"
        elif self.null and not (self.paths or self.files):
            fault = "--null needs --paths or -l"
        else:
            return
        from click import UsageError

        raise UsageError(fault)


def write_response(
    response: Response,
    kb: KnowledgeBase,
    invocation: Invocation,
    form: HitOutput,
    *,
    filters: Filters | None,
) -> None:
    """Print a response to a search with these filters."""
    if form.jsonl:
        _write_lines(response, kb)
    elif invocation.json:
        from kb import wire

        output.write_json(wire.response(response))
    elif form.paths or form.files:
        _write_paths(response, kb, form)
    else:
        _write_text(response, kb, filters)


def is_json(invocation: Invocation, form: HitOutput) -> bool:
    """Whether the output is for programs that read JSON."""
    return invocation.json or form.jsonl


def _write_lines(response: Response, kb: KnowledgeBase) -> None:
    from kb import wire

    for hit in response.hits:
        output.write_json_line(wire.hit(hit))
    _note_degraded(response, kb)


def _write_paths(response: Response, kb: KnowledgeBase, form: HitOutput) -> None:
    paths = [_path(hit, with_line=form.paths) for hit in response.hits]
    shown = [path for path in paths if path is not None]
    if form.files:
        shown = list(dict.fromkeys(shown))
    if form.null:
        output.write_raw("".join(f"{path}\0" for path in shown))
    elif shown:
        terminal = output.is_terminal(output.stdout())
        output.write("\n".join(map(output.escape, shown) if terminal else shown))
    missing = [hit.citation.uri for hit, path in zip(response.hits, paths, strict=True)
               if path is None]  # fmt: skip
    if missing:
        hits = output.count(len(missing), "hit")
        more = ", …" if len(missing) > _NAMED_HITS else ""
        names = output.escape(", ".join(missing[:_NAMED_HITS]))
        output.note(f"{hits} without a file that can be opened: {names}{more}")
    _note_degraded(response, kb)


def _path(hit: Hit, *, with_line: bool) -> str | None:
    file, line = hit.citation.file, hit.citation.line
    return file if file is None or line is None or not with_line else f"{file}:{line}"


def _write_text(response: Response, kb: KnowledgeBase, filters: Filters | None) -> None:
    from kb.cli.hit_view import divider_text, explain_text, hit_text
    from kb.relevance import weak_from

    explained = _explained_hits(response)
    console = output.Console.of(output.stdout())
    highlighter = partial(kb.highlights, response.query)
    explain = response.explain is not None
    parts = [
        hit_text(hit, console, highlighter, explain=explain, why=explained.get(hit.chunk_id, {}))
        for hit in response.hits
    ]
    if (index := weak_from(response.hits)) < len(response.hits):
        parts.insert(index, divider_text(response.hits, console))
    if response.explain is not None:
        parts.append(explain_text(response.explain, response.timing_ms, console))
    if parts:
        output.write_paged("\n\n".join(parts))
    if not response.hits:
        output.note(_nothing_found(response.query, filtered=bool(filters)))
        if filters:
            from kb.cli.path_hint import note_path

            note_path(filters, kb)
        if not kb.documents(limit=1):
            output.note(
                f"the store {output.escape(kb.location)} is empty; to fill it: kb ingest FOLDER"
            )
    _note_degraded(response, kb)


def _explained_hits(response: Response) -> dict[int, dict[str, Any]]:
    """Return the explanation of each hit, by chunk id."""
    hits = () if response.explain is None else response.explain.get("hits", ())
    return {hit["chunk_id"]: hit for hit in hits}


def _nothing_found(query: str, *, filtered: bool) -> str:
    if not any(map(str.isalnum, query)):
        return "the query contains no words"
    ellipsis = "…" if len(query) > _QUERY_CHARS else ""
    shown = output.escape(query[:_QUERY_CHARS] + ellipsis)
    return f"nothing found for {shown!r}" + (" with these filters" if filtered else "")


def _note_degraded(response: Response, kb: KnowledgeBase) -> None:
    if not response.degraded:
        return
    from kb.degradation import degradation_messages

    for text in degradation_messages(response.degraded, can_embed=partial(_can_embed, kb)):
        output.warn(text)


def _can_embed(kb: KnowledgeBase) -> bool:
    try:
        return kb.encoder() is not None
    except KbError:
        return False
