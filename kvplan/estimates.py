"""What a start-up takes besides weights and KV cache: estimates, each a small formula with what it was measured on.

vLLM measures these as it starts: a profile run of max_num_batched_tokens tokens and a sampler run of max_num_seqs
requests (`profile_run` of vllm/v1/worker/gpu/model_runner.py and gpu_model_runner.py), CUDA graphs that are captured
once for their size (`profile_cudagraph_memory`), and what else is gone of the GPU by then (`memory_profiling` of
vllm/utils/mem_utils.py). Nothing here is exact, and nothing is fitted to a model. scripts/measure_estimates.py holds
the formulas against logs.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.engine.args import EngineConfig
from kvplan.hf.config import Config

GIB = 2**30
CONTEXT = round(0.13 * GIB)
"""CUDA's context and libraries on one GPU: the non-torch memory of three start-ups on an H100 with 0.11."""
COLLECTIVES = round(0.41 * GIB)
"""What NCCL and vLLM's own all-reduce add where several GPUs work together: a start-up on two H100 with 0.11."""
GRAPH_BYTES = round(0.28 * 2**20)
"""A captured graph's memory per decoder layer: the median of the handed logs, which lie within a factor of five."""
SORTING = 39
"""Bytes per request and token of the vocabulary that the sampler of releases up to 0.15 takes: it sorts the logits."""
SAMPLER_V1, SAMPLER_V2 = 14, 6
"""The same since: logits in the model's dtype and in float32, and on the V1 runner probabilities and noise."""
PENALTIES = 4.125
"""Bytes per request and token of the vocabulary that the V2 runner keeps for penalties (gpu/sample/penalties.py)."""
LOWEST, HIGHEST = 0.5, 2.0
"""The interval, as multiples of the sum. Start-ups took 0.64 to 1.18 times the sum on the logs that this was measured
on; none of them is of this release, so the interval is wider."""
_SHARED_WITH_CPU = ((11, 0), (12, 1))
"""GPUs without memory of their own: what is gone of it by the end of a profile run is not vLLM's alone."""
_LARGEST_GRAPH, _LARGEST_GRAPH_BLACKWELL = 512, 1024


class Line(NamedTuple):
    """One estimate, in bytes per rank."""

    what: str
    bytes: int
    how: str


class Estimate(NamedTuple):
    """What a rank of the last pipeline stage takes besides weights and KV cache."""

    lines: tuple[Line, ...]

    @property
    def bytes(self) -> int:
        return sum(line.bytes for line in self.lines)

    @property
    def least(self) -> int:
        return round(self.bytes * LOWEST)

    @property
    def most(self) -> int:
        return round(self.bytes * HIGHEST)


def estimate(config: EngineConfig, release: tuple[int, int] = (0, 33)) -> Estimate | None:
    """The estimates for a deployment; ``release`` as in a log that they are held against.

    None for a GPU that shares its memory with the CPU.
    """
    if config.gpu.capability in _SHARED_WITH_CPU:
        return None
    v2 = config.use_v2_model_runner and release >= (0, 25)
    lines = [_activations(config, release, v2)]
    if v2:
        size = round(PENALTIES * config.max_num_seqs * _vocabulary(config.target.text))
        lines.append(Line("sampler state", size, "penalties of max_num_seqs x vocabulary"))
    if config.use_mla:
        lines.append(Line("absorbed matrices", _absorbed(config), "latent attention's up-projections once more"))
    lines.append(_own_head(config))
    lines.append(_graphs(config, release))
    lines.append(_outside_torch(config))
    return Estimate(tuple(line for line in lines if line.bytes))


def _activations(config: EngineConfig, release: tuple[int, int], v2: bool) -> Line:
    """The largest of what runs one after the other: the encoder, the forward pass, the sampler."""
    each = SORTING if release < (0, 16) else SAMPLER_V2 if v2 else SAMPLER_V1
    sampler = round(each * config.max_num_seqs * _vocabulary(config.target.text))
    found = (
        (_encoder(config), "the encoder: its largest input x its widest layer"),
        (_forward(config), "the forward pass: max_num_batched_tokens x the widest layer"),
        (sampler, "the sampler: max_num_seqs x vocabulary"),
    )
    size, how = max(found)
    return Line("activations", size, how)


def _encoder(config: EngineConfig) -> int:
    """An encoder's states for as many patches as its largest input has, merged into tokens; 0 for text alone."""
    vision = config.target.root.get("vision_config")
    if not config.target.is_multimodal or config.args.language_model_only or not isinstance(vision, dict):
        return 0
    section = Config(vision, "vision_config")
    merged = _size(section, "spatial_merge_size") or 1
    width = 2 * _size(section, "hidden_size") + 2 * _size(section, "intermediate_size")
    return config.max_num_encoder_input_tokens * merged * merged * width * _element(config)


def _forward(config: EngineConfig) -> int:
    """Hidden state and residual, and the widest layer's intermediate states, for all tokens of the profile run."""
    text, ranks = config.target.text, config.tensor_parallel_size
    hidden = _size(text, "hidden_size", "d_model")
    dense = _size(text, "intermediate_size", "ffn_dim", "encoder_ffn_dim")
    heads, head = _size(text, "num_attention_heads"), _size(text, "head_dim", "v_head_dim")
    attention = 3 * heads * (head or (hidden // heads if heads else 0)) // ranks
    routed = _size(text, "moe_intermediate_size")
    chosen = _size(text, "num_experts_per_tok", "num_experts_per_token", "top_k_experts")
    inner = routed // (1 if config.enable_expert_parallel else ranks)
    experts = chosen * (max(2 * inner, hidden) + inner) if routed and chosen else 0
    widest = max(3 * dense // ranks, attention, experts)
    return config.max_num_batched_tokens * (2 * hidden + widest) * _element(config)


def _element(config: EngineConfig) -> int:
    return 4 if config.dtype == "float32" else 2


def _absorbed(config: EngineConfig) -> int:
    """W_UK and W_UV beside the fused matrix (`process_weights_after_loading` of layers/attention/mla_attention.py)."""
    text = config.target.text
    width = _size(text, "qk_nope_head_dim") + _size(text, "v_head_dim")
    heads = _size(text, "num_attention_heads") // config.tensor_parallel_size
    layers = -(-_size(text, "num_hidden_layers") // config.pipeline_parallel_size)
    return heads * width * _size(text, "kv_lora_rank") * layers * 2


def _own_head(config: EngineConfig) -> Line:
    """The output head of a drafter with a vocabulary of its own: it cannot share the target's as others do."""
    draft = None if config.speculative is None else config.speculative.draft
    rows = 0 if draft is None else _size(draft.text, "draft_vocab_size")
    if draft is None or rows in (0, _vocabulary(config.target.text)):
        return Line("drafter's head", 0, "")
    part = -(-(-(-rows // 64) * 64) // config.tensor_parallel_size)
    return Line(
        "drafter's head", part * _size(draft.text, "hidden_size") * _element(config), "draft_vocab_size x width"
    )


def _graphs(config: EngineConfig, release: tuple[int, int]) -> Line:
    """CUDA graphs: their memory is taken off the KV cache since 0.21; none in eager mode."""
    size = 0 if config.args.additional_flags.get("enforce_eager") or release < (0, 21) else graphs(config)
    return Line("CUDA graphs", size, f"{len(capture_sizes(config))} batch sizes x layers")


def graphs(config: EngineConfig) -> int:
    """Bytes of the graphs of one rank."""
    layers = -(-_size(config.target.text, "num_hidden_layers", "decoder_layers") // config.pipeline_parallel_size)
    return len(capture_sizes(config)) * layers * GRAPH_BYTES


def capture_sizes(config: EngineConfig) -> list[int]:
    """Batch sizes of captured graphs where no option names them (`_set_cudagraph_sizes`, vllm/config/vllm.py)."""
    largest = _LARGEST_GRAPH_BLACKWELL if config.gpu.capability[0] == 10 else _LARGEST_GRAPH
    tokens = 1 + config.num_speculative_tokens
    largest = min(2 * config.max_num_seqs * tokens, largest, config.max_num_batched_tokens)
    sizes = [1, 2, 4, *range(8, min(largest + 1, 256), 8), *range(256, largest + 1, 16)]
    return [size for size in sizes if size <= largest]


def _outside_torch(config: EngineConfig) -> Line:
    ranks = config.tensor_parallel_size * config.pipeline_parallel_size * config.data_parallel_size
    return Line("outside torch", CONTEXT + (COLLECTIVES if ranks > 1 else 0), "CUDA's context, NCCL")


def _vocabulary(config: Config) -> int:
    return _size(config, "vocab_size")


def _size(config: Config, *names: str) -> int:
    """The first of these fields that is a usable number; 0 where none is: an estimate refuses nothing."""
    for name in names:
        value = config.get(name)
        if isinstance(value, list) and value and all(type(x) is int for x in value):
            value = max(value)
        if type(value) is int and 0 < value < 2**40:
            return value
    return 0
