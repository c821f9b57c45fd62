"""GLM-5.3-Flash's vision tower (vLLM: models/glm5next/common/multimodal.py, Glm5NextVisionTransformer)."""

from __future__ import annotations

from kvplan.hf.config import Config
from kvplan.weights.attention import gated_mlp, positions
from kvplan.weights.builder import Builder
from kvplan.weights.vision import section


def glm5_next_vision(b: Builder) -> None:
    """The tower where the deployment has it; none of it is quantised."""
    if not b.has_tower("image", "video"):
        return
    config = section(b.model.root, "vision_config", {})
    size, patch = config.integer("hidden_size"), config.integer("patch_size")
    channels, frames = config.integer("in_channels"), config.integer("temporal_patch_size")
    b.add("visual.patch_embed.proj.weight", size * channels * frames * patch * patch)
    b.add("visual.patch_embed.proj.bias", size)
    with b.tower():
        for i in range(config.integer("depth", maximum=1024)):
            _block(b, f"visual.blocks.{i}", config)
        _merger(b, config)
    merge, out = config.integer("spatial_merge_size"), config.integer("out_hidden_size")
    b.add("visual.downsample.weight", out * size * merge * merge)
    b.add("visual.downsample.bias", out)
    b.norm("visual.post_layernorm", size)
    head = size // config.integer("num_heads")
    b.rotary("visual.rotary_pos_emb", head, positions(b.config), {"partial_rotary_factor": 0.5})


def _block(b: Builder, prefix: str, config: Config) -> None:
    size, heads = config.integer("hidden_size"), config.integer("num_heads")
    b.norm(f"{prefix}.norm1", size)
    b.norm(f"{prefix}.norm2", size)
    b.norm(f"{prefix}.attn.q_norm", size // heads)
    b.norm(f"{prefix}.attn.k_norm", size // heads)
    b.qkv(f"{prefix}.attn.qkv", size, size // heads, heads, heads, bias=True, quantized=False)
    b.row(f"{prefix}.attn.proj", size, size, bias=True, quantized=False)
    inner = config.integer("intermediate_size")
    gated_mlp(b, f"{prefix}.mlp", inner, hidden=size, bias=True)


def _merger(b: Builder, config: Config) -> None:
    """`Glm5NextPatchMerger`."""
    out, inner = config.integer("out_hidden_size"), config.integer("projection_intermediate_size")
    b.column("visual.merger.proj", out, out)
    b.norm("visual.merger.post_projection_norm", out, bias=True)
    gated_mlp(b, "visual.merger", inner, hidden=out)
