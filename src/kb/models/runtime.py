"""Loads ONNX Runtime with its telemetry switched off.

Since version 1.29, the official builds for Linux and macOS report over the network which models are
loaded and how long they take, and store an identifier of the machine in `~/.cache/Microsoft`. They
start when they are imported, unless an environment variable forbids it. kb sends nothing from the
machine, so it sets the variable before every import that may be the first. Users who want telemetry
can set the variable to 0.
"""

from __future__ import annotations

import os
from typing import Any

TELEMETRY_VARIABLE = "ORT_DISABLE_TELEMETRY"


def disable_telemetry() -> None:
    """Set the variable. Call this before anything imports the runtime; a program that has imported
    it earlier keeps its own setting."""
    os.environ.setdefault(TELEMETRY_VARIABLE, "1")


def load_runtime() -> Any:
    """Import and return `onnxruntime`. Raises what the import raises."""
    disable_telemetry()
    import onnxruntime as module

    module.disable_telemetry_events()  # for Windows builds
    return module
