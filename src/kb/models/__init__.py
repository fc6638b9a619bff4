"""Encoders and judges: texts to vectors and to scores, on this machine, from files on disk.

    registry   which models there are, and the one that a name means
    manifest   `model.json`: what a model's files are, read before any of them is loaded
    tokens     a text's tokens, and which of them count
    session    a loaded graph on the processor or the GPU that was chosen
    onnx       the encoder over all these
    onnx_judge the cross-encoder over all these: a query and a passage, read together

Nothing here loads numpy or ONNX Runtime before a text is encoded, and nothing opens a connection.
"""

from __future__ import annotations

from kb.models.registry import (
    GROUP,
    JUDGES,
    OFF,
    check,
    encoder,
    info,
    judge,
    lasting,
    models,
    unit_texts,
    verify,
)

__all__ = [
    "GROUP", "JUDGES", "OFF", "check", "encoder", "info", "judge", "lasting", "models",
    "unit_texts", "verify",
]  # fmt: skip
