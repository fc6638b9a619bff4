"""Encoders and judges: texts to vectors and to scores, on this machine, from files on disk.

    registry   which models there are, and the one that a name means
    manifest   `model.json`: what a model's files are, read before any of them is loaded
    tokens     a text's tokens, and which of them count
    session    a loaded graph on the processor or the GPU that was chosen
    onnx_model a graph and its tokenizer, loaded when they are needed
    onnx       the encoder over all these
    onnx_judge the cross-encoder over all these: a query and a passage, read together

    derived    the manifest of an export that has none, from its `graph_file` and config
    endpoint   an encoder behind an address; `asking` speaks to it
    use_multilingual   an encoder that a package brings
    pull       models from elsewhere, by `download`, to the `shelf`
    network    whether and how another machine is asked, for these two alone

Nothing here loads numpy or ONNX Runtime before a text is encoded, and nothing opens a connection
but `endpoint` and `pull`, to addresses that the user names.
"""

from __future__ import annotations

from kb.models.lookup import is_endpoint
from kb.models.registry import (
    GROUP,
    JUDGES,
    OFF,
    check,
    encoder,
    has_multilingual,
    info,
    is_installed,
    judge,
    lasting,
    models,
    unit_texts,
    verify,
)

__all__ = [
    "GROUP", "JUDGES", "OFF", "check", "encoder", "has_multilingual", "info", "is_endpoint",
    "is_installed", "judge", "lasting", "models", "unit_texts", "verify",
]  # fmt: skip
