"""What a start-up takes besides weights and KV cache: estimates, each a small formula with what it was measured on.

vLLM measures these as it starts: a profile run of max_num_batched_tokens tokens and a sampler run of max_num_seqs
requests (`profile_run` of vllm/v1/worker/gpu/model_runner.py and gpu_model_runner.py), CUDA graphs that are captured
for their size (`profile_cudagraph_memory`), and what else is gone of the GPU by then (`memory_profiling` of
vllm/utils/mem_utils.py). Nothing here is exact, and nothing is fitted to a model: the constants come from the start-ups
that scripts/startups.jsonl marks so, and scripts/measure_estimates.py holds the formulas against all others.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.engine.args import EngineConfig
from kvplan.engine.cuda_graphs import FULL, CudaGraphs, cuda_graphs, supported
from kvplan.hf.config import Config

GIB, MIB = 2**30, 2**20
CONTEXT_BEFORE_0_18, CONTEXT = round(0.13 * GIB), round(0.25 * GIB)
"""CUDA's context and libraries on one GPU, in what start-ups on an H100 called non-torch memory."""
STAGES = round(0.07 * GIB)
"""The same on ranks of a pipeline without tensor parallelism: their communicators exist before memory is counted."""
COLLECTIVES, COLLECTIVES_NVLINK = round(0.41 * GIB), round(1.85 * GIB)
"""What NCCL and vLLM's own all-reduce add under tensor parallelism: up to release 0.17 and without NVLink, and since
0.18 between GPUs with NVLink, where all-reduce keeps buffers."""
BUFFERS = round(0.12 * GIB)
"""Torch's own workspaces and the runner's buffers, which are there while the profile run is at its peak."""
GRAPH_BYTES, GRAPH_BYTES_V2 = round(0.164 * MIB), round(0.045 * MIB)
"""A captured graph's memory per decoder layer, on the V1 and the V2 runner."""
MIXTURE = 4 / 3
"""A layer with routed experts launches more kernels, and its graphs are larger by so much."""
GRAPH_POOL = round(0.12 * GIB)
"""What the first captured graph takes for all."""
SPLITS = 32
"""FlashAttention 3 splits long sequences into as many parts while graphs are captured (flash_attn_max_num_splits_for_
cuda_graph of vllm/config/attention.py), each with float32 results."""
FLASHINFER_WORKSPACE = 394 * MIB
"""VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE of vllm/envs.py."""
SORTING = 37.5
"""Bytes per request and token of the vocabulary that the sampler of releases up to 0.16 takes: it sorts the logits."""
SAMPLER_V1, SAMPLER_V2 = 14, 6
"""The same since: logits in the model's dtype and in float32, and on the V1 runner probabilities and noise."""
PENALTIES = 4.125
"""Bytes per request and token of the vocabulary that the V2 runner keeps for penalties (gpu/sample/penalties.py)."""
LOWEST, HIGHEST = 0.5, 2.5
"""The interval, as multiples of the sum: every start-up of scripts/startups.jsonl took 0.57 to 2.36 times the sum, most
of them within a tenth of it. Few of them are of the V2 runner, so it is no narrower."""
_SHARED_WITH_CPU = ((11, 0), (12, 1))
"""GPUs without memory of their own: what is gone of it by the end of a profile run is not vLLM's alone."""
_NVLINK = ("A100", "H100 SXM", "H100 NVL", "H200", "GH200", "B200", "B300", "GB200", "GB300")
_MIXED = ("TRITON_ATTN", "FLEX_ATTENTION", "FLASHINFER_MLA")
"""Backends that capture prefills and decodes together, besides FlashAttention 3 (AttentionCGSupport.ALWAYS)."""


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


def estimate(config: EngineConfig, release: tuple[int, int] = (0, 33), *, samples: bool = True) -> Estimate | None:
    """The estimates for a deployment; ``release`` as in a log that they are held against.

    ``samples``: for the stage that samples, the last one. None for a GPU that shares its memory with the CPU.
    """
    if config.gpu.capability in _SHARED_WITH_CPU:
        return None
    v2 = config.use_v2_model_runner and release >= (0, 25)
    lines = [_activations(config, release, v2, samples)]
    if release >= (0, 12):
        lines.append(Line("experts' workspace", _workspace(config), "max_num_batched_tokens x experts per token"))
    if v2 and samples:
        size = round(PENALTIES * config.max_num_seqs * _vocabulary(config.target.text))
        lines.append(Line("sampler state", size, "penalties of max_num_seqs x vocabulary"))
    if config.use_mla:
        lines.append(Line("absorbed matrices", _absorbed(config), "latent attention's up-projections once more"))
    lines += [_own_head(config), *_graph_lines(config, release), _outside_torch(config, release)]
    return Estimate(tuple(line for line in lines if line.bytes))


def _activations(config: EngineConfig, release: tuple[int, int], v2: bool, samples: bool) -> Line:
    """The largest of what runs one after the other: the encoder, the forward pass, the sampler.

    What an encoder returned lives as long as the other two, and the sampler's run as long as the hidden states.
    """
    tokens, hidden = config.max_num_batched_tokens, _hidden(config.target.text) * _element(config)
    each = SORTING if release < (0, 17) else SAMPLER_V2 if v2 else SAMPLER_V1
    sampler = round(each * config.max_num_seqs * _vocabulary(config.target.text)) if samples else 0
    encoded = _encoder_tokens(config) * hidden
    between = 2 * tokens * hidden if config.pipeline_parallel_size > 1 else 0
    found = (
        (_encoder(config), "the encoder: its largest input x its widest layer"),
        (encoded + between + _forward(config, release), "the forward pass: max_num_batched_tokens x the widest layer"),
        (encoded + sampler + tokens * hidden, "the sampler: max_num_seqs x vocabulary"),
    )
    size, how = max(found)
    return Line("activations", size + BUFFERS, how)


def _encoder_tokens(config: EngineConfig) -> int:
    """Tokens of an encoder's largest input; 0 for text alone."""
    sees = isinstance(config.target.root.get("vision_config"), dict) and not config.args.language_model_only
    return config.max_num_encoder_input_tokens if sees and config.target.is_multimodal else 0


def _encoder(config: EngineConfig) -> int:
    """An encoder's states for as many patches as its largest input has, merged into tokens."""
    tokens = _encoder_tokens(config)
    if not tokens:
        return 0
    section = Config(config.target.root.get("vision_config"), "vision_config")
    merged = _size(section, "spatial_merge_size") or 1
    width = 2 * _size(section, "hidden_size") + 2 * _size(section, "intermediate_size")
    return tokens * merged * merged * width * _element(config)


def _forward(config: EngineConfig, release: tuple[int, int]) -> int:
    """Hidden state and residual, and the widest layer's intermediate states, for all tokens of the profile run."""
    text, ranks = config.target.text, config.tensor_parallel_size
    hidden = _hidden(text)
    dense = _size(text, "intermediate_size", "ffn_dim", "encoder_ffn_dim")
    heads, head = _size(text, "num_attention_heads"), _size(text, "head_dim", "v_head_dim")
    attention = 3 * heads * (head or (hidden // heads if heads else 0)) // ranks
    inner, chosen = _experts(config)
    experts = chosen * (max(2 * inner, hidden) + inner) if release < (0, 12) else 0
    widest = max(3 * dense // ranks, attention, experts)
    return config.max_num_batched_tokens * (2 * hidden + widest) * _element(config)


def _experts(config: EngineConfig) -> tuple[int, int]:
    """A rank's intermediate size of an expert, and experts per token; zeros for a dense model."""
    text = config.target.text
    routed = _size(text, "moe_intermediate_size") or (
        _size(text, "intermediate_size") if _size(text, "num_local_experts", "num_experts") else 0
    )
    chosen = _size(text, "num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk")
    inner = routed // (1 if config.enable_expert_parallel else config.tensor_parallel_size)
    return (inner, chosen) if routed and chosen else (0, 0)


def _workspace(config: EngineConfig) -> int:
    """Two buffers for the experts' intermediate states, which stay (`TritonExperts.workspace_shapes`).

    The kernels of MXFP4 bring their own.
    """
    inner, chosen = _experts(config)
    if not chosen or "mxfp4" in (config.quantization or ""):
        return 0
    hidden = _hidden(config.target.text)
    each = max(inner, hidden) + max(2 * inner, hidden)
    return config.max_num_batched_tokens * chosen * each * _element(config)


def _element(config: EngineConfig) -> int:
    return 4 if config.dtype == "float32" else 2


def _absorbed(config: EngineConfig) -> int:
    """W_UK and W_UV beside the fused matrix (`process_weights_after_loading` of layers/attention/mla_attention.py)."""
    text = config.target.text
    width = _size(text, "qk_nope_head_dim") + _size(text, "v_head_dim")
    heads = _size(text, "num_attention_heads") // config.tensor_parallel_size
    layers = -(-_layers(config) // config.pipeline_parallel_size)
    return heads * width * _size(text, "kv_lora_rank") * layers * 2


def _own_head(config: EngineConfig) -> Line:
    """The output head of a drafter with a vocabulary of its own: it cannot share the target's as others do."""
    draft = None if config.speculative is None else config.speculative.draft
    rows = 0 if draft is None else _size(draft.text, "draft_vocab_size")
    if draft is None or rows in (0, _vocabulary(config.target.text)):
        return Line("drafter's head", 0, "")
    part = -(-(-(-rows // 64) * 64) // config.tensor_parallel_size)
    size = part * _size(draft.text, "hidden_size") * _element(config)
    return Line("drafter's head", size, "draft_vocab_size x width")


def _graph_lines(config: EngineConfig, release: tuple[int, int]) -> list[Line]:
    """CUDA graphs: their memory is taken off the KV cache since 0.21; none in eager mode."""
    count = 0 if release < (0, 21) else sum(graph_counts(config, release))
    return [Line("CUDA graphs", graphs(config, release) if count else 0, f"{count} graphs x layers, and their pool")]


def graphs(config: EngineConfig, release: tuple[int, int] = (0, 33)) -> int:
    """Bytes of the graphs of one rank: each graph's own, the pool, and what the attention backend keeps for them."""
    piecewise, full = graph_counts(config, release)
    if not piecewise + full:
        return 0
    v2 = config.use_v2_model_runner and release >= (0, 25)
    each = GRAPH_BYTES_V2 if v2 else GRAPH_BYTES
    layers = -(-_layers(config) // config.pipeline_parallel_size)
    kernels = MIXTURE if _experts(config)[1] else 1
    return round((piecewise + full) * layers * each * kernels) + GRAPH_POOL + _attention_buffers(config, full)


def _attention_buffers(config: EngineConfig, full: int) -> int:
    """Parts of FlashAttention 3's results for the largest full graph, or FlashInfer's workspace."""
    backend = _backend(config)
    if "FLASHINFER" in backend:
        return FLASHINFER_WORKSPACE
    if backend != "FLASH_ATTN" or config.gpu.capability[0] != 9 or not full:
        return 0
    text, ranks = config.target.text, config.tensor_parallel_size
    heads = _size(text, "num_attention_heads")
    head = _size(text, "kv_lora_rank" if config.use_mla else "head_dim") or (_hidden(text) // heads if heads else 0)
    largest = max((size for size in capture_sizes(config) if size <= _decodes(config)), default=0)
    return SPLITS * largest * (heads // ranks) * head * 4


def _backend(config: EngineConfig) -> str:
    """The attention backend that most models have on the GPU, unless one is named."""
    return config.attention_backend or ("FLASHINFER" if config.gpu.capability[0] == 10 else "FLASH_ATTN")


def graph_counts(config: EngineConfig, release: tuple[int, int] = (0, 33)) -> tuple[int, int]:
    """Piecewise graphs and, since 0.11, full ones: of all sizes, or of those that decodes alone can have.

    With LoRA every graph is captured twice, unless --compilation-config cudagraph_specialize_lora is false.
    """
    graphs = captured(config)
    if release < (0, 11):
        return (len(graphs.sizes), 0)
    compilation = config.args.additional_flags.get("compilation_config") or {}
    lora = config.args.additional_flags.get("enable_lora") and compilation.get("cudagraph_specialize_lora", True)
    times = 2 if lora else 1
    piecewise = len(graphs.sizes) if graphs.has_piecewise else 0
    full = 0 if not graphs.has_full else len(graphs.sizes) if graphs.mode == FULL else _full_decodes(config, graphs)
    return times * piecewise, times * full


def _full_decodes(config: EngineConfig, graphs: CudaGraphs) -> int:
    """Sizes of full graphs of decodes alone; each holds whole requests with their drafted tokens."""
    each = 1 + config.num_speculative_tokens
    most = min(_decodes(config), max(graphs.sizes, default=0))
    return len({size for size in (-(-size // each) * each for size in graphs.sizes) if size <= most})


def captured(config: EngineConfig) -> CudaGraphs:
    """Mode and sizes of the graphs, with the backend that most models have on the GPU."""
    backend = _backend(config)
    three = backend == "FLASH_ATTN" and config.gpu.capability[0] == 9 and config.flash_attn_version != 2
    mixed = not config.is_hybrid and ((three and not config.use_mla) or backend in _MIXED)
    return supported(cuda_graphs(config), config, mixed=mixed, drafting=backend != "CUTLASS_MLA")


def capture_sizes(config: EngineConfig) -> list[int]:
    """Batch sizes of captured graphs, in tokens."""
    return list(captured(config).sizes)


def _decodes(config: EngineConfig) -> int:
    """Tokens of the largest batch of decodes alone."""
    return config.max_num_seqs * (1 + config.num_speculative_tokens)


def _outside_torch(config: EngineConfig, release: tuple[int, int]) -> Line:
    ranks, how = config.tensor_parallel_size, "CUDA's context, NCCL"
    if release < (0, 18):
        several = ranks * config.pipeline_parallel_size * config.data_parallel_size > 1
        return Line("outside torch", CONTEXT_BEFORE_0_18 + (COLLECTIVES if several else 0), how)
    if ranks == 1:
        return Line("outside torch", STAGES if config.pipeline_parallel_size > 1 else CONTEXT, how)
    linked = config.gpu.name.startswith(_NVLINK)
    return Line("outside torch", CONTEXT + (COLLECTIVES_NVLINK if linked else COLLECTIVES), how)


def _vocabulary(config: Config) -> int:
    return _size(config, "vocab_size")


def _hidden(config: Config) -> int:
    return _size(config, "hidden_size", "d_model")


def _layers(config: EngineConfig) -> int:
    return _size(config.target.text, "num_hidden_layers", "decoder_layers")


def _size(config: Config, *names: str) -> int:
    """The first of these fields that is a usable number; 0 where none is: an estimate refuses nothing."""
    for name in names:
        value = config.get(name)
        if isinstance(value, list) and value and all(type(x) is int for x in value):
            value = max(value)
        if type(value) is int and 0 < value < 2**40:
            return value
    return 0
