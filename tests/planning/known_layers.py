"""The layers of the deployments whose plans are published, as the engine sees them."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.spec import AttentionSpec, CacheLayer, Limits, Spec, StateSpec

GIB = 2**30


def attention(kind: str = "full_attention", heads: int = 8, head_size: int = 128, **fields: object) -> AttentionSpec:
    """A bf16 attention spec with blocks of 16 tokens."""
    values = {"block_size": 16, "head_size_v": head_size, "dtype": "bfloat16"} | fields
    return AttentionSpec(kind=kind, num_kv_heads=heads, head_size=head_size, **values)  # type: ignore[arg-type]


def layers_of(*runs: tuple[str, int, Spec], owner: str = "target") -> list[CacheLayer]:
    """Runs of (name, count, spec), dealt in turn so that kinds alternate as in real models."""
    rows: list[tuple[float, int, CacheLayer]] = []
    for order, (name, count, spec) in enumerate(runs):
        rows += [((i + 0.5) / count, order, CacheLayer(f"{name}.{i}", owner, spec, "")) for i in range(count)]
    return [layer for _, _, layer in sorted(rows, key=lambda row: row[:2])]


def qwen36_with_dflash() -> tuple[list[CacheLayer], Limits]:
    """Qwen3.6-35B-A3B with DFlash: 30 gated-delta-net (M) and 10 full (F) layers; drafter 5 window (s), 1 full (f)."""
    full = attention(heads=2, head_size=256, block_size=640)
    state = StateSpec(
        shapes=((10, 8192), (32, 128, 128)),
        dtypes=("bfloat16", "bfloat16"),
        block_size=262144,
        page_size_padded=1310720,
        mamba_type="gdn_attn",
        num_speculative_blocks=7,
    )
    target = []
    for i in range(40):
        name, spec = (f"F{i}", full) if i % 4 == 3 else (f"M{i}", state)
        target.append(CacheLayer(name, "target", spec, ""))
    window = attention("sliding_window", block_size=640, sliding_window=4096)
    drafter = layers_of(("s", 5, window), owner="drafter")
    drafter += layers_of(("f", 1, attention(block_size=640)), owner="drafter")
    return target + drafter, Limits(max_model_len=262144, max_in_flight_tokens=32768)


def mimo_with_dflash(heads: int, max_in_flight_tokens: int) -> tuple[list[CacheLayer], Limits]:
    """MiMo-V2.5/2.6 with DFlash: 9 full, 39 window (128) layers with K 192 and V 128 wide; drafter 5 window (1024).

    ``heads``: KV heads of a full layer on one rank.
    """
    full = attention(heads=heads, head_size=192, head_size_v=128)
    window = attention("sliding_window", heads=2 * heads, head_size=192, head_size_v=128, sliding_window=128)
    draft = attention("sliding_window", heads=2 * heads, sliding_window=1024)
    pattern = "FssssFsssssFsssssFsssssFsssssFsssssFsssssFsssssF"
    target = [CacheLayer(f"{kind}{i}", "target", full if kind == "F" else window, "") for i, kind in enumerate(pattern)]
    return target + layers_of(("d", 5, draft), owner="drafter"), Limits(1048576, max_in_flight_tokens)


def group_sizes(groups: Sequence[object]) -> list[int]:
    """Layers of each group."""
    return [len(group.layers) for group in groups]  # type: ignore[attr-defined]
