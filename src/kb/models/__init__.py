"""Encoders: texts to vectors, on this machine, from files on disk.

    registry   which encoders there are, and the one that a name means
    manifest   `model.json`: what a model's files are, read before any of them is loaded
    tokens     a text's tokens, and which of them count
    session    a loaded graph on the processor or the GPU that was chosen
    onnx       the encoder over all these

Nothing here loads numpy or ONNX Runtime before a text is encoded, and nothing opens a connection.
"""

from __future__ import annotations

from kb.models.registry import GROUP, OFF, check, encoder, info, models, unit_texts, verify

__all__ = ["GROUP", "OFF", "check", "encoder", "info", "models", "unit_texts", "verify"]
