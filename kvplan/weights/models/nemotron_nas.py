"""DeciLM (Nemotron-NAS): every layer has KV heads and a width of its own, or no attention or feed-forward layer at all.

vLLM: model_executor/models/nemotron_nas.py.
"""

from __future__ import annotations

from kvplan.model import Model
from kvplan.weights.attention import Heads, gated_mlp, heads_of, positions, projections, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import TIED, Frame, decoder
from kvplan.weights.names import Packed

ARCHITECTURES = ("DeciLMForCausalLM",)
_MULTIPLE = 256


def packed(model: Model) -> Packed:
    return {}


def weights(b: Builder) -> None:
    """Refused where the checkpoint is quantised."""
    b.only_unquantized()
    decoder(b, _layer, Frame(embed_on=TIED))


def _layer(b: Builder, prefix: str, index: int) -> None:
    config = b.config
    block = config.objects("block_configs")[index]
    attention, feed = block.section("attention"), block.section("ffn")
    if attention is None or feed is None:
        b.refuse(f"without attention or ffn in block_configs[{index}]")
    hidden = config.integer("hidden_size")
    bias = config.truthy("attention_bias") or config.truthy("bias")
    if not attention.truthy("no_op"):
        query = config.integer("num_attention_heads")
        heads = Heads(query, query // attention.integer("n_heads_in_group"), heads_of(config).size)
        own = config.truthy("qkv_bias") if "qkv_bias" in config else bias
        projections(b, f"{prefix}.self_attn", heads, bias=own, out_bias=bias)
        b.rotary(f"{prefix}.self_attn.rotary_emb", heads.size, positions(config), rope_parameters(config))
        b.attention(f"{prefix}.self_attn.attn")
        b.norm(f"{prefix}.input_layernorm", hidden)
    if not feed.truthy("no_op"):
        width = feed.integer("intermediate_size") if "ffn_mult" not in feed else _width(feed.number("ffn_mult"), hidden)
        gated_mlp(b, f"{prefix}.mlp", width, bias=config.truthy("mlp_bias"))
        b.norm(f"{prefix}.post_attention_layernorm", hidden)


def _width(multiplier: float, hidden: int) -> int:
    """Two thirds of so many times the hidden size, rounded up to whole 256s."""
    return -(-int(2 * multiplier * hidden / 3) // _MULTIPLE) * _MULTIPLE
