"""Loads ONNX Runtime with its telemetry disabled.

Since version 1.29, the official builds for Linux and macOS report over the network which models are
loaded and how long they take, and store an identifier of the machine in `~/.cache/Microsoft`. They
start doing so when they are imported, unless an environment variable forbids it. kb sends nothing
from the machine, so it sets the variable before every import that may be the first. Users who want
telemetry can set the variable to 0.
"""

from __future__ import annotations

import os
from typing import Any

TELEMETRY_VARIABLE = "ORT_DISABLE_TELEMETRY"


def disable_telemetry() -> None:
    """Disable the telemetry of ONNX Runtime by an environment variable. Call this before the
    runtime is imported; it has no effect afterwards. An existing value of the variable is kept."""
    os.environ.setdefault(TELEMETRY_VARIABLE, "1")


def load_runtime() -> Any:
    """Import and return `onnxruntime`. Errors of the import are not caught."""
    disable_telemetry()
    import onnxruntime as module

    module.disable_telemetry_events()  # for Windows builds
    return module
