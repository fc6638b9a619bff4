from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kb.models import torch_file
from tests.models import torch_files

ARRAY = (np.arange(6).reshape(2, 3) / 4).astype(np.float32)


@pytest.mark.parametrize("written", [ARRAY, ARRAY.astype("<f2"), torch_files.bfloat16(ARRAY)])
def test_a_state_dict(tmp_path: Path, written: Any) -> None:
    path = torch_files.write(tmp_path / "a.pt", {"weight": written, "bias": ARRAY[0].copy()})
    state = torch_file.read(path)
    assert list(state) == ["weight", "bias"]
    assert state["weight"].dtype == np.float32
    assert np.array_equal(state["weight"], ARRAY)
    assert np.array_equal(state["bias"], ARRAY[0])


def test_a_file_of_torch_itself(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    linear = torch.nn.Linear(8, 3).half()
    torch.save(linear.state_dict(), tmp_path / "a.pt")
    state = torch_file.read(tmp_path / "a.pt")
    assert np.array_equal(state["weight"], linear.weight.detach().float().numpy())
    assert np.array_equal(state["bias"], linear.bias.detach().float().numpy())
    torch.save({"weight": linear.weight.detach().t()}, tmp_path / "turned.pt")
    turned = torch_file.read(tmp_path / "turned.pt")["weight"]
    assert np.array_equal(turned, linear.weight.detach().float().numpy().T)


def test_no_code_is_run(tmp_path: Path) -> None:
    done = tmp_path / "done"
    call = b"cos\nsystem\n(" + torch_files.text(f"touch {done}") + b"tR."
    path = torch_files.write_archive(tmp_path / "a.pt", b"\x80\x02" + call, {})
    with pytest.raises(ValueError, match=r"refers to (os|posix|nt)\.system"):
        torch_file.read(path)
    assert not done.exists()


@pytest.mark.parametrize(
    "name", ["torch\nload", "builtins\neval", "torch._utils\n_rebuild_parameter"]
)
def test_other_names_are_refused(tmp_path: Path, name: str) -> None:
    pickled = f"\x80\x02c{name}\n.".encode("latin-1")
    path = torch_files.write_archive(tmp_path / "a.pt", pickled, {})
    with pytest.raises(ValueError, match="refers to"):
        torch_file.read(path)


@pytest.mark.parametrize(
    ("pickled", "data"),
    [
        (b"", {}),
        (b"\x80\x02", {}),
        (b"\x80\x02K\x01.", {}),
        (b"\x80\x02}.", {}),
        (b"\x80\x02}" + torch_files.text("a") + b"K\x01s.", {}),
        (b"\x80\x02}" + torch_files.text("a") + torch_files.tensor(ARRAY, 0) + b"s.", {}),
        (
            b"\x80\x02}" + torch_files.text("a") + torch_files.tensor(ARRAY, 0) + b"s.",
            {"0": b"\0" * 8},
        ),
        (
            b"\x80\x02}"
            + torch_files.text("a")
            + torch_files.tensor(ARRAY, 0, size=(9, 9))
            + b"s.",
            {"0": ARRAY.tobytes()},
        ),
        (
            b"\x80\x02}"
            + torch_files.text("a")
            + torch_files.tensor(ARRAY, 0, size=(-1, 3))
            + b"s.",
            {"0": ARRAY.tobytes()},
        ),
    ],
)
def test_damaged_files(tmp_path: Path, pickled: bytes, data: dict[str, bytes]) -> None:
    path = torch_files.write_archive(tmp_path / "a.pt", pickled, data)
    with pytest.raises(ValueError, match=r"it is not|it has|it contains"):
        torch_file.read(path)


def test_what_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    path.write_bytes(os.urandom(100))
    with pytest.raises(ValueError, match="not a zip archive"):
        torch_file.read(path)
    with pytest.raises(OSError, match="No such file"):
        torch_file.read(tmp_path / "none.pt")


def test_a_large_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = torch_files.write(tmp_path / "a.pt", {"weight": ARRAY})
    monkeypatch.setattr(torch_file, "MAX_BYTES", 16)
    with pytest.raises(ValueError, match="more than"):
        torch_file.read(path)
