"""A loaded graph: on what it runs, and whether it is the graph that its manifest describes.

On what: `models.provider`. `cpu` is this machine's processor. `auto` is a GPU where the runtime
that was installed is one made for GPUs (`_GPUS`, the first one offered), and else the processor.
CoreML is not among them: it comes with every runtime for macOS and cannot do the operators of
int8 graphs. It, and every other provider, may be named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kb.errors import ConfigError, ModelBroken, ModelError
from kb.logs import logger
from kb.models.manifest import GRAPH, MEND, Manifest
from kb.models.runtime import load_runtime

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

log = logger(__name__)

CPU = "CPUExecutionProvider"
_GPUS = (
    "CUDAExecutionProvider",
    "MIGraphXExecutionProvider",
    "ROCMExecutionProvider",
    "DmlExecutionProvider",
)
_NEEDED_INPUTS = {"input_ids", "attention_mask"}
_KNOWN_INPUTS = _NEEDED_INPUTS | {"token_type_ids"}


@dataclass(frozen=True, slots=True)
class Session:
    """Shared between threads. A run takes one text: an int8 graph finds its scales over the whole
    batch, so that a text's vectors would depend on its company."""

    runtime: Any  # an onnxruntime.InferenceSession, which has no types
    inputs: frozenset[str]
    provider: str

    def run(
        self, ids: Sequence[int], outputs: Sequence[str], kinds: Sequence[int] | None = None
    ) -> dict[str, NDArray[np.float32]]:
        """The named outputs for one text, without the axis of the batch. No other is worked out.
        `kinds` tell, where two texts are read together, which token is of the second."""
        import numpy as np

        row = np.array([ids], dtype=np.int64)
        feeds = {"input_ids": row, "attention_mask": np.ones_like(row)}
        if "token_type_ids" in self.inputs:
            told = np.zeros_like(row) if kinds is None else np.array([kinds], dtype=np.int64)
            feeds["token_type_ids"] = told
        try:
            results = self.runtime.run(list(outputs), feeds)
        # The runtime's own errors have no common class to name.
        except Exception as error:
            raise ModelError(
                f"the model failed on a text of {len(ids)} tokens: {_first_line(error)}",
                "kb models verify examines the model",
            ) from error
        return {name: result[0] for name, result in zip(outputs, results, strict=True)}


def load(manifest: Manifest, provider: str = "auto") -> Session:
    """Raises `ModelBroken` where the graph is damaged, or another one than the manifest says."""
    try:
        import numpy  # noqa: F401  # first: without it the runtime prints a traceback of its own
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
    runtime = _open(manifest, choose(provider, offered), fall_back=provider == "auto")
    session = Session(
        runtime,
        frozenset(each.name for each in runtime.get_inputs()),
        runtime.get_providers()[0],
    )
    _check_graph(manifest, session)
    log.info("%s runs on %s", manifest.spec.name, session.provider)
    return session


def choose(wanted: str, offered: Sequence[str]) -> str:
    """The provider that a setting means, of those that the runtime offers."""
    if wanted == "cpu":
        return CPU
    if wanted == "auto":
        return next((name for name in _GPUS if name in offered), CPU)
    for name in offered:
        if wanted.lower() in (name.lower(), name.removesuffix("ExecutionProvider").lower()):
            return name
    raise ConfigError(
        f"models.provider cannot be {wanted!r}: the runtime does not offer it",
        f"it can be auto, cpu, {', '.join(offered)}",
    )


def _open(manifest: Manifest, provider: str, *, fall_back: bool) -> Any:
    import onnxruntime

    path = str(manifest.folder / GRAPH)
    providers = list(dict.fromkeys((provider, CPU)))
    try:
        return onnxruntime.InferenceSession(path, _options(), providers=providers)
    except Exception as error:
        if provider == CPU:
            raise ModelBroken(f"{path} cannot be loaded: {_first_line(error)}", MEND) from error
        if not fall_back:
            raise ModelError(
                f"{manifest.spec.name} cannot run on {provider}: {_first_line(error)}",
                "set models.provider to cpu",
            ) from error
        log.warning("%s cannot run on %s, and runs on the processor: %s",
                    manifest.spec.name, provider, _first_line(error))  # fmt: skip
        return _open(manifest, CPU, fall_back=False)


def _options() -> Any:
    """As measured on an int8 graph of 34 MB with texts of 190 and 512 tokens, two at a time.

    One thread a run: the cores are kept busy by other texts, and sums are in one order. The arena
    with no memory pattern has the lowest peak (187 MB; 220 with patterns, 455 without the arena,
    where every thread keeps what it freed). All optimisations: without, a text takes 1.8 times as
    long, and the graph no less time to load.
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
    options.log_severity_level = 3  # errors: what else it says is not for a user's terminal
    return options


def _overflows() -> bool:
    """Whether this processor may add two products of int8 in sixteen bits, which overflows: one of
    Intel's or AMD's without VNNI. ONNX Runtime then takes slower kernels that do not. Where the
    system does not tell what the processor has, it is taken for such a one."""
    import platform

    if platform.machine().lower() not in ("x86_64", "amd64", "i686", "x86"):
        return False
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as stream:
            flags = next((line for line in stream if line.startswith("flags")), "")
    except OSError:
        return True
    return "vnni" not in flags


# --- is it what the manifest says? ----------------------------------------------------------------


def _check_graph(manifest: Manifest, session: Session) -> None:
    missing = _NEEDED_INPUTS - session.inputs
    unknown = session.inputs - _KNOWN_INPUTS
    if missing or unknown:
        raise _other(manifest, f"its inputs are {', '.join(sorted(session.inputs))}")
    shapes = {each.name: each.shape for each in session.runtime.get_outputs()}
    for part, name in manifest.outputs.items():
        if name not in shapes:
            given = ", ".join(shapes)
            raise _other(manifest, f"it has no output {name!r} for {part}; its outputs are {given}")
        _check_width(manifest, part, shapes[name])


def _check_width(manifest: Manifest, part: str, shape: Sequence[Any]) -> None:
    """Only what the graph states; what it leaves open is seen in what it gives."""
    width = shape[-1] if shape else None
    wanted = width_of(manifest, part)
    if isinstance(width, int) and width != wanted:
        raise _other(manifest, f"{part} has {width} dimensions where {wanted} were promised")


def width_of(manifest: Manifest, part: str) -> int:
    widths = {"dense": manifest.spec.dimension, "tokens": manifest.spec.token_dimension}
    return widths.get(part) or 1


def _other(manifest: Manifest, why: str) -> ModelBroken:
    return ModelBroken(f"{manifest.folder / GRAPH} is not the graph of its manifest: {why}", MEND)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
