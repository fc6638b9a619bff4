"""The model before ONNX and int8, in torch, as a `kb.ports.Encoder`, to measure the export."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from kb.models import manifest as manifests
from kb.models.onnx_encoder import OnnxEncoder
from kb.models.onnx_model import LoadedModel
from kb.models.tokenizer import Tokenizer
from training.export import OUTPUTS, BalancedEncoder, trained
from training.prepare import DEVICE


class _Network:
    """Like `kb.models.onnx_session.Session`: named outputs for one text."""

    provider = "torch"

    def __init__(self, network: BalancedEncoder) -> None:
        self._network = network.to(DEVICE)

    @torch.no_grad()
    def run(self, ids: Sequence[int], outputs: Sequence[str]) -> dict[str, Any]:
        row = torch.tensor([list(ids)], device=DEVICE)
        outputs_by_name = dict(zip(OUTPUTS, self._network(row, torch.ones_like(row)), strict=True))
        return {name: outputs_by_name[name][0].float().cpu().numpy() for name in outputs}


class PlainEncoder(OnnxEncoder):
    """An encoder with the tokenizer and manifest of the exported model in `folder`."""

    def __init__(self, folder: Path, work: Path, weights: Path) -> None:
        manifest = manifests.read(folder)
        spec = replace(manifest.spec, name=f"{manifest.spec.name}-float")
        super().__init__(replace(manifest, spec=spec))
        self._network = _Network(BalancedEncoder(trained(work, weights)))

    def _load(self) -> LoadedModel[Tokenizer]:
        session: Any = self._network
        return LoadedModel(session, self._load_tokenizer(), ThreadPoolExecutor(1))
