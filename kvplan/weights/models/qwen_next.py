"""Qwen3-Next and Qwen3.5/3.6: gated delta net layers beside gated attention, dense or with routed experts.

vLLM: model_executor/models/qwen3_next.py, qwen3_5.py, layers/mamba/gdn/qwen_gdn_linear_attn.py.
"""

from __future__ import annotations

from kvplan.model import Model
from kvplan.weights.attention import HEAD, gated_mlp, heads_of, positions, qk_norms, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import ALWAYS, LAST, Frame, decoder
from kvplan.weights.models.llama import check_dual_chunk, two_norms
from kvplan.weights.models.qwen_moe import is_sparse, routed
from kvplan.weights.models.qwen_vl import positions_factor, vision_of
from kvplan.weights.moe import router, shared_expert, shared_expert_gate
from kvplan.weights.names import GATE_UP, NO_RENAMES, QKV, Renames
from kvplan.weights.parts import Linear

ARCHITECTURES = (
    "Qwen3NextForCausalLM",
    "Qwen3_5ForCausalLM",
    "Qwen3_5MoeForCausalLM",
    "Qwen3_5ForConditionalGeneration",
    "Qwen3_5MoeForConditionalGeneration",
)
_FRAME = Frame(embed_on=ALWAYS)
_FUSED_STATE = {"in_proj_qkvz": ("in_proj_qkv", "in_proj_z"), "in_proj_ba": ("in_proj_b", "in_proj_a")}
_REPLICATED_GATES = frozenset(("auto_awq", "auto_gptq", "inc", "moe_wna16"))


def packed(model: Model) -> dict[str, tuple[str, ...]]:
    if model.architecture == "Qwen3NextForCausalLM":
        return {**QKV, **GATE_UP, "in_proj_qkvz": ("in_proj_qkvz",), "in_proj_ba": ("in_proj_ba",)}
    vision = {"qkv": ("qkv",)} if model.architecture.endswith("ForConditionalGeneration") else {}
    return {**QKV, **GATE_UP, **vision, **_FUSED_STATE}


def renames(model: Model) -> Renames:
    if model.architecture == "Qwen3NextForCausalLM":
        return NO_RENAMES
    if not model.architecture.endswith("ForConditionalGeneration"):
        return Renames(prefixes=(("model.language_model.", "model."),))
    return Renames(
        prefixes=(
            ("model.visual.", "visual."),
            ("lm_head.", "language_model.lm_head."),
            ("model.language_model.", "language_model.model."),
        )
    )


def weights(b: Builder) -> None:
    outer = ""
    if b.model.architecture.endswith("ForConditionalGeneration"):
        vision_of(b)
        outer = "language_model."
    first = b.model.architecture == "Qwen3NextForCausalLM"
    head_on = ALWAYS if first else LAST
    # the wrappers hand their own config on: the text model's word counts
    tie = b.config.truthy("tie_word_embeddings") and not first
    decoder(b, _layer, _FRAME._replace(outer=outer, head_on=head_on), tie=tie)


def _layer(b: Builder, prefix: str, index: int) -> None:
    kind = b.config.texts("layer_types")[index]
    if kind == "linear_attention":
        _delta_net(b, f"{prefix}.linear_attn")
    else:
        gated_attention(b, f"{prefix}.self_attn")
    feed_forward(b, f"{prefix}.mlp", index)
    two_norms(b, prefix)
    if b.config.truthy("layer_scale"):
        for name in ("attn_layer_scale", "ffn_layer_scale"):
            b.add(f"{prefix}.{name}", b.config.integer("hidden_size"))


def feed_forward(b: Builder, prefix: str, index: int) -> None:
    """A dense layer, or routed experts with a shared one."""
    config = b.config
    if not (config.get("num_experts") and is_sparse(b, index)):
        gated_mlp(b, prefix, config.integer("intermediate_size"))
        return
    router(b, f"{prefix}.gate", config.integer("num_experts"))
    shared_expert_gate(b, prefix)
    shared = config.integer("shared_expert_intermediate_size", 0, minimum=0)
    if shared:
        shared_expert(b, f"{prefix}.shared_expert", shared)
    routed(b, prefix)


def gated_attention(b: Builder, prefix: str) -> None:
    """`Qwen3NextAttention`: each query head may bring a gate of its size."""
    config = b.config
    check_dual_chunk(b)
    heads = heads_of(config)
    queries = heads.query * (2 if config.boolean("attn_output_gate", True) else 1)
    hidden = config.integer("hidden_size")
    b.qkv(f"{prefix}.qkv_proj", hidden, heads.size, queries, heads.kv, bias=config.truthy("qkv_bias"))
    b.row(f"{prefix}.o_proj", heads.query * heads.size, hidden)
    qk_norms(b, prefix, heads, HEAD)
    factor = positions_factor(b) if "3_5" in b.model.architecture else 4
    b.rotary(f"{prefix}.rotary_emb", heads.size, positions(config), rope_parameters(config), positions_factor=factor)
    b.attention(f"{prefix}.attn")


def _delta_net(b: Builder, prefix: str) -> None:
    """`QwenGatedDeltaNetAttention`: Qwen3-Next's checkpoints interleave what Qwen3.5's keep apart."""
    config = b.config
    interleaved = b.model.architecture == "Qwen3NextForCausalLM"
    hidden, values = config.integer("hidden_size"), config.integer("linear_num_value_heads")
    key = config.integer("linear_num_key_heads") * config.integer("linear_key_head_dim")
    value = values * config.integer("linear_value_head_dim")
    b.column(f"{prefix}.conv1d", config.integer("linear_conv_kernel_dim"), 2 * key + value, quantized=False)
    sizes = (key, key, value, value)
    b.column(f"{prefix}.in_proj_qkvz", hidden, (sum(sizes),) if interleaved else sizes)
    _gates(b, f"{prefix}.in_proj_ba", hidden, (2 * values,) if interleaved else (values, values))
    own = b.divide(values, "linear_num_value_heads")
    b.add(f"{prefix}.dt_bias", own)
    b.add(f"{prefix}.A_log", own, "float32")
    b.norm(f"{prefix}.norm", config.integer("linear_value_head_dim"))
    b.row(f"{prefix}.out_proj", value, hidden)


def _gates(b: Builder, prefix: str, hidden: int, sizes: tuple[int, ...]) -> None:
    """The gates' projection: whole on every rank where Marlin's kernels would find the rank's part too small."""
    if len(sizes) > 1 and b.scheme.name in _REPLICATED_GATES:
        b.linear(Linear(prefix, hidden, sum(sizes), hidden, sizes, b.dtype, 1))
    else:
        b.column(prefix, hidden, sizes)
