"""The encoder: loading time, speed, and overhead over the bare runtime.

python -m bench.encoder measures the configured encoder in a separate process, so that the memory is
its own, and prints the result.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from bench.formats import peak_mb
from bench.timing import seconds, table
from kb import KnowledgeBase, models
from kb.config import load
from kb.errors import ModelMissing
from kb.models.onnx_encoder import OnnxEncoder
from kb.models.onnx_model import cores

LIBRARY = Path("examples/library")
PASSAGE_TOKENS = 190
PASSAGES = 48
ROUNDS = 5
QUERIES = (
    "how wide are the radio slots and why were they made wider",
    "calibrating a dissolved oxygen sensor in salt water",
    "what happens after a retry storm",
    "battery budget of the firmware in winter",
)


def encoder() -> str:
    """The table, or a line that reports a missing model."""
    try:
        models.info(load(), load().models.encoder)
    except ModelMissing as missing:
        return f"### The encoder\n\nNot measured: {missing.message}.\n"
    command = [sys.executable, "-m", "bench.encoder"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(ended.stdout)
    rows = [(label, f"{result[key]:{form}}") for key, (label, form) in _LABELS.items()]
    return table(f"The encoder {result['name']}, {result['threads']} cores", ("what", ""), rows)


_LABELS = {
    "import_ms": ("import of numpy, ONNX Runtime and tokenizers, ms", ".0f"),
    "load_ms": ("load, ms", ".0f"),
    "query_ms": ("a query, dense, one thread, ms", ".1f"),
    "query_all_ms": ("a query, all parts, one thread, ms", ".1f"),
    "passage_ms": (f"a passage of {PASSAGE_TOKENS} tokens, dense, one thread, ms", ".1f"),
    "passage_all_ms": (f"a passage of {PASSAGE_TOKENS} tokens, all parts, one thread, ms", ".1f"),
    "per_second": ("passages per second, all cores", ".1f"),
    "bare_per_second": ("the same by a bare loop over the runtime, tokens prepared", ".1f"),
    "ratio": ("ratio to the bare loop", ".2f"),
    "embed_per_second": ("`kb embed`, all parts written to the store, passages per second", ".1f"),
    "embed_ratio": ("ratio to the bare loop, all parts", ".2f"),
    "nonzero": ("weights above zero in a passage", ".0f"),
    "peak_mb": ("peak memory, MB", ".0f"),
}


# --- in a separate process ----------------------------------------------------------------------


def measure() -> dict[str, Any]:
    import_ms = 1000 * seconds(_import)
    model = models.encoder(load())
    assert isinstance(model, OnnxEncoder)
    load_ms = 1000 * seconds(model.load)
    passages, every = _passages(model), model.spec.gives
    for text in passages[:4]:
        model.encode([text], want=every)
    as_query = partial(model.encode, as_query=True)
    per_second, bare_per_second, ratio = _throughput(model, passages)
    embed_per_second, embed_ratio = _embedding(model, passages)
    weights = [model.encode([text], want={"sparse"})[0].sparse or {} for text in passages[:16]]
    return {
        "name": f"{model.spec.name} {model.spec.version}",
        "threads": cores(),
        "import_ms": import_ms,
        "load_ms": load_ms,
        "query_ms": _each_ms(as_query, QUERIES),
        "query_all_ms": _each_ms(partial(as_query, want=every), QUERIES),
        "passage_ms": _each_ms(model.encode, passages[:16]),
        "passage_all_ms": _each_ms(partial(model.encode, want=every), passages[:16]),
        "per_second": per_second,
        "bare_per_second": bare_per_second,
        "ratio": ratio,
        "embed_per_second": embed_per_second,
        "embed_ratio": embed_ratio,
        "nonzero": median(map(len, weights)),
        "peak_mb": peak_mb(),
    }


def _import() -> None:
    import numpy
    import onnxruntime
    import tokenizers

    assert all((numpy, onnxruntime, tokenizers))


def _passages(model: OnnxEncoder) -> list[str]:
    """Texts of `PASSAGE_TOKENS` tokens, including special ones, from the example library."""
    tokenizer = model.loaded().tokenizer
    files = sorted((*LIBRARY.glob("*/*.md"), *LIBRARY.glob("*/*.txt")))
    words = re.findall(r"\S+", " ".join(path.read_text(encoding="utf-8") for path in files))
    wanted = min(PASSAGE_TOKENS, model.spec.max_tokens)
    texts: list[str] = []
    for start in range(0, 100 * PASSAGES, 100):
        words_left = (words * 2)[start % len(words) :][:wanted]
        while len(tokenizer.tokens(" ".join(words_left)).ids) > wanted or not words_left:
            words_left.pop()
        texts.append(" ".join(words_left))
    return texts


def _each_ms(encode: Any, texts: Any) -> float:
    """The median of single calls, after a warm-up."""
    encode([texts[0]])
    return median(1000 * seconds(partial(encode, [text])) for _ in range(ROUNDS) for text in texts)


def _throughput(model: OnnxEncoder, passages: list[str]) -> tuple[float, float, float]:
    """Texts per second with kb and in a bare loop, and their ratio, measured alternately so that
    other load affects both."""
    output, session = model.manifest.outputs["dense"], model.loaded().session
    feeds = [_feed(model, text) for text in passages]
    ours, bare = [], []
    with ThreadPoolExecutor(cores()) as pool:
        for _ in range(ROUNDS):
            ours.append(seconds(lambda: model.encode(passages)))
            started = time.perf_counter()
            list(pool.map(lambda feed: session.runtime.run([output], feed), feeds))
            bare.append(time.perf_counter() - started)
    ratio = median(there / here for here, there in zip(ours, bare, strict=True))
    return len(passages) / median(ours), len(passages) / median(bare), ratio


def _embedding(model: OnnxEncoder, passages: list[str]) -> tuple[float, float]:
    """Embed a store, compared with a bare loop over all outputs of the graph. Adds a note first,
    because the exam runs once per store."""
    outputs, session = list(model.manifest.outputs.values()), model.loaded().session
    feeds = [_feed(model, text) for text in passages]
    ours, bare = [], []
    with ThreadPoolExecutor(cores()) as pool:
        for _ in range(ROUNDS):
            with TemporaryDirectory() as folder, KnowledgeBase(Path(folder), encoder=model) as kb:
                kb.add("a first note")
                kb.embed()
                for number, text in enumerate(passages):
                    kb.add(text, title=f"passage {number}")
                ours.append(seconds(kb.embed))
            started = time.perf_counter()
            list(pool.map(lambda feed: session.runtime.run(outputs, feed), feeds))
            bare.append(time.perf_counter() - started)
    ratio = median(there / here for here, there in zip(ours, bare, strict=True))
    return len(passages) / median(ours), ratio


def _feed(model: OnnxEncoder, text: str) -> dict[str, Any]:
    import numpy as np

    ids = np.array([model.loaded().tokenizer.tokens(text).ids])
    known = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    known["token_type_ids"] = np.zeros_like(ids)
    return {name: known[name] for name in model.loaded().session.inputs}


if __name__ == "__main__":
    print(json.dumps(measure()))
