"""One model of a deployment, the target or its drafter, as a family file sees it."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.engine.args import EngineConfig
from kvplan.errors import Refused
from kvplan.hf.config import Config

TARGET = "target"
DRAFTER = "drafter"


class Model(NamedTuple):
    """A config with the engine options that decide its caches."""

    owner: str
    architecture: str
    config: Config
    """The text model's config (vLLM's ``hf_text_config``)."""
    root: Config
    """The whole config.json (vLLM's ``hf_config``); the same object for a text-only model."""
    engine: EngineConfig
    dtype: str
    """Model and activation dtype."""
    cache_dtype: str
    """KV cache dtype of this model's layers: ``auto`` or a quantised format."""
    tensor_parallel_size: int
    attention_backend: str | None = None
    use_non_causal: bool = False
    """Whether its layers must run on backends with non-causal attention (some drafters)."""
    is_mm_prefix_lm: bool = False
    """Image tokens attend both ways: `ModelConfig.is_mm_prefix_lm` of the config that is current while it is built."""
    use_per_head_quant_scales: bool = False
    """The checkpoint's KV scheme has a scale per head."""
    owns_cache_dtype: bool = False
    """A drafter whose KV cache dtype was set apart. vLLM copies its cache config for it, and the copy takes the
    deployment's block size for one that the user gave: its backends are selected for it."""
    selects_without_dcp: bool = False
    """A drafter whose backends are selected as without decode context parallelism."""
    replicates_context: bool = False
    """A drafter that keeps every token on every rank of decode context parallelism."""
    start_layer: int = 0
    """Index of a drafter's first layer: the target's number of layers; 0 for a target."""
    layers_on_last_stage: int = 0
    """For a drafter: the target's layers on the last pipeline stage, from which some classes number on."""
    target: Model | None = None
    """The target, for a drafter."""

    def heads_per_rank(self, num_heads: int) -> int:
        """Query heads on one tensor-parallel rank. Refused where they do not divide, as vLLM refuses."""
        tp = self.tensor_parallel_size
        if num_heads % tp:
            raise Refused(
                f"{self.root.where}: {num_heads} attention heads cannot be split over "
                f"--tensor-parallel-size {tp}; choose a size that divides them."
            )
        return num_heads // tp

    def kv_heads_per_rank(self, num_kv_heads: int) -> int:
        """KV heads on one tensor-parallel rank: split where there are enough, else one replicated head."""
        tp = self.tensor_parallel_size
        if num_kv_heads >= tp:
            if num_kv_heads % tp:
                raise Refused(
                    f"{self.root.where}: {num_kv_heads} KV heads cannot be split over "
                    f"--tensor-parallel-size {tp}; choose a size that divides them."
                )
            return num_kv_heads // tp
        if tp % num_kv_heads:
            raise Refused(
                f"{self.root.where}: --tensor-parallel-size {tp} cannot replicate {num_kv_heads} KV heads evenly; "
                "choose a multiple of them."
            )
        return 1
