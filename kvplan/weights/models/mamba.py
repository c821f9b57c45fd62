"""Models of state layers alone, and Zamba 2 (vLLM: model_executor/models/mamba.py, mamba2.py, zamba2.py)."""

from __future__ import annotations

from kvplan.families.common import num_layers
from kvplan.model import Model
from kvplan.weights.attention import Heads, gated_mlp, positions, projections, rope_parameters
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import ALWAYS, Frame, decoder
from kvplan.weights.names import Packed
from kvplan.weights.states import mamba1, mamba2

ARCHITECTURES = ("MambaForCausalLM", "FalconMambaForCausalLM", "Mamba2ForCausalLM", "Zamba2ForCausalLM")
_FRAME = Frame(prefix="backbone", embed="embeddings", norm="norm_f", embed_on=ALWAYS, norm_on=ALWAYS, head_on=ALWAYS)


def packed(model: Model) -> Packed:
    return {}


def weights(b: Builder) -> None:
    b.only_unquantized()
    architecture = b.model.architecture
    if architecture == "Zamba2ForCausalLM":
        _zamba2(b)
    else:
        decoder(b, _mamba2_layer if architecture == "Mamba2ForCausalLM" else _mamba1_layer, _FRAME)


def _mamba1_layer(b: Builder, prefix: str, index: int) -> None:
    """Falcon-Mamba's norms on the time step and the state's inputs have no weights."""
    config = b.config
    mamba1(
        b,
        f"{prefix}.mixer",
        inner=config.integer("intermediate_size"),
        state=config.integer("state_size"),
        kernel=config.integer("conv_kernel"),
        rank=config.integer("time_step_rank"),
        conv_bias=config.truthy("use_conv_bias"),
        bias=config.truthy("use_bias"),
        norms=False,
    )
    b.norm(f"{prefix}.norm", config.integer("hidden_size"))


def _mamba2_layer(b: Builder, prefix: str, index: int) -> None:
    config = b.config
    hidden = config.integer("hidden_size")
    expanded = (
        config.integer("intermediate_size") if "intermediate_size" in config else config.integer("expand") * hidden
    )
    mamba2(
        b,
        f"{prefix}.mixer",
        inner=expanded,
        state=config.integer("state_size"),
        kernel=config.integer("conv_kernel"),
        groups=config.integer("n_groups"),
        heads=config.integer("num_heads"),
        conv_bias=config.truthy("use_conv_bias"),
        bias=config.truthy("use_bias"),
    )
    b.norm(f"{prefix}.norm", hidden)


def _zamba2(b: Builder) -> None:
    """Every layer has a state; hybrid ones share a few transformer blocks, each with adapters per layer."""
    kinds = b.config.texts("layers_block_type", length=num_layers(b.config))
    hybrid = [i for i, kind in enumerate(kinds) if kind == "hybrid"]
    frame = Frame(norm="final_layernorm", embed_on=ALWAYS, norm_on=ALWAYS, head_on=ALWAYS)

    def layer(b: Builder, prefix: str, index: int) -> None:
        if kinds[index] != "hybrid":
            _zamba2_state(b, prefix)
            return
        block = hybrid.index(index)
        if block < b.config.integer("num_mem_blocks"):
            _zamba2_block(
                b, f"{prefix}.shared_transformer", range(block, len(hybrid), b.config.integer("num_mem_blocks"))
            )
        size = b.config.integer("hidden_size")
        b.replicated(f"{prefix}.linear", size, size)
        _zamba2_state(b, f"{prefix}.mamba_decoder")

    decoder(b, layer, frame, tie=True)


def _zamba2_state(b: Builder, prefix: str) -> None:
    config = b.config
    hidden = config.integer("hidden_size")
    mamba2(
        b,
        f"{prefix}.mamba",
        inner=config.integer("mamba_expand") * hidden,
        state=config.integer("mamba_d_state"),
        kernel=config.integer("mamba_d_conv"),
        groups=config.integer("mamba_ngroups"),
        heads=config.integer("n_mamba_heads"),
        conv_bias=config.truthy("use_conv_bias"),
        bias=config.truthy("add_bias_linear"),
    )
    b.norm(f"{prefix}.input_layernorm", hidden)


def _zamba2_block(b: Builder, prefix: str, uses: range) -> None:
    """A shared block with what each of the layers that use it adds."""
    config = b.config
    hidden, wide = config.integer("hidden_size"), 2 * config.integer("hidden_size")
    count, inner = config.integer("num_attention_heads"), config.integer("intermediate_size")
    size = config.integer("attention_head_dim")
    heads = Heads(count, count, size)
    projections(b, f"{prefix}.self_attn", heads, input_size=wide)
    for use in uses:
        b.attention(f"{prefix}.self_attn.dpa_list.{use}")
        if config.truthy("use_shared_attention_adapter"):
            for name in ("q", "k", "v"):
                _adapter(b, f"{prefix}.self_attn.linear_{name}_adapter_list.{use}", wide, (count * size,))
        _adapter(b, f"{prefix}.feed_forward.gate_up_proj_adapter_list.{use}", hidden, (inner, inner))
    if config.truthy("use_mem_rope"):
        b.rotary(f"{prefix}.self_attn.rotary_emb", size, positions(config), rope_parameters(config))
    gated_mlp(b, f"{prefix}.feed_forward", inner, bias=config.truthy("add_bias_linear"))
    b.norm(f"{prefix}.input_layernorm", wide)
    b.norm(f"{prefix}.pre_ff_layernorm", hidden)


def _adapter(b: Builder, prefix: str, input_size: int, outputs: tuple[int, ...]) -> None:
    """`Zamba2LoRA`."""
    rank = b.config.integer("adapter_rank")
    b.column(f"{prefix}.A", input_size, rank)
    b.column(f"{prefix}.B", rank, outputs)
