"""Which CUDA graphs vLLM captures: their mode and the batch sizes that they are captured for.

Source: `__post_init__` and `_set_cudagraph_sizes` of vllm/config/vllm.py, `set_splitting_ops_for_v1` and
`resolve_cudagraph_mode_and_sizes` of vllm/config/compilation.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kvplan.engine.args import EngineArgs, EngineConfig
from kvplan.engine.facts import is_encoder_decoder, num_experts
from kvplan.engine.scheduling import env_flag
from kvplan.errors import Refused
from kvplan.spec import CacheLayer

OPTIONS = ("compilation_config", "cudagraph_capture_sizes", "max_cudagraph_capture_size", "optimization_level")
"""Flags that decide them, besides --enforce-eager."""
NONE, PIECEWISE, FULL = "NONE", "PIECEWISE", "FULL"
FULL_DECODE_ONLY, FULL_AND_PIECEWISE = "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"
_MODES = (NONE, PIECEWISE, FULL, FULL_DECODE_ONLY, FULL_AND_PIECEWISE)
_LEVELS = (NONE, PIECEWISE, FULL_AND_PIECEWISE, FULL_AND_PIECEWISE)
"""-O0 to -O3 (OPTIMIZATION_LEVEL_TO_CONFIG)."""
_COMPILED, _STOCK = "VLLM_COMPILE", "STOCK_TORCH_COMPILE"
_COMPILATION_MODES = (NONE, _STOCK, "DYNAMO_TRACE_ONCE", _COMPILED)
_WITHOUT_PIECEWISE = {PIECEWISE: NONE, FULL_AND_PIECEWISE: FULL_DECODE_ONLY}
_CHANGING_METHODS = ("ngram", "eagle", "eagle3", "mtp", "draft_model", "dflash")
"""Drafting methods that change the number of drafted tokens from batch to batch on the V1 runner."""
_LARGEST, _LARGEST_BLACKWELL, _LARGEST_GPT_OSS = 512, 1024, 1024
_BREAKABLE = """
AliceAIForCausalLM BeamForCausalLM DeepseekV32MTPModel DeepseekV32ForCausalLM DeepseekV4ForCausalLM
DeepseekV4ForConditionalGeneration DeepSeekV4MTPModel DeepseekV41ForCausalLM Dots3NoteForCausalLM Dots3NoteMTPModel
Glm5NextForCausalLM Glm5NextForConditionalGeneration Glm5NextMTPModel GlmMoeDsaForCausalLM HYV4ForCausalLM
HYV4MTPModel InklingForCausalLM InklingForConditionalGeneration KimiK3ForConditionalGeneration KimiK3MTPModel
KimiLinearForCausalLM MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration MuseSpark1xForCausalLM
MuseSparkForConditionalGeneration Qwen4ExpForCausalLM Qwen4ExpForConditionalGeneration Qwen4ExpMTP Step5ForCausalLM
Step5ForConditionalGeneration
"""
"""Architectures whose graphs break at attention while they are captured, without compilation."""


class CudaGraphs(NamedTuple):
    """The mode, and the sizes in tokens, ascending; no sizes without graphs."""

    mode: str
    sizes: tuple[int, ...]
    compiled_piecewise: bool
    """Whether the compiled graph is split at attention, so that a mode may fall back to piecewise graphs."""

    @property
    def has_full(self) -> bool:
        return self.mode.startswith(FULL)

    @property
    def has_piecewise(self) -> bool:
        return self.mode in (PIECEWISE, FULL_AND_PIECEWISE)


def cuda_graphs(config: EngineConfig) -> CudaGraphs:
    """What vLLM's configuration asks for, before the attention backends have their say.

    Refused where sizes are given that vLLM does not start with.
    """
    given = _given(config.args)
    compilation, breakable = _compilation(config, given)
    mode = _mode(config, given, compilation, breakable)
    sizes = () if mode == NONE else _sizes(config, given)
    piecewise = compilation == _COMPILED
    if piecewise:
        mode, piecewise = _split(mode, given)
    if _communicates_eagerly(config):
        mode = NONE
    return CudaGraphs(mode, sizes if mode != NONE else (), piecewise)


def check(config: EngineConfig) -> None:
    """Refused for options of CUDA graphs that vLLM does not start with."""
    if any(config.args.additional_flags.get(name) is not None for name in OPTIONS):
        cuda_graphs(config)


def supported(graphs: CudaGraphs, config: EngineConfig, *, mixed: bool, drafting: bool) -> CudaGraphs:
    """The graphs with attention backends that may not capture everything (`resolve_cudagraph_mode_and_sizes`).

    ``mixed``: whether they capture prefills and decodes together; ``drafting``: decodes of several tokens. The V1
    runner then rounds the sizes up to whole requests, and does not start where none is left: full graphs without sizes.
    """
    mode, each = graphs.mode, 1 + config.num_speculative_tokens
    if mode == FULL and not mixed:
        mode = FULL_AND_PIECEWISE if graphs.compiled_piecewise else FULL_DECODE_ONLY
    if mode.startswith(FULL) and each > 1 and not drafting:
        mode = PIECEWISE if graphs.compiled_piecewise else NONE
    sizes = graphs.sizes if mode != NONE else ()
    if mode.startswith(FULL) and each > 1 and sizes and not config.use_v2_model_runner:
        largest = sizes[-1]
        whole = {-(-size // each) * each for size in sizes} | {each}
        sizes = tuple(sorted(size for size in whole if size <= largest))
    return graphs._replace(mode=mode, sizes=sizes)


def captures_drafts(config: EngineConfig, layers: Iterable[CacheLayer]) -> bool:
    """Whether the layers' backends capture decodes of several tokens: AttentionCGSupport of UNIFORM_BATCH or more."""
    return not any(
        layer.backend == "CUTLASS_MLA" or (layer.backend == "FLASHINFER" and not _flashinfer_drafts(config, layer.spec))
        for layer in layers
    )


def _flashinfer_drafts(config: EngineConfig, spec: object) -> bool:
    """As `get_cudagraph_support` of v1/attention/backends/flashinfer.py, where its kernels can be downloaded."""
    major, minor = config.gpu.capability
    if config.decode_context_parallel_size > 1:
        return False
    if major < 9:
        return not config.use_non_causal
    xqa = (major, minor) == (9, 0) or major == 12
    given = (config.args.attention_config or {}).get("use_trtllm_attention")
    if given is False or env_flag(config.args.env, "VLLM_BATCH_INVARIANT", False) or not (xqa or major == 10):
        return False
    if xqa:
        head = getattr(spec, "head_size", 0)
        return 16 <= head <= 256 and head % 16 == 0 and (major == 12 or "nvfp4" not in config.cache_dtype)
    return not config.use_non_causal


def _given(args: EngineArgs) -> dict[str, Any]:
    """--compilation-config with the flags that stand for keys of it, and modes by name.

    Refused for values that vLLM's own classes do not take, which its command line tells earlier.
    """
    flags = args.additional_flags
    found = dict(flags.get("compilation_config") or {})
    for key in ("cudagraph_capture_sizes", "max_cudagraph_capture_size"):
        if flags.get(key) is not None:
            found[key] = flags[key]
    found["mode"] = _named(found, "mode", _COMPILATION_MODES, len(_COMPILATION_MODES))
    found["cudagraph_mode"] = _named(found, "cudagraph_mode", _MODES, 3)
    sizes, largest = found.get("cudagraph_capture_sizes"), found.get("max_cudagraph_capture_size")
    if sizes is not None and not (isinstance(sizes, (list, tuple)) and all(type(size) is int for size in sizes)):
        raise Refused(f"--cudagraph-capture-sizes must be a list of whole numbers, got {sizes!r:.60}.")
    if largest is not None and type(largest) is not int:
        raise Refused(f"--max-cudagraph-capture-size must be a whole number, got {largest!r:.60}.")
    return found


def _named(given: Mapping[str, Any], key: str, names: Sequence[str], numbered: int) -> str | None:
    """A mode by its name; the first ``numbered`` have numbers too."""
    value = given.get(key)
    if value is None or value in names:
        return value
    if type(value) is int and 0 <= value < numbered:
        return names[value]
    raise Refused(f"--compilation-config {key} must be one of {', '.join(names)}, got {value!r:.60}.")


def _compilation(config: EngineConfig, given: Mapping[str, Any]) -> tuple[str, bool]:
    """The compilation mode, and whether graphs break at attention without compilation."""
    flag = config.args.env.get("VLLM_USE_BREAKABLE_CUDAGRAPH")
    architectures = config.target.root.get("architectures")
    names = architectures if isinstance(architectures, (list, tuple)) else ()
    if flag == "1" or (flag is None and any(name in _BREAKABLE.split() for name in names)):
        return NONE, True
    mode = given.get("mode")
    if mode is None:
        return (_COMPILED if _level(config.args) and not _ngram(config) else NONE), False
    return str(mode), False


def _level(args: EngineArgs) -> int:
    level = args.additional_flags.get("optimization_level")
    if level is not None and str(level) not in ("0", "1", "2", "3"):
        raise Refused(f"--optimization-level must be 0, 1, 2 or 3, got {level!r:.60}.")
    return 2 if level is None else int(level)


def _ngram(config: EngineConfig) -> bool:
    """LongCat's n-gram embeddings: full graphs without compilation (models/config.py)."""
    return config.target.architecture == "LongcatFlashNgramForCausalLM"


def _mode(config: EngineConfig, given: Mapping[str, Any], compilation: str, breakable: bool) -> str:
    """The mode by the time sizes are made."""
    if config.args.additional_flags.get("enforce_eager"):
        return NONE
    mode = given.get("cudagraph_mode")
    if mode is None:
        mode = FULL if _ngram(config) else _LEVELS[_level(config.args)]
    tiers = (config.args.speculative_config or {}).get("num_speculative_tokens_per_batch_size")
    changes = tiers and config.speculative is not None and config.speculative.method in _CHANGING_METHODS
    if changes and mode.startswith(FULL) and not config.use_v2_model_runner and config.data_parallel_size == 1:
        mode = PIECEWISE
    if compilation != _COMPILED and not breakable:
        mode = _WITHOUT_PIECEWISE.get(mode, mode)
    if mode != NONE and is_encoder_decoder(config.target.root, config.target.text):
        mode = FULL_DECODE_ONLY
    if mode.startswith(FULL) and _transfers_by_layer(config.args.kv_transfer_config or {}):
        mode = PIECEWISE
    return NONE if compilation == _STOCK and config.use_v2_model_runner else mode


def _transfers_by_layer(transfer: Mapping[str, Any]) -> bool:
    """Whether a connector works layer by layer, which a full graph cannot hold."""
    extra = transfer.get("kv_connector_extra_config")
    extra = extra if isinstance(extra, Mapping) else {}
    if transfer.get("kv_connector") == "LMCacheConnectorV1":
        return bool(extra.get("use_layerwise"))
    children = extra.get("connectors") if transfer.get("kv_connector") == "MultiConnector" else None
    return any(_transfers_by_layer(child) for child in children or () if isinstance(child, Mapping))


def _split(mode: str, given: Mapping[str, Any]) -> tuple[str, bool]:
    """The mode where a compiled graph is, or is not, split at attention; and whether it is."""
    passes = given.get("pass_config")
    fused = isinstance(passes, Mapping) and bool(passes.get("fuse_attn_quant"))
    splits = given.get("splitting_ops")
    if fused and not given.get("use_inductor_graph_partition"):
        whole = splits is None
        return (FULL if whole and mode in _WITHOUT_PIECEWISE else mode), not whole
    if splits is None or splits:
        return mode, True
    return {PIECEWISE: NONE, FULL_AND_PIECEWISE: FULL}.get(mode, mode), False


def _communicates_eagerly(config: EngineConfig) -> bool:
    """Exchanges of experts between data-parallel ranks that no graph holds."""
    backend = config.args.additional_flags.get("all2all_backend")
    if config.data_parallel_size == 1:
        return False
    return backend == "moonep" or (backend == "deepep_high_throughput" and num_experts(config.target.text) > 0)


def _sizes(config: EngineConfig, given: Mapping[str, Any]) -> tuple[int, ...]:
    """The sizes that are captured: as given, or steps up to the largest."""
    chosen, largest = given.get("cudagraph_capture_sizes"), given.get("max_cudagraph_capture_size")
    tokens = config.max_num_batched_tokens
    if largest is not None and largest < 1:
        raise Refused(f"--max-cudagraph-capture-size {largest} must be 1 or more; --enforce-eager captures no graphs.")
    if chosen is None:
        return tuple(_steps(config, largest))
    if not chosen:
        raise Refused("--cudagraph-capture-sizes names no size; --enforce-eager captures no graphs.")
    if min(chosen) < 1:
        raise Refused(f"--cudagraph-capture-sizes {_shown(chosen)} must be 1 or more.")
    sizes = tuple(sorted({size for size in chosen if size <= tokens}))
    if largest is not None and largest != max(sizes, default=0):
        raise Refused(
            f"--max-cudagraph-capture-size {largest} is not the largest of --cudagraph-capture-sizes "
            f"{_shown(chosen)} within --max-num-batched-tokens {tokens}; leave it out."
        )
    return sizes


def _shown(sizes: Iterable[int]) -> str:
    words = " ".join(map(str, sizes))
    return words if len(words) <= 60 else words[:57] + "..."


def _steps(config: EngineConfig, largest: int | None) -> list[int]:
    """1, 2, 4, steps of 8 up to 256 and of 16 beyond, up to ``largest``; by default also what decodes alone have."""
    tokens, decodes = config.max_num_batched_tokens, set[int]()
    if largest is None and config.target.architecture == "GptOssForCausalLM":
        largest = _LARGEST_GPT_OSS
    if largest is None:
        own = _LARGEST_BLACKWELL if config.gpu.capability[0] == 10 else _LARGEST
        largest = min(2 * config.max_num_seqs * (1 + config.num_speculative_tokens), own)
        decodes = {size for size in _decode_sizes(config, own) if size <= min(largest, tokens)}
    largest = min(largest, tokens)
    fine = config.args.additional_flags.get("performance_mode") == "interactivity"
    first = range(1, min(largest, 32) + 1) if fine else [1, 2, 4]
    sizes = {*first, *range(8, min(largest + 1, 256), 8), *range(256, largest + 1, 16), *decodes}
    return sorted(size for size in sizes | {tokens} if size <= largest)


def _decode_sizes(config: EngineConfig, own: int) -> set[int]:
    """Decodes of as many requests as a grid of its own names, each of one token or with all drafted ones."""
    each, most = 1 + config.num_speculative_tokens, config.max_num_seqs
    if each == 1:
        return {most}
    most = min(most, own)
    counts = [1, 2, 4, *range(8, min(most + 1, 256), 8), *range(256, most + 1, 16), most]
    return {each * count for count in counts if count <= most}
