"""ONNX Runtime, without its telemetry.

From version 1.29 on, its official builds for Linux and macOS tell their maker over the network
which models are loaded and how long they take, and leave an identifier of the machine under
`~/.cache/Microsoft`. They do so from the moment they are imported, unless the environment says no.
Nothing leaves the machine through kb; so it says no before any import, in every place that may be
the first. Who wants to be counted can set the variable to 0 beforehand.
"""

from __future__ import annotations

import os
from typing import Any

SAYS_NO = "ORT_DISABLE_TELEMETRY"


def silence() -> None:
    """Before something imports the runtime. Where a program has imported it by itself, it is too
    late for this, and what can still be switched off is."""
    os.environ.setdefault(SAYS_NO, "1")


def load_runtime() -> Any:
    """The module. Raises what its import does."""
    silence()
    import onnxruntime as module

    module.disable_telemetry_events()  # of builds for Windows
    return module
