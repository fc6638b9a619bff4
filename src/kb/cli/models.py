"""`kb models` and `kb embed-text`. `kb models pull` and `remove` are in `model_download`."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from kb.cli import output
from kb.cli.invocation import Invocation, pass_invocation
from kb.cli.model_download import pull_command, remove_command
from kb.cli.options import Choice, Command, common_options, option, text_or_stdin, utf8_text
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

    An encoder turns text into vectors for search by meaning; all vectors of a store come from one
    encoder. A judge scores a query and a passage together, for --reranker cross-encoder. The
    settings models.encoder and models.judge select them: a name from this list, a folder that
    contains a model, or none. An encoder can also be `endpoint`, the server at
    models.endpoint_url. To change the encoder of a store that has vectors, use `kb reindex`.

    \b
    Examples:
      kb models
      kb models info kb-mini
      kb models verify
      kb models pull ./bge-m3
    """
    if context.invoked_subcommand is None:
        _list(context.ensure_object(Invocation))


@models_command.command("list", cls=Command)
@common_options()
@pass_invocation
def list_models_command(invocation: Invocation) -> None:
    """List the available models.

    A * marks the models selected in the settings.

    \b
    Example:
      kb models list --json
    """
    _list(invocation)


@models_command.command("info", cls=Command)
@click.argument("name", type=utf8_text)
@common_options()
@pass_invocation
def info_command(invocation: Invocation, *, name: str) -> None:
    """Show the details of a model, without loading it.

    \b
    Example:
      kb models info kb-mini
    """
    from kb import models

    info = models.info(_config(invocation), name)
    if invocation.json:
        _write_json([info])
    else:
        output.write("\n".join(_facts(info)))


@models_command.command("verify", cls=Command)
@click.argument("name", type=utf8_text, required=False)
@common_options()
@pass_invocation
def verify_command(invocation: Invocation, *, name: str | None) -> int:
    """Check models for damage.

    Compares the files with their SHA-256, loads the model and encodes a text. An encoder also takes
    an exam: simple questions in every script that it claims to read. Without NAME, all models are
    checked. The exit status is 1 if a model is broken, or fails the exam in every script.

    \b
    Examples:
      kb models verify
      kb models verify kb-mini --json
    """
    from kb import models

    config = _config(invocation)
    selected = [models.info(config, name)] if name else models.models(config)
    verified = [_verify_model(config, each, name) for each in selected]
    if invocation.json:
        _write_json(verified)
    else:
        for each in verified:
            _write_verdict(each)
        if not verified:
            output.note("no models")
    return 1 if any(each.problem or _is_unfit(each) for each in verified) else 0


def _verify_model(config: Config, info: ModelInfo, name: str | None) -> ModelInfo:
    """Return the model with its problem, if any. A folder is looked up by its path."""
    from kb import models

    if info.problem is not None:
        return info
    try:
        by_path = info.path if info.origin == "folder" else None
        return models.verify(config, name or by_path or info.name)
    except ModelError as error:
        return replace(info, problem=f"{error.message} ({error.hint})")


def _write_verdict(info: ModelInfo) -> None:
    console = output.Console.of(sys.stdout)
    place = output.escape(_place(info))
    if info.problem is None and _is_unfit(info):
        output.write(f"{console.style('unfit ', fg='red')}  {place}{_exam_results(info)}")
    elif info.problem is None:
        output.write(f"{console.style('ok    ', fg='green')}  {place}{_exam_results(info)}")
        for missing in info.missing:
            output.write(f"        without {output.escape(missing)}")
    else:
        problem = output.escape(info.problem)
        output.write(f"{console.style('broken', fg='red')}  {place}: {problem}")


def _is_unfit(info: ModelInfo) -> bool:
    return bool(info.marks) and not any(mark.passed for mark in info.marks or ())


def _exam_results(info: ModelInfo) -> str:
    """Return the results by part: `dense: 12 of 12 correct in English`."""
    by_part: dict[str, list[str]] = {}
    for mark in info.marks or ():
        by_part.setdefault(mark.part, []).append(str(mark))
    results = "; ".join(f"{part}: {', '.join(marks)}" for part, marks in by_part.items())
    return f" ({results})" if results else ""


def _place(info: ModelInfo) -> str:
    """Return the name, with the folder of a user's own model, since its name may not be unique."""
    return f"{info.name} in {info.path}" if info.origin == "folder" else info.name


models_command.add_command(pull_command)
models_command.add_command(remove_command)


# --- embed-text -----------------------------------------------------------------------------------


@click.command("embed-text", cls=Command)
@click.argument("text", type=utf8_text, nargs=-1, required=True)
@option(
    "--as", "side", type=Choice(("query", "passage")), default="passage", show_default=True,
    help="Encode the text as a query or as a passage; models may distinguish them.",
)  # fmt: skip
@option("--model", metavar="NAME", help="The encoder.  [default: models.encoder]")
@common_options()
@pass_invocation
def embed_text_command(
    invocation: Invocation, *, text: tuple[str, ...], side: str, model: str | None
) -> None:
    """Show how the encoder encodes text.

    The output is a dense vector, term weights, and a vector for each token. TEXT is any text; -
    reads it from stdin. --json prints all values.

    \b
    Examples:
      kb embed-text "the radio slots were made wider"
      kb embed-text --as query --json "how wide is a slot" | jq .sparse
    """
    from kb import models, wire

    encoder = models.encoder(_config(invocation), model)
    if encoder is None:
        raise ModelMissing(
            "the encoder is disabled: models.encoder is none", "choose one with --model"
        )
    spec = encoder.spec
    (encoding,) = encoder.encode([text_or_stdin(text)], as_query=side == "query", want=spec.gives)
    if invocation.json:
        output.write_json(wire.embedding(spec, side, encoding))
    else:
        output.write("\n".join(_encoding_lines(spec, side, encoding)))


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
            f"the last {encoding.truncated} tokens exceed the limit of {spec.max_tokens}"
        )
    return _align(facts)


# --- formatting -----------------------------------------------------------------------------------


def _config(invocation: Invocation) -> Config:
    with invocation.open() as kb:
        return kb.config


def _list(invocation: Invocation) -> None:
    from kb import models

    infos = models.models(_config(invocation))
    if invocation.json:
        _write_json(infos)
        return
    for each in infos:
        output.write("\n".join(_summary(each)))
    if not infos:
        output.note("no models: this installation of kb is incomplete")


def _write_json(infos: list[ModelInfo]) -> None:
    from kb import wire

    output.write_json(wire.models(infos))


def _summary(info: ModelInfo) -> list[str]:
    console = output.Console.of(sys.stdout)
    mark = "*" if info.in_use else " "
    spec = info.spec
    name = console.style(output.escape(_title(info)), bold=True)
    if spec is None:
        return [f"{mark} {name}  {console.style(output.escape(info.problem or ''), fg='red')}"]
    origin = f"folder {info.path}" if info.origin == "folder" else info.origin
    if info.origin == "endpoint":
        origin = f"endpoint {info.path}"
    facts = [f"from {origin}", _outputs(spec), _size(info.size_bytes), info.licence]
    line = f"{mark} {name}  {output.escape(', '.join(fact for fact in facts if fact))}"
    return [line, f"    {output.escape(info.summary)}"] if info.summary else [line]


def _title(info: ModelInfo) -> str:
    """Return the name and version; for an endpoint, the name of its model."""
    if info.spec is None:
        return info.name
    detail = info.spec.name if info.origin == "endpoint" else info.spec.version
    return f"{info.name} {detail}"


def _outputs(spec: ModelSpec) -> str:
    if spec.is_judge:
        return "pair scores"
    widths = {"dense": spec.dimension, "tokens": spec.token_dimension}
    return " + ".join(
        f"{part} {widths.get(part) or ''}".rstrip() for part in PARTS if part in spec.gives
    )


def _facts(info: ModelInfo) -> list[str]:
    spec = info.spec
    assert spec is not None  # otherwise `models.info` raises
    facts = {
        "name": spec.name,
        "version": spec.version,
        "from": info.origin,
        "path": info.path,
        "size": _size(info.size_bytes),
        "outputs": _outputs(spec),
        "languages": ", ".join(spec.languages),
        "input": f"{spec.max_tokens} tokens" if spec.max_tokens else None,
        "query": repr(spec.query_prefix) if spec.query_prefix else None,
        "passage": repr(spec.passage_prefix) if spec.passage_prefix else None,
        "missing": "; ".join(info.missing),
        "runs on": info.device,
        "license": info.licence,
        "summary": info.summary,
        "in use": "yes" if info.in_use else "no",
    }
    return _align({name: value for name, value in facts.items() if value})


def _align(facts: dict[str, str]) -> list[str]:
    console = output.Console.of(sys.stdout)
    width = max(map(len, facts))
    return [f"{console.style(f'{name:{width}}', bold=True)}  {output.escape(value)}"
            for name, value in facts.items()]  # fmt: skip


def _size(size_bytes: int | None) -> str | None:
    return None if size_bytes is None else f"{size_bytes / 1e6:.1f} MB"
