"""Which layers a quantisation leaves alone: the lists in checkpoints, matched as vLLM matches them.

Source: `is_layer_skipped` of vllm/model_executor/layers/quantization/utils/quant_utils.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.errors import Refused
from kvplan.weights.names import Packed

EXACT, SUBSTRING, SUFFIX = "exact", "substring", "suffix"


class Ignored:
    """A list of layers, and how a layer's name is found in it."""

    def __init__(self, names: Sequence[str], packed: Packed, mode: str = EXACT) -> None:
        self.names = frozenset(names)
        self.packed = packed
        self.mode = mode
        self.with_experts = tuple(name for name in names if "experts" in name)

    def skips(self, prefix: str) -> bool:
        """Whether the layer is left alone. Refused where only some parts of a fused layer are, as vLLM refuses."""
        if not self.names:
            return False
        name = prefix.rpartition(".")[2]
        if name in self.packed:
            return self._matches(prefix) or self._skips_parts(prefix, name)
        if "experts" in prefix and self.mode == EXACT:
            return any(prefix in known for known in self.with_experts)
        return self._matches(prefix)

    def _skips_parts(self, prefix: str, name: str) -> bool:
        found = {self._matches(prefix.replace(name, part)) for part in self.packed[name]}
        if len(found) > 1:
            raise Refused(
                f"quantization_config: only some parts of {prefix} are quantised; vLLM needs all or none of them."
            )
        return found.pop()

    def _matches(self, prefix: str) -> bool:
        if self.mode == EXACT:
            return prefix in self.names
        if self.mode == SUBSTRING:
            return any(name in prefix for name in self.names)
        return any(prefix == name or prefix.endswith(f".{name}") for name in self.names)
