"""A loaded graph: chooses its execution provider, and checks it against its manifest.

The setting `models.provider` is `cpu`, `auto` or the name of a provider. `auto` is the first GPU
provider (`_GPUS`) that the installed runtime offers, else the CPU. CoreML is not among them: every
runtime for macOS includes it, and it lacks the operators of int8 graphs. CUDA lacks them too: such
a graph runs on the CPU, because copies between the two would only make it slower.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kb.errors import ConfigError, ModelBroken, ModelError
from kb.logs import logger
from kb.models import onnx_file
from kb.models.manifest import HINT, Manifest
from kb.models.runtime import load_runtime

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

log = logger(__name__)

CPU = "CPUExecutionProvider"
INSTALL_GPU = "pip install 'kb-search[gpu]'"
_GPUS = (
    "CUDAExecutionProvider",
    "MIGraphXExecutionProvider",
    "ROCMExecutionProvider",
    "DmlExecutionProvider",
)
# The fused kernel takes three times as long as an addition and a normalization.
_SLOWER_ON_CPU = ["SkipLayerNormFusion"]
_NEEDED_INPUTS = {"input_ids", "attention_mask"}
_KNOWN_INPUTS = _NEEDED_INPUTS | {"token_type_ids"}


@dataclass(frozen=True, slots=True)
class Session:
    """A loaded graph; threads may share it. A run takes one text, because an int8 graph computes
    its scales over the whole batch: the vectors of a text would depend on the other texts."""

    runtime: Any  # an onnxruntime.InferenceSession, which has no types
    inputs: frozenset[str]
    provider: str

    def run(
        self, ids: Sequence[int], outputs: Sequence[str], type_ids: Sequence[int] | None = None
    ) -> dict[str, NDArray[np.float32]]:
        """Compute these outputs, and no others, for one text; the results have no batch axis. If
        two texts are read together, `type_ids` marks the tokens of the second."""
        import numpy as np

        row = np.array([ids], dtype=np.int64)
        feeds = {"input_ids": row, "attention_mask": np.ones_like(row)}
        if "token_type_ids" in self.inputs:
            feeds["token_type_ids"] = (
                np.zeros_like(row) if type_ids is None else np.array([type_ids], dtype=np.int64)
            )
        try:
            results = self.runtime.run(list(outputs), feeds)
        # The runtime's errors have no common base class.
        except Exception as error:
            raise ModelError(
                f"the model failed on a text of {len(ids)} tokens: {_first_line(error)}",
                "check the model with: kb models verify",
            ) from error
        return {name: result[0] for name, result in zip(outputs, results, strict=True)}


def load(manifest: Manifest, provider: str = "auto") -> Session:
    """Load the graph of a model. Raises `ModelBroken` if it is damaged or does not match its
    manifest."""
    try:
        import numpy  # noqa: F401  # first: without numpy, the runtime prints a traceback
    except (ImportError, OSError) as error:
        raise ModelError(
            f"numpy cannot be loaded: {error}", "pip install --force-reinstall numpy"
        ) from error
    try:
        onnxruntime = load_runtime()
    except (ImportError, OSError) as error:
        raise ModelError(
            f"ONNX Runtime cannot be loaded: {error}", "pip install --force-reinstall onnxruntime"
        ) from error
    offered = tuple(onnxruntime.get_available_providers())
    chosen = choose(provider, offered)
    if provider == "auto" and chosen != CPU and is_int8(manifest):
        chosen = CPU
    runtime = _open(manifest, chosen, fall_back=provider == "auto")
    session = Session(
        runtime,
        frozenset(each.name for each in runtime.get_inputs()),
        runtime.get_providers()[0],
    )
    _check_graph(manifest, session)
    log.info("%s runs on %s", manifest.spec.name, session.provider)
    return session


def is_int8(manifest: Manifest) -> bool:
    """Whether the graph multiplies integers, which no GPU provider does."""
    try:
        return onnx_file.read(manifest.graph_path).is_int8
    except (OSError, ValueError):
        return False  # loading it reports the error


def choose(setting: str, offered: Sequence[str]) -> str:
    """Return the provider for a setting, from those that the runtime offers."""
    if setting == "cpu":
        return CPU
    if setting == "auto":
        return next((name for name in _GPUS if name in offered), CPU)
    for name in offered:
        if setting.lower() in (name.lower(), name.removesuffix("ExecutionProvider").lower()):
            return name
    raise ConfigError(
        f"models.provider is {setting!r}, which the installed ONNX Runtime does not offer",
        f"choose one of: auto, cpu, {', '.join(offered)}; for kb-mini on a GPU: {INSTALL_GPU}",
    )


def _open(manifest: Manifest, provider: str, *, fall_back: bool) -> Any:
    import onnxruntime

    path = str(manifest.graph_path)
    providers = list(dict.fromkeys((provider, CPU)))
    try:
        disabled = _SLOWER_ON_CPU if provider == CPU else None
        return onnxruntime.InferenceSession(
            path, _options(), providers=providers, disabled_optimizers=disabled
        )
    except Exception as error:
        if provider == CPU:
            raise ModelBroken(f"{path} cannot be loaded: {_first_line(error)}", HINT) from error
        if not fall_back:
            raise ModelError(
                f"{manifest.spec.name} cannot run on {provider}: {_first_line(error)}",
                "set models.provider to cpu",
            ) from error
        log.warning("%s cannot run on %s and runs on the CPU instead: %s",
                    manifest.spec.name, provider, _first_line(error))  # fmt: skip
        return _open(manifest, CPU, fall_back=False)


def _options() -> Any:
    """Session options, measured on an int8 graph of 34 MB with texts of 190 and 512 tokens, two at
    a time.

    One thread per run: other texts keep the cores busy, and sums have a fixed order. The arena
    without memory patterns has the lowest peak (187 MB; 220 MB with patterns, 455 MB without the
    arena, where every thread keeps freed memory). Without optimizations, a text takes 1.8 times as
    long, and the graph loads no faster.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.enable_cpu_mem_arena = True
    options.enable_mem_pattern = False
    options.use_deterministic_compute = True
    if _overflows():
        options.add_session_config_entry("session.x64quantprecision", "1")
    options.log_severity_level = 3  # errors only: other messages do not belong on a user's terminal
    return options


def _overflows() -> bool:
    """Whether sums of two int8 products may overflow 16 bits on this CPU, as on x86 CPUs without
    VNNI. If so, ONNX Runtime is configured to use slower kernels that cannot overflow. True for x86
    CPUs with unknown features."""
    import platform

    if platform.machine().lower() not in ("x86_64", "amd64", "i686", "x86"):
        return False
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as stream:
            flags = next((line for line in stream if line.startswith("flags")), "")
    except OSError:
        return True
    return "vnni" not in flags


# --- checks against the manifest ------------------------------------------------------------------


def _check_graph(manifest: Manifest, session: Session) -> None:
    missing = _NEEDED_INPUTS - session.inputs
    unknown = session.inputs - _KNOWN_INPUTS
    if missing or unknown:
        raise _mismatch(manifest, f"its inputs are {', '.join(sorted(session.inputs))}")
    shapes = {each.name: each.shape for each in session.runtime.get_outputs()}
    for part, name in manifest.outputs.items():
        if name not in shapes:
            outputs = ", ".join(shapes)
            raise _mismatch(
                manifest, f"it has no output {name!r} for {part}; its outputs are {outputs}"
            )
        if part not in manifest.heads:
            _check_width(manifest, part, shapes[name])


def _check_width(manifest: Manifest, part: str, shape: Sequence[Any]) -> None:
    """Check the width that the graph declares; the encoder checks its results."""
    width = shape[-1] if shape else None
    expected = width_of(manifest, part)
    if isinstance(width, int) and width != expected:
        raise _mismatch(manifest, f"{part} has {width} dimensions, not {expected}")


def width_of(manifest: Manifest, part: str) -> int:
    """The number of values per text or token in this part."""
    widths = {"dense": manifest.spec.dimension, "tokens": manifest.spec.token_dimension}
    return widths.get(part) or 1


def _mismatch(manifest: Manifest, why: str) -> ModelBroken:
    return ModelBroken(f"{manifest.graph_path} does not match its manifest: {why}", HINT)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
