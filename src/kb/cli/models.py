"""`kb models` and `kb embed-text`: which models there are, and what one makes of a text.

`kb models pull` and `remove`, which change what there is, are in `pulling`."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from kb.cli import output
from kb.cli.invocation import Session, pass_session
from kb.cli.model_download import pull_command, remove_command
from kb.cli.options import Choice, Command, common_options, option, readable, text_or_stdin
from kb.errors import ModelError, ModelMissing
from kb.types import PARTS

if TYPE_CHECKING:
    from kb.config import Config
    from kb.types import Encoding, ModelInfo, ModelSpec

_FIRST_VALUES = 6
_STRONGEST_TERMS = 12


@click.group("models", invoke_without_command=True)
@common_options()
@click.pass_context
def models_command(context: click.Context) -> None:
    """Show the models: encoders and judges.

    An encoder makes vectors of texts; search by meaning needs one, and the vectors of a store are
    all of one. A judge reads a query and a passage together; a search with --reranker cross-encoder
    asks it. Which are used say models.encoder and models.judge in the settings: a name from this
    list, a folder that holds a model, or none; for an encoder also endpoint, a server that
    models.endpoint_url names. A store that has vectors changes over by kb reindex.

    \b
    Examples:
      kb models
      kb models info kb-mini
      kb models verify
      kb models pull ./bge-m3
    """
    if context.invoked_subcommand is None:
        _list(context.ensure_object(Session))


@models_command.command("list", cls=Command)
@common_options()
@pass_session
def list_models_command(session: Session) -> None:
    """List the models there are.

    A * marks those that the settings name.

    \b
    Example:
      kb models list --json
    """
    _list(session)


@models_command.command("info", cls=Command)
@click.argument("name", type=readable)
@common_options()
@pass_session
def info_command(session: Session, *, name: str) -> None:
    """Show everything about one model, without loading it.

    \b
    Example:
      kb models info kb-mini
    """
    from kb import models

    found = models.info(_config(session), name)
    if session.json:
        _say_json([found])
    else:
        output.say("\n".join(_facts(found)))


@models_command.command("verify", cls=Command)
@click.argument("name", type=readable, required=False)
@common_options()
@pass_session
def verify_command(session: Session, *, name: str | None) -> int:
    """Look whether models are what they should be.

    Compares the files with their SHA-256, byte for byte, loads the model and gives it a text. An
    encoder also sits the exam: how many answers it knows, in every script that it says it reads.
    Without NAME, every model is looked at. The exit status is 1 if something is wrong with one, or
    it reads nothing.

    \b
    Examples:
      kb models verify
      kb models verify kb-mini --json
    """
    from kb import models

    config = _config(session)
    named = [models.info(config, name)] if name else models.models(config)
    verified = [_verified(config, each, name) for each in named]
    if session.json:
        _say_json(verified)
    else:
        for each in verified:
            _say_verdict(each)
        if not verified:
            output.note("there are no models")
    return 1 if any(each.problem or _is_unfit(each) for each in verified) else 0


def _verified(config: Config, found: ModelInfo, name: str | None) -> ModelInfo:
    """With what is wrong with it as its problem. A folder is found by its path, not its name."""
    from kb import models

    if found.problem is not None:
        return found
    try:
        by_path = found.path if found.origin == "folder" else None
        return models.verify(config, name or by_path or found.name)
    except ModelError as error:
        return replace(found, problem=f"{error.message} ({error.hint})")


def _say_verdict(found: ModelInfo) -> None:
    sheet = output.Page.of(sys.stdout)
    place = output.visible(_place(found))
    if found.problem is None and _is_unfit(found):
        output.say(f"{sheet.style('unfit ', fg='red')}  {place}{_marks(found)}")
    elif found.problem is None:
        output.say(f"{sheet.style('ok    ', fg='green')}  {place}{_marks(found)}")
    else:
        problem = output.visible(found.problem)
        output.say(f"{sheet.style('broken', fg='red')}  {place}: {problem}")


def _is_unfit(found: ModelInfo) -> bool:
    return bool(found.marks) and not any(mark.passed for mark in found.marks or ())


def _marks(found: ModelInfo) -> str:
    """Part by part: `dense: 12 of 12 in Latin`."""
    by_part: dict[str, list[str]] = {}
    for mark in found.marks or ():
        by_part.setdefault(mark.part, []).append(str(mark))
    told = "; ".join(f"{part}: {', '.join(marks)}" for part, marks in by_part.items())
    return f" ({told})" if told else ""


def _place(found: ModelInfo) -> str:
    """Its name; with its folder, where that is the user's: its name may be another's too."""
    return f"{found.name} in {found.path}" if found.origin == "folder" else found.name


models_command.add_command(pull_command)
models_command.add_command(remove_command)


# --- what one makes of a text ---------------------------------------------------------------------


@click.command("embed-text", cls=Command)
@click.argument("text", type=readable, nargs=-1, required=True)
@option(
    "--as", "side", type=Choice(("query", "passage")), default="passage", show_default=True,
    help="What to take the text for. Models may tell one from the other.",
)  # fmt: skip
@option("--model", metavar="NAME", help="The encoder.  [default: models.encoder]")
@common_options()
@pass_session
def embed_text_command(
    session: Session, *, text: tuple[str, ...], side: str, model: str | None
) -> None:
    """Show what the encoder makes of a text.

    That is a dense vector, the weights of its terms, and a vector for each of its tokens. TEXT is
    stdin if it is a single -. With --json, all values are there.

    \b
    Examples:
      kb embed-text "the radio slots were made wider"
      kb embed-text --as query --json "how wide is a slot" | jq .sparse
    """
    from kb import models, wire

    encoder = models.encoder(_config(session), model)
    if encoder is None:
        raise ModelMissing(
            "the encoder is switched off: models.encoder is none", "name one with --model"
        )
    spec = encoder.spec
    (encoding,) = encoder.encode([text_or_stdin(text)], as_query=side == "query", want=spec.gives)
    if session.json:
        output.say_json(wire.embedding(spec, side, encoding))
    else:
        output.say("\n".join(_encoding_lines(spec, side, encoding)))


def _encoding_lines(spec: ModelSpec, side: str, encoding: Encoding) -> list[str]:
    facts = {"model": f"{spec.name} {spec.version}, as {side}"}
    if encoding.dense is not None:
        shown = ", ".join(f"{value:.4f}" for value in encoding.dense[:_FIRST_VALUES])
        facts["dense"] = f"{len(encoding.dense)} dimensions: {shown}, ..."
    if encoding.sparse is not None:
        by_weight = sorted(encoding.sparse.items(), key=lambda item: (-item[1], item[0]))
        shown = ", ".join(f"{term} {weight:.2f}" for term, weight in by_weight[:_STRONGEST_TERMS])
        more = ", ..." if len(by_weight) > _STRONGEST_TERMS else ""
        facts["sparse"] = f"{len(by_weight)} terms: {shown}{more}" if by_weight else "no terms"
    if encoding.tokens is not None:
        width = encoding.tokens.dimension
        facts["tokens"] = f"{len(encoding.tokens)} vectors of {width} dimensions"
    if encoding.truncated:
        facts["truncated"] = (
            f"the last {encoding.truncated} tokens of the text did not fit into {spec.max_tokens}"
        )
    return _aligned(facts)


# --- as lines -------------------------------------------------------------------------------------


def _config(session: Session) -> Config:
    with session.open() as kb:
        return kb.config


def _list(session: Session) -> None:
    from kb import models

    found = models.models(_config(session))
    if session.json:
        _say_json(found)
        return
    for each in found:
        output.say("\n".join(_summary(each)))
    if not found:
        output.note("there are no models: this installation of kb is not complete")


def _say_json(found: list[ModelInfo]) -> None:
    from kb import wire

    output.say_json(wire.models(found))


def _summary(found: ModelInfo) -> list[str]:
    sheet = output.Page.of(sys.stdout)
    mark = "*" if found.in_use else " "
    spec = found.spec
    name = sheet.style(output.visible(_title(found)), bold=True)
    if spec is None:
        return [f"{mark} {name}  {sheet.style(output.visible(found.problem or ''), fg='red')}"]
    origin = f"folder {found.path}" if found.origin == "folder" else found.origin
    if found.origin == "endpoint":
        origin = f"endpoint {found.path}"
    facts = [f"from {origin}", _gives(spec), _size(found.size_bytes), found.licence]
    line = f"{mark} {name}  {output.visible(', '.join(fact for fact in facts if fact))}"
    return [line, f"    {output.visible(found.summary)}"] if found.summary else [line]


def _title(found: ModelInfo) -> str:
    """Its name and version; of an endpoint, the model that is asked there."""
    if found.spec is None:
        return found.name
    asked = found.spec.name if found.origin == "endpoint" else found.spec.version
    return f"{found.name} {asked}"


def _gives(spec: ModelSpec) -> str:
    if spec.is_judge:
        return "scores of pairs"
    widths = {"dense": spec.dimension, "tokens": spec.token_dimension}
    return " + ".join(
        f"{part} {widths.get(part) or ''}".rstrip() for part in PARTS if part in spec.gives
    )


def _facts(found: ModelInfo) -> list[str]:
    spec = found.spec
    assert spec is not None  # or there would have been an error
    facts = {
        "name": spec.name,
        "version": spec.version,
        "from": found.origin,
        "path": found.path,
        "size": _size(found.size_bytes),
        "gives": _gives(spec),
        "sees": f"{spec.max_tokens} tokens" if spec.max_tokens else None,
        "query": repr(spec.query_prefix) if spec.query_prefix else None,
        "passage": repr(spec.passage_prefix) if spec.passage_prefix else None,
        "licence": found.licence,
        "summary": found.summary,
        "in use": "yes" if found.in_use else "no",
    }
    return _aligned({name: value for name, value in facts.items() if value})


def _aligned(facts: dict[str, str]) -> list[str]:
    sheet = output.Page.of(sys.stdout)
    width = max(map(len, facts))
    return [f"{sheet.style(f'{name:{width}}', bold=True)}  {output.visible(value)}"
            for name, value in facts.items()]  # fmt: skip


def _size(size_bytes: int | None) -> str | None:
    return None if size_bytes is None else f"{size_bytes / 1e6:.1f} MB"
