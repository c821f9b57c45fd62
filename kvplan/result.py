"""What a plan says: plain values for reports, documents and checks. Bytes are integers, unknown is None."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kvplan.engine.args import EngineConfig
from kvplan.spec import AttentionSpec, CacheLayer, MultipleOf, Spec, StateSpec

CATEGORIES = (
    "target_kv",
    "drafter_kv",
    "target_window",
    "drafter_window",
    "state",
    "speculative_state",
    "growing_padding",
    "bounded_padding",
    "page_rounding",
    "tail_rounding",
)
"""The keys of `RequestCost.at_max_model_len`: every byte of a request is in exactly one."""


class Padding(NamedTuple):
    """Bytes that hold nothing."""

    growing_bytes_per_token: int | float
    growing_fraction: float
    bounded_bytes_per_request: int
    page_rounding_bytes_per_request: int


class RequestCost(NamedTuple):
    """The straight line through a request's size, and its exact bytes at max_model_len by category."""

    fixed_bytes: int | float
    bytes_per_token: int | float
    at_max_model_len: dict[str, int]
    """Bytes by category of CATEGORIES; a category without bytes may be missing."""
    parts: Mapping[str, int] = {}
    """Named parts that the categories include: ``target_window_in_flight`` and ``drafter_window_in_flight`` (the pages
    that the in-flight reserve adds to a window), ``state_checkpoints`` (state blocks that no drafted token needs)."""


class Group(NamedTuple):
    """Layers that share one block table."""

    layers: tuple[str, ...]
    spec: Spec
    """The group's merged spec; of a group whose pages differ, the first layer's."""
    layer_specs: tuple[Spec, ...]
    """The spec that vLLM sizes each layer by, in the order of ``layers``: the merged one, unless uniform_type."""
    kind: str
    owner: str
    """target | drafter | both."""
    block_size: int
    page_size_bytes: int
    """Bytes of one block of the group that its layers use: the sum where pages differ, else one layer's page."""
    blocks_per_request: int
    is_eagle_group: bool = False
    padding_pages: int = 0
    """Whole pages of a block (of the group's smallest page) that no layer of the group uses."""
    padding_bytes: int = 0
    """Bytes of a block that no layer of the group uses; rounding inside pages is not among them."""
    kernel_block_size: int | None = None
    uniform_type: bool = False
    """Whether vLLM keeps the group as UniformTypeKVCacheSpecs (pages may differ)."""
    blocks_before_auto_fit: int | None = None
    """Blocks of one request at the model's own length, where --max-model-len auto plans with less; else None."""


class Plan(NamedTuple):
    """One grouping under one layout."""

    layout: str
    error: str | None
    group_size: int | None
    groups: tuple[Group, ...]
    bytes_per_block: int | None
    num_blocks: int | None
    blocks_per_request: int | None
    kv_cache_size_tokens: int | None
    max_concurrency: float | None
    max_model_len: int | None
    longest_model_len: int | None
    """The longest model length of which one request fits; None without a budget."""
    padding: Padding | None
    request_cost: RequestCost | None
    bytes_per_block_per_stage: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def pool_bytes(self) -> int | None:
        """Bytes of all blocks on the rank that holds the most; None without a budget."""
        if self.num_blocks is None or self.bytes_per_block is None:
            return None
        return self.num_blocks * max(self.bytes_per_block_per_stage or (self.bytes_per_block,))


class Reason(NamedTuple):
    """One condition of the layout preference, whether it holds and why."""

    condition: str
    holds: bool
    why: str


class Layout(NamedTuple):
    name: str
    candidates: tuple[str, ...]
    reasons: tuple[Reason, ...] = ()
    warning: str | None = None
    """Set where the KV connector's layout was dropped."""
    decided_by: str = "preference"
    """environment | connector | preference."""


class ModelInfo(NamedTuple):
    id: str
    source: str
    architecture: str
    model_type: str | None


class DrafterInfo(NamedTuple):
    id: str
    source: str
    architecture: str | None
    method: str
    num_speculative_tokens: int


class Result(NamedTuple):
    """A planned deployment: everything that the JSON document holds."""

    engine: str
    model: ModelInfo
    drafter: DrafterInfo | None
    config: EngineConfig
    block_size: int
    mamba_block_size: int | None
    layers: tuple[CacheLayer, ...]
    layout: Layout
    selected: str
    """main | uniform | packed: the grouping that the engine really uses."""
    plans: dict[str, Plan]
    available_memory_bytes: tuple[int, ...] | None
    """KV budget per pipeline stage and rank; None: no budget was given."""
    assumed: tuple[str, ...] = ()
    """What kvplan assumed because nothing was given (the GPU, a draft length), each a few words without a full stop
    that fit into a list in the first sentence: ``GPU B200 (no --gpu given)``."""
    notes: tuple[str, ...] = ()

    def options(self) -> dict[str, Any]:
        """Every resolved engine option under vLLM's name: lengths in tokens, budgets in bytes.

        With `--max-model-len auto`, max_model_len is the model's own; each plan has the length that it fitted.
        """
        out = {name: getattr(self.config, _FIELDS.get(name, name)) for name in _RESOLVED}
        out |= {name: getattr(self.config.args, name) for name in _GIVEN}
        out |= {"gpu": getattr(self.config.gpu, "name", None), "block_size": self.block_size}
        out["mamba_block_size"] = self.mamba_block_size
        return out


_FIELDS = {"kv_cache_dtype": "cache_dtype"}
_RESOLVED = (
    "dtype",
    "quantization",
    "kv_cache_dtype",
    "kv_cache_dtype_skip_layers",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "decode_context_parallel_size",
    "prefill_context_parallel_size",
    "enable_expert_parallel",
    "block_size",
    "mamba_block_size",
    "mamba_cache_mode",
    "mamba_cache_dtype",
    "mamba_ssm_cache_dtype",
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_num_encoder_input_tokens",
    "max_concurrent_batches",
    "max_in_flight_tokens",
    "async_scheduling",
    "enable_prefix_caching",
    "disable_hybrid_kv_cache_manager",
    "attention_backend",
)
# Options that vLLM leaves as they were given.
_GIVEN = ("min_kv_cache_group_layers", "num_gpu_blocks_override", "kv_cache_memory_bytes", "gpu_memory_utilization")


__all__ = [
    "CATEGORIES",
    "AttentionSpec",
    "DrafterInfo",
    "Group",
    "Layout",
    "ModelInfo",
    "MultipleOf",
    "Padding",
    "Plan",
    "Reason",
    "RequestCost",
    "Result",
    "StateSpec",
]
