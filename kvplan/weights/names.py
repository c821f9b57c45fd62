"""Names of layers: which parts are fused under one name, and how checkpoints' names become vLLM's.

Source: ``packed_modules_mapping`` and ``hf_to_vllm_mapper`` of vLLM's model classes; `WeightsMapper` of
vllm/model_executor/models/utils.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

Packed = Mapping[str, tuple[str, ...]]

QKV: Packed = {"qkv_proj": ("q_proj", "k_proj", "v_proj")}
GATE_UP: Packed = {"gate_up_proj": ("gate_proj", "up_proj")}


class Renames(NamedTuple):
    """A model class's renames of checkpoint names, in the order in which vLLM applies them."""

    substrings: tuple[tuple[str, str], ...] = ()
    prefixes: tuple[tuple[str, str], ...] = ()
    suffixes: tuple[tuple[str, str], ...] = ()

    def apply(self, names: Iterable[str]) -> list[str]:
        return [self._renamed(name) for name in names]

    def _renamed(self, name: str) -> str:
        for old, new in self.substrings:
            if old in name:
                name = name.replace(old, new, 1)
        for old, new in self.prefixes:
            if name.startswith(old):
                name = name.replace(old, new, 1)
        for old, new in self.suffixes:
            if name.endswith(old):
                name = new.join(name.rsplit(old, 1))
        return name


NO_RENAMES = Renames()
