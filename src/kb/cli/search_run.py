"""Runs `kb search` with its parsed arguments: the search, its output, and notes about dropped hits.
Does not load click (see `kb.cli.arguments`)."""

from __future__ import annotations

import os
from collections.abc import Callable

from kb.cli import output
from kb.cli.arguments import text_or_stdin
from kb.cli.hit_output import HitOutput, is_json, write_response
from kb.types import Filters, SearchRequest
from kb.values import TYPE_CHECKING, Any, replace

if TYPE_CHECKING:
    from kb.cli.invocation import Invocation
    from kb.library.knowledge_base import KnowledgeBase
    from kb.types import Response

_NO_THRESHOLD = -1e6  # lower than any score


def run_search(
    invocation: Invocation,
    /,
    *,
    query: tuple[str, ...],
    mode: str | None,
    fts_only: bool,
    vec_only: bool,
    settings: tuple[str, ...],
    rerank: bool,
    reranker: str | None,
    no_rerank: bool,
    group: bool,
    show_all: bool,
    filters: Filters,
    threshold: float | None,
    min_relevance: float | None,
    jsonl: bool,
    paths: bool,
    files: bool,
    null: bool,
    **options: Any,
) -> None:
    """Search and print the hits. The parameters are those of `kb search`."""
    # numpy starts a thread for every core, which takes as long as the rest of its import. A search
    # does not use these threads.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    form = HitOutput(jsonl, paths, files, null)
    form.check(json=invocation.json)
    changed: dict[str, Any] = dict(_parse_setting(text) for text in settings)
    with invocation.open() as kb:
        request = SearchRequest(
            text_or_stdin(query),
            mode=_mode(mode, fts_only=fts_only, vec_only=vec_only),
            rerank=_reranker(reranker, on=rerank, off=no_rerank),
            filters=filters,
            settings=changed | {"group": True} if group else changed,
            min_relevance=min_relevance,
            collapse=False if show_all else None,
            **options,
        )

        def search(threshold: float | None) -> Response:
            return kb.execute(replace(request, threshold=threshold))

        response = show(search, threshold, invocation, kb, form, filters=filters)
        if min_relevance and not (response.hits or is_json(invocation, form)):
            _note_min_relevance(kb.execute(replace(request, min_relevance=0.0)), min_relevance)


def _mode(mode: str | None, *, fts_only: bool, vec_only: bool) -> str | None:
    modes = {"--fts-only": "lexical"} if fts_only else {}
    modes |= {"--vec-only": "vector"} if vec_only else {}
    modes |= {f"--mode {mode}": mode} if mode is not None else {}
    if len(set(modes.values())) > 1:
        from click import UsageError

        raise UsageError(f"{' and '.join(modes)} cannot be used together")
    return next(iter(modes.values()), None)


def _reranker(name: str | None, *, on: bool, off: bool) -> str | bool | None:
    off_by = "--no-rerank" if off else "--reranker none" if name == "none" else None
    on_by = "--rerank" if on else f"--reranker {name}" if name not in (None, "none") else None
    if off_by is not None and on_by is not None:
        from click import UsageError

        raise UsageError(f"{on_by} and {off_by} cannot be used together")
    return False if off_by is not None else name or on or None


def show(
    search: Callable[..., Response],
    threshold: float | None,
    invocation: Invocation,
    kb: KnowledgeBase,
    form: HitOutput,
    *,
    filters: Filters | None,
) -> Response:
    """Run a search with a threshold, and print its hits."""
    response = search(threshold=threshold)
    if not is_json(invocation, form):
        from kb.cli import last_hits

        uris = [hit.citation.uri for hit in response.hits]
        last_hits.save(invocation.store_file, invocation.terminal, uris)
    write_response(response, kb, invocation, form, filters=filters)
    if threshold is not None and not (response.hits or is_json(invocation, form)):
        _note_threshold(search(threshold=_NO_THRESHOLD), threshold)
    return response


def _note_threshold(response: Response, threshold: float) -> None:
    """Print the best score: the scale of scores depends on the profile."""
    if response.hits:
        best = max(hit.score for hit in response.hits)
        hits = output.count(response.returned, "hit")
        output.note(f"--threshold {threshold:g} dropped {hits}; the best score is {best:.4g}")


def _note_min_relevance(response: Response, least: float) -> None:
    """Print the best relevance, so that the caller can choose another limit."""
    known = [hit.relevance for hit in response.hits if hit.relevance is not None]
    if known:
        hits = output.count(len(known), "hit")
        best = f"the best relevance is {max(known):.2g}"
        output.note(f"--min-relevance {least:g} dropped {hits}; {best}")


def _parse_setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        from click import BadParameter

        raise BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--set")
    return key.strip(), value.strip()
