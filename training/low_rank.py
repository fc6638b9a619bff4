"""Weights for other languages as a small change of kb-mini's: what is learned, and its files.

    python -m training.low_rank WORK FOLDER

writes WORK/start.pt, from which `training.multilingual` goes on: the low-rank change that is
nearest to the multilingual model in FOLDER. Its tokenizer, cut to `NEW_PIECES`, becomes
`tokenizer-extended.json`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from training.model import Encoder
from training.shipped import float_state, load_encoder

RANK = 64
NEW_PIECES = 50_000
MATRICES = re.compile(r"bert\.layers\.\d+\.(qkv|out|up|down)\.weight")
FIXED = frozenset({"idf", "continues", "bert.words.weight", "bert.positions.weight",
                   "bert.kinds.weight"})  # fmt: skip


@dataclass
class Tables:
    """The rarity of each token, and whether it continues a word."""

    idf: Tensor
    continues: Tensor


@dataclass
class State:
    """A large matrix of the student is the teacher's plus `left @ right`; `own` are the student's
    own vectors and heads."""

    left: dict[str, Tensor]
    right: dict[str, Tensor]
    own: dict[str, Tensor]


def first_state(teacher: Encoder, student: Mapping[str, Tensor] | None = None) -> State:
    """The nearest low-rank change to the weights of `student`; without it, no change."""
    base = teacher.state_dict()
    goal = base if student is None else student
    state = State({}, {}, {})
    for name, weight in base.items():
        if MATRICES.fullmatch(name):
            left, values, right = torch.linalg.svd((goal[name] - weight).float())
            root = values[:RANK].clamp(min=1e-4).sqrt()
            state.left[name] = (left[:, :RANK] * root).contiguous()
            state.right[name] = (root[:, None] * right[:RANK]).contiguous()
        elif name not in FIXED:
            state.own[name] = goal[name].clone().float()
    return state


def merged(teacher: Encoder, state: State, fresh: Tensor, tables: Tables) -> dict[str, Tensor]:
    """The complete weights of an encoder with the changes."""
    result = {name: value.detach().float().cpu() for name, value in teacher.state_dict().items()}
    result["bert.words.weight"] = torch.cat([result["bert.words.weight"], fresh.float().cpu()])
    result |= {"idf": tables.idf.float().cpu(), "continues": tables.continues.float().cpu()}
    result |= {name: value.float().cpu() for name, value in state.own.items()}
    for name, left in state.left.items():
        result[name] = result[name] + left.float().cpu() @ state.right[name].float().cpu()
    return result


def to_levels(values: Tensor) -> tuple[Tensor, Tensor]:
    """int8 levels of a matrix, and the scale of each row."""
    scale = values.abs().amax(1).clamp(min=1e-12) / 127
    return (values / scale[:, None]).round().to(torch.int8), scale


def pack(state: State, fresh: Tensor, english_limit: float, tables: Tables) -> dict[str, Tensor]:
    """What is stored: half precision, matrices and new word embeddings in int8. New word embeddings
    have the scale of the English ones, with which they share a table."""
    packed = {"fresh": (fresh.clamp(-english_limit, english_limit) / english_limit * 127)
              .round().to(torch.int8)}  # fmt: skip
    packed["fresh_scale"] = torch.tensor(english_limit / 127)
    packed |= {"idf": tables.idf.half(), "continues": tables.continues.to(torch.int8)}
    for name, left in state.left.items():
        packed[f"left.{name}"], packed[f"left_scale.{name}"] = to_levels(left.T)
        packed[f"right.{name}"], packed[f"right_scale.{name}"] = to_levels(state.right[name])
    packed |= {f"own.{name}": value.half() for name, value in state.own.items()}
    return {name: value.detach().cpu().contiguous() for name, value in packed.items()}


def unpack(packed: Mapping[str, Tensor]) -> tuple[State, Tensor, Tables]:
    state = State({}, {}, {})
    for key, value in packed.items():
        kind, _, name = key.partition(".")
        if kind == "left":
            state.left[name] = (value.float() * packed[f"left_scale.{name}"][:, None]).T
        elif kind == "right":
            state.right[name] = value.float() * packed[f"right_scale.{name}"][:, None]
        elif kind == "own":
            state.own[name] = value.float()
    fresh = packed["fresh"].float() * packed["fresh_scale"].float()
    return state, fresh, Tables(packed["idf"].float(), packed["continues"].float())


def main() -> None:
    work, folder = Path(sys.argv[1]), Path(sys.argv[2])
    teacher = load_encoder(work / "shipped")
    student = float_state(folder / "model.onnx")
    state = first_state(teacher, student)
    known = len(teacher.idf)
    fresh = student["bert.words.weight"][known : known + NEW_PIECES]
    tables = Tables(*(student[name][: known + NEW_PIECES] for name in ("idf", "continues")))
    limit = float(teacher.bert.words.weight.detach().abs().max())
    torch.save(pack(state, fresh, limit, tables), work / "start.pt")
    tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    tokenizer["model"]["vocab"] = {
        piece: number for piece, number in vocabulary.items() if number < known + NEW_PIECES
    }
    text = json.dumps(tokenizer, ensure_ascii=False)
    (work / "tokenizer-extended.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
