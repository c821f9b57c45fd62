"""Decoders from before Llama or beside it: names of their own, norms and projections with biases, ChatGLM.

vLLM: model_executor/models/gpt2.py, opt.py, falcon.py, gpt_j.py, chatglm.py.
"""

from __future__ import annotations

from kvplan.model import Model
from kvplan.weights.attention import rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import ALWAYS, Frame, decoder
from kvplan.weights.names import Packed

ARCHITECTURES = (
    "GPT2LMHeadModel",
    "OPTForCausalLM",
    "FalconForCausalLM",
    "GPTJForCausalLM",
    "ChatGLMModel",
    "ChatGLMForConditionalGeneration",
)
_WHOLE = Frame("transformer", "word_embeddings", "ln_f", layers="h", embed_on=ALWAYS, norm_bias=True)


def packed(model: Model) -> Packed:
    return {}


def weights(b: Builder) -> None:
    """Refused where the checkpoint is quantised, and under pipeline parallelism."""
    b.only_unquantized()
    if b.stages > 1:
        b.refuse("with --pipeline-parallel-size")
    config, name = b.config, b.model.architecture
    if name == "OPTForCausalLM":
        _opt(b)
    elif name == "GPT2LMHeadModel":
        decoder(b, _gpt2_layer, _WHOLE._replace(embed="wte"))
        b.add("transformer.wpe.weight", config.integer("max_position_embeddings") * config.integer("hidden_size"))
    elif name == "GPTJForCausalLM":
        decoder(b, _gptj_layer, _WHOLE._replace(embed="wte", head_bias=True), tie=False)
    elif name.startswith("ChatGLM"):
        _chatglm(b)
    else:
        decoder(b, _falcon_layer, _WHOLE, tie=config.boolean("tie_word_embeddings", True))


def _block(
    b: Builder,
    attention: str,
    mlp: str,
    kv_heads: int,
    width: int,
    names: tuple[str, str, str, str],
    *,
    bias: bool = True,
) -> None:
    """Attention and a feed-forward layer; ``names`` of the two projections of each."""
    hidden, heads = b.config.integer("hidden_size"), b.config.integer("num_attention_heads")
    b.qkv(f"{attention}.{names[0]}", hidden, hidden // heads, heads, kv_heads, bias=bias)
    b.row(f"{attention}.{names[1]}", hidden, hidden, bias=bias)
    b.attention(f"{attention}.attn")
    b.column(f"{mlp}{names[2]}", hidden, width, bias=bias)
    b.row(f"{mlp}{names[3]}", width, hidden, bias=bias)


def _norms(b: Builder, prefix: str, *names: str) -> None:
    for name in names:
        b.norm(f"{prefix}.{name}", b.config.integer("hidden_size"), bias=True)


def _gpt2_layer(b: Builder, prefix: str, index: int) -> None:
    config = b.config
    width = config.optional_integer("n_inner") or 4 * config.integer("hidden_size")
    names = ("c_attn", "c_proj", "c_fc", "c_proj")
    _block(b, f"{prefix}.attn", f"{prefix}.mlp.", config.integer("num_attention_heads"), width, names)
    _norms(b, prefix, "ln_1", "ln_2")


def _falcon_layer(b: Builder, prefix: str, index: int) -> None:
    """`FalconDecoderLayer`: grouped, one or as many KV heads as query heads; one norm, two side by side, or Llama's."""
    config, attention = b.config, f"{prefix}.self_attention"
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    grouped = config.truthy("new_decoder_architecture")
    if config.truthy("alibi"):
        b.refuse("with alibi")
    kv_heads = config.integer("num_kv_heads") if grouped else 1 if config.truthy("multi_query") else heads
    names = ("query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h")
    _block(b, attention, f"{prefix}.mlp.", kv_heads, 4 * hidden, names, bias=config.truthy("bias"))
    length = config.integer("max_position_embeddings", 8192)
    b.rotary(f"{attention}.rotary_emb", hidden // heads, length, rope_parameters(config))
    both = config.optional_integer("num_ln_in_parallel_attn") or (2 if grouped else None)
    if not config.truthy("parallel_attn"):
        _norms(b, prefix, "post_attention_layernorm", "input_layernorm")
    else:
        _norms(b, prefix, *(("ln_attn", "ln_mlp") if both == 2 else ("input_layernorm",)))


def _gptj_layer(b: Builder, prefix: str, index: int) -> None:
    """One norm for attention and feed-forward layer, which run side by side; attention has no biases."""
    config = b.config
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    width, size = config.optional_integer("n_inner") or 4 * hidden, hidden // heads
    _norms(b, prefix, "ln_1")
    b.qkv(f"{prefix}.attn.qkv_proj", hidden, size, heads, heads)
    b.row(f"{prefix}.attn.out_proj", hidden, hidden)
    rotary = {**rope_parameters(config), "partial_rotary_factor": config.integer("rotary_dim") / size}
    length = config.integer("max_position_embeddings", 8192)
    b.rotary(f"{prefix}.attn.rotary_emb", size, length, rotary, is_neox_style=False)
    b.attention(f"{prefix}.attn.attn")
    b.column(f"{prefix}.mlp.fc_in", hidden, width, bias=True)
    b.row(f"{prefix}.mlp.fc_out", width, hidden, bias=True)


def _chatglm(b: Builder) -> None:
    """Llama's parts under other names; half of each head is rotated."""
    config, top = b.config, "transformer.encoder"
    hidden, vocabulary = config.integer("hidden_size"), config.integer("padded_vocab_size")
    heads, bias = config.integer("num_attention_heads"), config.truthy("add_bias_linear")
    kv_heads = config.integer("multi_query_group_num") if config.truthy("multi_query_attention") else heads
    plain, size, width = not config.truthy("rmsnorm"), hidden // heads, config.integer("ffn_hidden_size")
    rotary = {"rope_theta": config.get("rope_ratio"), "partial_rotary_factor": 0.5}
    length = config.integer("seq_length", 8192)
    b.embedding("transformer.embedding", vocabulary, hidden)
    for i in b.layers(config.integer("num_layers")):
        prefix = f"{top}.layers.{i}"
        attention = f"{prefix}.self_attention"
        b.qkv(f"{attention}.query_key_value", hidden, size, heads, kv_heads, bias=bias or config.truthy("add_qkv_bias"))
        b.row(f"{attention}.dense", hidden, hidden, bias=bias)
        b.rotary(f"{attention}.rotary_emb", size, length, rotary, is_neox_style=not config.truthy("original_rope"))
        b.attention(f"{attention}.attn")
        b.column(f"{prefix}.mlp.dense_h_to_4h", hidden, (width, width), bias=bias)
        b.row(f"{prefix}.mlp.dense_4h_to_h", width, hidden, bias=bias)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            b.norm(f"{prefix}.{norm}", hidden, bias=plain)
    if config.truthy("post_layer_norm"):
        b.norm(f"{top}.final_layernorm", hidden, bias=plain)
    b.head("transformer.output_layer", vocabulary, hidden, tied=config.truthy("tie_word_embeddings"))


def _opt(b: Builder) -> None:
    """Embeddings may be narrower than the layers; positions are learned, two more than max_position_embeddings."""
    config = b.config
    hidden, width = config.integer("hidden_size"), config.integer("word_embed_proj_dim")
    vocabulary, top = config.integer("vocab_size"), "model.decoder"
    if not config.boolean("layer_norm_elementwise_affine", True):
        b.refuse("without layer_norm_elementwise_affine")
    b.embedding(f"{top}.embed_tokens", vocabulary, width)
    b.add(f"{top}.embed_positions.weight", (config.integer("max_position_embeddings") + 2) * hidden)
    if width != hidden:
        b.replicated(f"{top}.project_out", hidden, width)
        b.replicated(f"{top}.project_in", width, hidden)
    before = config.boolean("do_layer_norm_before", True)
    if before and not config.truthy("_remove_final_layer_norm"):
        b.norm(f"{top}.final_layer_norm", hidden, bias=True)
    for i in b.layers(config.integer("num_hidden_layers")):
        _opt_layer(b, f"{top}.layers.{i}")
    b.head("lm_head", vocabulary, width, tied=config.truthy("tie_word_embeddings"))


def _opt_layer(b: Builder, prefix: str) -> None:
    config = b.config
    names = ("qkv_proj", "out_proj", "fc1", "fc2")
    heads, bias = config.integer("num_attention_heads"), config.boolean("enable_bias", True)
    _block(b, f"{prefix}.self_attn", f"{prefix}.", heads, config.integer("ffn_dim"), names, bias=bias)
    _norms(b, prefix, "self_attn_layer_norm", "final_layer_norm")
