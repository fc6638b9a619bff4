"""The bundled model is installed and complete, and its results are sensible."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kb.config import Config
from kb.errors import ModelBroken
from kb.models import encoder, manifest, onnx_session, verify
from kb.models.onnx_encoder import OnnxEncoder
from kb.types import Encoding

ALL = frozenset({"dense", "sparse", "tokens"})
LIMIT_BYTES = 36_000_000
NOTES = [
    "Retries with exponential back-off made the outage worse: every client came back at once.",
    "Sourdough needs a warm place overnight, and a pinch of rye flour in the starter.",
    "The radio slots are eighty milliseconds wide, since the clocks of the buoys drift apart.",
    "def read_lines(path): return open(path).read().splitlines()",
]


@pytest.fixture(scope="module")
def mini() -> OnnxEncoder:
    found = encoder(Config(), "kb-mini-english")
    assert isinstance(found, OnnxEncoder)
    return found


def test_its_files_are_what_the_manifest_says(mini: OnnxEncoder) -> None:
    manifest.check_hashes(mini.manifest)
    assert verify(Config(), "kb-mini") is not None
    assert mini.manifest.size_bytes <= LIMIT_BYTES
    assert mini.spec.gives == ALL


def test_it_finds_by_meaning(mini: OnnxEncoder) -> None:
    passages = mini.encode(NOTES)
    for query, right in (("thundering herd of clients", 0), ("how do I bake bread", 1),
                         ("clock drift of moored instruments", 2),
                         ("python load a file into a list", 3)):  # fmt: skip
        (asked,) = mini.encode([query], as_query=True)
        assert np.argmax([cosine(asked, each) for each in passages]) == right


def test_its_terms_are_the_words_that_matter(mini: OnnxEncoder) -> None:
    (given,) = mini.encode(["the drifting clocks of the buoys"], want=ALL)
    assert given.sparse is not None
    assert {"drift", "clock"} <= set(given.sparse)  # one term for all inflections
    assert given.sparse["drift"] > 2 * given.sparse["the"]


def test_how_many_terms_a_passage_has(mini: OnnxEncoder) -> None:
    """50 to 200 for a passage of about 190 tokens [002 R1]."""
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    words = text.split()
    passages = [" ".join(words[start : start + 120]) for start in range(0, 600, 120)]
    for given in mini.encode(passages, want=ALL):
        assert given.sparse is not None
        assert 40 <= len(given.sparse) <= 200


def test_the_same_in_any_company_and_from_any_thread(mini: OnnxEncoder) -> None:
    alone = [mini.encode([text], want=ALL)[0] for text in NOTES]
    assert mini.encode(NOTES[::-1], want=ALL)[::-1] == alone
    with ThreadPoolExecutor(4) as pool:
        both = list(pool.map(lambda _: mini.encode(NOTES, want=ALL), range(4)))
    assert all(each == alone for each in both)


def test_three_outputs_with_the_network_off(tmp_path: Path) -> None:
    """The command runs in a process that cannot open a socket and has no home folder to read."""
    program = """
import socket, sys
def refused(*_, **__): raise OSError("no network here")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refused
from kb.cli import main
sys.argv = ["kb", "embed-text", "the drifting clocks", "--as", "query", "--json"]
main()
"""
    here = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    environment = {**os.environ, **here, "KB_MODELS_ENCODER": "kb-mini"}
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                         cwd=tmp_path, env=environment, check=False)  # fmt: skip
    assert run.returncode == 0, run.stderr
    shape = json.loads(run.stdout)
    assert (len(shape["dense"]), len(shape["tokens"])) == (384, 3)
    assert {"drift", "clock"} <= set(shape["sparse"])


def test_tokens_match_where_words_do(mini: OnnxEncoder) -> None:
    """MaxSim prefers the passage that answers."""
    (asked,) = mini.encode(["how far do the clocks of the buoys drift"], as_query=True, want=ALL)
    scores = [late(asked, each) for each in mini.encode(NOTES, want=ALL)]
    assert np.argmax(scores) == 2


def cosine(one: Encoding, other: Encoding) -> float:
    assert one.dense is not None
    assert other.dense is not None
    return float(np.dot(np.array(one.dense), np.array(other.dense)))


def late(asked: Encoding, passage: Encoding) -> float:
    return float((rows(asked) @ rows(passage).T).max(-1).mean())


def rows(given: Encoding) -> NDArray[np.float32]:
    assert given.tokens is not None
    return np.frombuffer(given.tokens.data, np.float32).reshape(-1, given.tokens.dimension)


def test_a_rare_name_is_one_term(mini: OnnxEncoder) -> None:
    """The name stays whole, whatever its pieces in the vocabulary are. Its plural is the same
    term."""
    one, other = mini.encode(["a zebrafish", "many zebrafishes"], want=ALL)
    assert "zebrafish" in (one.sparse or {})
    assert "zebrafish" in (other.sparse or {})


def test_a_graph_with_changed_bytes_gives_no_vector(tmp_path: Path, mini: OnnxEncoder) -> None:
    """It has the right size, and would load."""
    folder = tmp_path / "copy"
    shutil.copytree(mini.manifest.folder, folder)
    with (folder / manifest.GRAPH).open("r+b") as stream:
        stream.seek(20_000_000)
        stream.write(bytes(400))
    with pytest.raises(ModelBroken, match="has been changed"):
        OnnxEncoder(manifest.read(folder)).encode(["a text"])


def test_processors_that_overflow_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert not onnx_session._overflows()
    monkeypatch.setattr(platform, "machine", lambda: "AMD64")
    monkeypatch.setattr("builtins.open", _no_file)
    assert onnx_session._overflows()


def _no_file(*_: object, **__: object) -> None:
    raise FileNotFoundError
