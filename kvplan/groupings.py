"""The groupings of one resolved deployment: planned with its limits and budget, and bound to kernel blocks."""

from __future__ import annotations

from kvplan.drafters.checks import split_over_groups
from kvplan.engine.args import EngineArgs, EngineConfig
from kvplan.engine.cuda_graphs import OPTIONS, CudaGraphs, captures_drafts, cuda_graphs, supported
from kvplan.errors import KvplanError
from kvplan.kernel_blocks import kernel_blocks
from kvplan.model import DRAFTER
from kvplan.planning import plan_layers
from kvplan.result import Plan
from kvplan.spec import CacheLayer, Limits, StateSpec
from kvplan.units import format_gib

_MOST_BYTES = 2**63 - 1
"""What torch counts the bytes of a tensor with."""


class Planner:
    """The three groupings of one deployment under a layout, each planned once."""

    def __init__(
        self, args: EngineArgs, config: EngineConfig, layers: tuple[CacheLayer, ...], memory: tuple[int, ...] | None
    ) -> None:
        """``memory``: KV budget in bytes per pipeline stage; None: --kv-cache-memory-bytes on each.

        KvplanError where the budgets are not one for each stage.
        """
        self.layers = layers
        self.config = config
        self.minimum = args.min_kv_cache_group_layers
        self.memory = memory
        if self.memory is not None and len(self.memory) != config.pipeline_parallel_size:
            raise KvplanError(
                f"--kv-cache-memory-bytes lists {len(self.memory)} sizes for --pipeline-parallel-size "
                f"{config.pipeline_parallel_size}; give one for each stage, or one for all."
            )
        if self.memory is None and args.kv_cache_memory_bytes:  # vLLM measures for 0 as for no flag
            self.memory = (args.kv_cache_memory_bytes,) * config.pipeline_parallel_size
        for size in self.memory or ():
            _check_size("--kv-cache-memory-bytes", size)
        _check_size("--num-gpu-blocks-override", args.num_gpu_blocks_override or 0)
        self.limits = Limits(
            max_model_len=config.max_model_len,
            max_in_flight_tokens=config.max_in_flight_tokens,
            mamba_cache_mode=config.mamba_cache_mode,
            decode_context_parallel_size=config.decode_context_parallel_size,
            max_num_encoder_input_tokens=config.max_num_encoder_input_tokens,
        )

    def plan(self, grouping: str, layout_name: str, *, used: bool) -> Plan:
        """The deployment's plan under one grouping, with its kernel blocks.

        ``used``: whether the engine uses it; then a cache that its workers cannot bind keeps it from starting.
        """
        made = self._plan(self.layers, grouping, layout_name, self.memory, self.config.pipeline_parallel_size)
        drafted = [layer.name for layer in self.layers if layer.owner == DRAFTER]
        died = split_over_groups(self.config, drafted, [group.layers for group in made.groups])
        if used and died is None:
            died = no_graph_size(self.config, self.layers)
        made = with_kernel_blocks(made, self.layers, used=used, died=died)
        found = (too_many_sequences(made, self.config, self.layers), larger_than_gpu(made, self.config))
        told = tuple(note for note in found if note is not None)
        return made._replace(notes=(*made.notes, *told)) if told else made

    def worker_plan(self, layers: tuple[CacheLayer, ...], grouping: str, layout_name: str) -> Plan:
        """The plan of one worker's layers alone, without a budget: what its layout preference reckons with."""
        own = tuple(layer._replace(stage=0) for layer in layers)
        return self._plan(own, grouping, layout_name, None, 1)

    def _plan(
        self,
        layers: tuple[CacheLayer, ...],
        grouping: str,
        layout_name: str,
        memory: tuple[int, ...] | None,
        stages: int,
    ) -> Plan:
        config, speculative = self.config, self.config.speculative
        return plan_layers(
            layers,
            self.limits,
            grouping=grouping,
            layout=layout_name,
            available_memory=memory,
            pipeline_parallel_size=stages,
            disable_hybrid_kv_cache_manager=config.disable_hybrid_kv_cache_manager,
            num_gpu_blocks_override=config.args.num_gpu_blocks_override,
            min_kv_cache_group_layers=self.minimum,
            use_eagle_block_drop=speculative is not None and speculative.use_eagle_block_drop,
            num_prefill_lookahead_tokens=0 if speculative is None else speculative.num_prefill_lookahead_tokens,
            auto_fit_max_model_len=config.args.max_model_len == -1 and memory is not None,
        )


def _check_size(flag: str, size: int) -> None:
    """KvplanError for what no memory can have: vLLM takes any number, and dies of it as it allocates."""
    if not 0 <= size <= _MOST_BYTES:
        word = "negative" if size < 0 else f"more than {_MOST_BYTES:,}, which no tensor can hold"
        raise KvplanError(f"{flag} {_cut(size)} must not be {word}.")


def _cut(number: int) -> str:
    """A number as it was given, the end of a very long one left out."""
    return str(number) if abs(number) < 10**40 else "of more than 40 digits"


def larger_than_gpu(made: Plan, config: EngineConfig) -> str | None:
    """A note where the pool alone is more than the GPU has: vLLM takes a given budget as it is."""
    pool, usable = made.pool_bytes, config.gpu.usable_memory_bytes
    if pool is None or usable is None or pool <= usable:
        return None
    return (
        f"the KV cache of {format_gib(pool)} GiB on one rank is more than the {format_gib(usable)} GiB that one "
        f"{config.gpu.name} has for CUDA, even without weights: vLLM does not check what it is given, and runs out of "
        "memory as it allocates it"
    )


def too_many_sequences(made: Plan, config: EngineConfig, layers: tuple[CacheLayer, ...]) -> str | None:
    """What vLLM says of fewer blocks than sequences where it captures full CUDA graphs of state layers.

    Each decoding sequence needs a state block (vllm/config/compilation.py, `resolve_cudagraph_mode_and_sizes`).
    """
    blocks, sequences = made.num_blocks, config.max_num_seqs
    has_states = any(isinstance(layer.spec, StateSpec) for layer in layers)
    if made.error is not None or blocks is None or sequences <= blocks or not has_states:
        return None
    if not _graphs(config, layers).has_full:
        return None
    return (
        f"--max-num-seqs {sequences} is more than the {blocks:,} blocks of the pool: with full CUDA graphs "
        f"vLLM does not start; set --max-num-seqs {blocks} or less"
    )


def _graphs(config: EngineConfig, layers: tuple[CacheLayer, ...]) -> CudaGraphs:
    """The graphs that vLLM captures of these layers; whether of mixed batches does not matter here."""
    return supported(cuda_graphs(config), config, mixed=False, drafting=captures_drafts(config, layers))


def no_graph_size(config: EngineConfig, layers: tuple[CacheLayer, ...]) -> str | None:
    """What vLLM dies of where a captured size of the V1 runner must hold a whole request with its drafted tokens.

    `adjust_cudagraph_sizes_for_spec_decode` of vllm/config/compilation.py: only sizes that are given are so small.
    """
    if config.num_speculative_tokens == 0 or config.use_v2_model_runner:
        return None
    if not any(config.args.additional_flags.get(name) is not None for name in OPTIONS):
        return None
    asked = cuda_graphs(config).sizes
    found = _graphs(config, layers)
    if not asked or found.sizes or not found.has_full:
        return None
    each = 1 + config.num_speculative_tokens
    return (
        f"the largest CUDA graph that is asked for, of {asked[-1]} tokens, holds no decode with "
        f"{each - 1} drafted tokens; capture sizes of {each} or more"
    )


def with_kernel_blocks(made: Plan, layers: tuple[CacheLayer, ...], *, used: bool, died: str | None = None) -> Plan:
    """The plan with each group's kernel block size, and what a cache that cannot be bound dies of.

    That is the plan's error where it is ``used`` and has no other, and a note where it is not. ``died``: what the
    workers die of besides.
    """
    if not made.groups:
        return made
    stages = len(made.bytes_per_block_per_stage) or 1
    bound = kernel_blocks(made, layers)
    errors = [bound.error, died] + [kernel_blocks(made, layers, stage).error for stage in range(1, stages)]
    sizes = bound.group_sizes + (None,) * (len(made.groups) - len(bound.group_sizes))
    groups = tuple(group._replace(kernel_block_size=size) for group, size in zip(made.groups, sizes, strict=True))
    told = list(dict.fromkeys(error for error in errors if error is not None))
    error = made.error
    if used and error is None and told:
        error = told.pop(0)
    return made._replace(groups=groups, notes=(*made.notes, *told), error=error)
