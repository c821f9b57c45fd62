"""``layer_types`` and its like where a config class derives them: from a period, a pattern, or other lists.

Each function is one rule of one or several classes (transformers/models/*/configuration_*.py, ``__post_init__``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kvplan.hf.config import MAXIMUM_LAYERS, shown
from kvplan.hf.draft import Draft, Rule

FULL, SLIDING, CHUNKED, LINEAR = "full_attention", "sliding_attention", "chunked_attention", "linear_attention"
INDEXED, CONV = "indexed_attention", "conv"

ATTENTION = frozenset(
    (
        FULL,
        SLIDING,
        CHUNKED,
        LINEAR,
        INDEXED,
        CONV,
        "window_attention",
        "compressed_sparse_attention",
        "heavily_compressed_attention",
        "minimax_m3_sparse",
        "moe",
        "hybrid",
        "hybrid_sliding",
        "reference_sliding_attention",
    )
)
"""The names that Transformers 5.20 accepts in ``layer_types``."""

LEGACY = {
    "mamba": LINEAR,
    "attention": FULL,
    "deepseek_sparse_attention": INDEXED,
    "qwen_sparse_attention": INDEXED,
}
"""Older names of layer types, and what Transformers turns them into."""


def derive(key: str, choose: Callable[[Draft, int], Any]) -> Rule:
    """The rule that fills a per-layer list where the file has none."""

    def rule(c: Draft) -> None:
        if c.lacks(key):
            c.put(key, [choose(c, i) for i in range(c.layers())])

    return rule


def every(period: int | str, usual: str, special: str = FULL, default: int | None = None) -> Rule:
    """Layer i is ``special`` where (i + 1) is a multiple of the period: a number, or a field with its default."""

    def rule(c: Draft) -> None:
        if not c.lacks("layer_types"):
            return
        n = period if isinstance(period, int) else _period(c, period, default)
        c.put("layer_types", [usual if (i + 1) % n else special for i in range(c.layers())])

    return rule


def _period(c: Draft, key: str, default: int | None) -> int:
    return c.integer(key) if default is None else c.taken(key, default)


def constant(kind: str, key: str = "layer_types") -> Rule:
    return derive(key, lambda c, i: kind)


def windowed_from(first: str) -> Rule:
    """Qwen2 and Qwen3: sliding layers start at the index in ``first``, where there is a window at all."""

    def rule(c: Draft) -> None:
        if not c.lacks("layer_types"):
            return
        start = 0 if c.lacks("sliding_window") else c.integer(first, minimum=0)
        sliding = not c.lacks("sliding_window")
        c.put("layer_types", [SLIDING if sliding and i >= start else FULL for i in range(c.layers())])

    return rule


def qwen2_moe(c: Draft) -> None:
    if c.lacks("layer_types"):
        flag, last = c.truthy("use_sliding_window"), c.integer("max_window_layers", minimum=0)
        kinds = [SLIDING if (i + 1) % 2 and i < last and flag else FULL for i in range(c.layers())]
        c.put("layer_types", kinds)


def interval(special: str) -> Rule:
    """Qwen's hybrids: one full layer in ``full_attention_interval``, which the class then does not keep."""

    def rule(c: Draft) -> None:
        if c.lacks("layer_types"):
            n = c.taken("full_attention_interval", 4)
            c.drop("full_attention_interval")
            c.put("layer_types", [LINEAR if (i + 1) % n else special for i in range(c.layers())])

    return rule


def renamed(old: str, new: str) -> Rule:
    """Layer types that the class reads under another name."""

    def rule(c: Draft) -> None:
        kinds = c.get("layer_types")
        if isinstance(kinds, list) and old in kinds:
            c.put("layer_types", [new if kind == old else kind for kind in kinds])

    return rule


def last_is_full(c: Draft) -> None:
    """Gemma 4 forces its last layer to full attention."""
    kinds = c.get("layer_types")
    if isinstance(kinds, list) and kinds and kinds[-1] != FULL:
        c.put("layer_types", [*kinds[:-1], FULL])


def no_rope_layers(c: Draft) -> None:
    """Llama 4 and SmolLM3: which layers rotate, one in ``no_rope_layer_interval`` does not."""
    if not c.get("no_rope_layers"):
        n = c.integer("no_rope_layer_interval")
        c.put("no_rope_layers", [int((i + 1) % n != 0) for i in range(c.layers())])


def llama4(c: Draft) -> None:
    no_rope_layers(c)
    if c.lacks("layer_types"):
        c.put("layer_types", [CHUNKED if rope else FULL for rope in c.sequence("no_rope_layers")])


def smollm3(c: Draft) -> None:
    if c.lacks("no_rope_layers"):
        no_rope_layers(c)
    if c.lacks("layer_types"):
        sliding = c.truthy("use_sliding_window") and not c.lacks("sliding_window")
        rope = c.sequence("no_rope_layers")[: c.layers()]
        c.put("layer_types", [SLIDING if sliding and not r else FULL for r in rope])


def window_means_all_sliding(c: Draft) -> None:
    if c.lacks("layer_types"):
        c.put("layer_types", [FULL if c.lacks("sliding_window") else SLIDING] * c.layers())


def exaone(c: Draft) -> None:
    """EXAONE 4: the pattern counts only where there is a window; without one and without a list it has no meaning."""
    if c.lacks("sliding_window"):
        c.put("sliding_window_pattern", 0)
    every("sliding_window_pattern", SLIDING)(c)


def lfm2(c: Draft) -> None:
    if not c.lacks("layer_types"):
        return
    if c.lacks("full_attn_idxs"):
        c.put("full_attn_idxs", list(range(c.layers())))
    full = set(c.integers("full_attn_idxs"))
    c.put("layer_types", [FULL if i in full else CONV for i in range(c.layers())])


def olmo_hybrid(c: Draft) -> None:
    if c.lacks("layer_types"):
        kinds = [FULL if i % 4 == 3 else LINEAR for i in range(c.layers())]
        c.put("layer_types", kinds if FULL in kinds else [*kinds[:-1], FULL])


def glm5_next(c: Draft) -> None:
    derive("layer_types", lambda c, i: INDEXED if i % 4 == 3 else LINEAR)(c)
    renamed(FULL, INDEXED)(c)


def muse_glimmer(c: Draft) -> None:
    """Every fourth layer counted back from the last is full."""
    if c.lacks("layer_types"):
        n = c.layers()
        c.put("layer_types", [SLIDING if (n - 1 - i) % 4 else FULL for i in range(n)])


def muse_glimmer_assistant(c: Draft) -> None:
    """All layers slide, and five layers of the target are read."""
    if c.lacks("layer_types"):
        c.put("layer_types", [SLIDING] * c.layers())
    if c.lacks("target_layer_ids"):
        c.put("target_layer_ids", [1, 13, 25, 37, 49])


def mimo_v2_flash(c: Draft) -> None:
    derive("layer_types", lambda c, i: FULL if i == 0 or not (i + 1) % 6 else SLIDING)(c)


def indexer_types(c: Draft) -> None:
    """DeepSeek sparse attention: which layers own an indexer ("full") and which reuse one ("shared")."""
    if not c.lacks("indexer_types"):
        return
    pattern = c.get("index_topk_pattern")
    if pattern is not None:
        kinds = {"F": "full", "S": "shared"}
        if isinstance(pattern, str) and set(pattern) <= set(kinds):
            c.put("indexer_types", [kinds[letter] for letter in pattern])
        elif isinstance(pattern, list):
            c.put("indexer_types", list(pattern))
        else:
            raise c.error("index_topk_pattern", f"must be a string of F and S or a list, got {shown(pattern)}")
        return
    frequency = max(c.taken("index_topk_freq", 1, -MAXIMUM_LAYERS), 1)
    offset = c.taken("index_skip_topk_offset", 2, -MAXIMUM_LAYERS)
    c.put(
        "indexer_types",
        ["shared" if max(i - offset + 1, 0) % frequency else "full" for i in range(c.layers())],
    )


def hy_v4(c: Draft) -> None:
    """Hy4 (vLLM's own class): other names of the sparse layers, and an indexer in one layer of four."""
    derive("indexer_types", lambda c, i: "full" if i == 0 or (i - 1) % 4 == 0 else "shared")(c)
    for name in ("sparse_attention", "sparse"):
        renamed(name, INDEXED)(c)


_COMPRESSED = {0: SLIDING, 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}


def deepseek_v4(c: Draft) -> None:
    """DeepSeek-V4: from the legacy ``compress_ratios``, else two heavy layers and then light and heavy in turn."""
    ratios = c.get("compress_ratios")
    if c.lacks("layer_types") and ratios is not None:
        kinds = [_COMPRESSED.get(ratio) for ratio in c.integers("compress_ratios")]
        if None in kinds:
            raise c.error("compress_ratios", f"must be 0, 4 or 128 each, got {shown(ratios)}")
        c.put("layer_types", kinds)
    n, (light, heavy) = c.layers(), (_COMPRESSED[4], _COMPRESSED[128])
    if c.lacks("layer_types"):
        c.put("layer_types", [heavy] * min(n, 2) + [light if i % 2 else heavy for i in range(max(n - 2, 0))])
    c.put("layer_types", list(c.sequence("layer_types"))[:n])
    hashed = c.integer("num_hash_layers", 3, minimum=0)
    c.drop("num_hash_layers")
    if c.lacks("mlp_layer_types"):
        c.put("mlp_layer_types", ["hash_moe"] * min(n, hashed) + ["moe"] * max(0, n - hashed))
    c.put("mlp_layer_types", list(c.sequence("mlp_layer_types"))[:n])


_BLOCKS = {"M": LINEAR, "E": "moe", "*": FULL, "-": "mlp"}


def _blocks(c: Draft, key: str) -> list[str]:
    pattern = c.text(key)
    if not set(pattern) <= set(_BLOCKS):
        raise c.error(key, f"must be made of M, E, * and -, got {shown(pattern)}")
    if len(pattern) > MAXIMUM_LAYERS:
        raise c.error(key, f"must have at most {MAXIMUM_LAYERS} letters, got {len(pattern)}")
    return [_BLOCKS[letter] for letter in pattern]


def nemotron_h(c: Draft) -> None:
    """Nemotron-H: block types from a pattern of letters; their number is the number of layers."""
    for old, new in _NEMOTRON_NAMES.items():
        if old in c.data:
            c.put(new, c.drop(old))
    for pattern, key, default in (
        ("hybrid_override_pattern", "layers_block_type", [LINEAR, "moe", FULL, "mlp"]),
        ("mtp_hybrid_override_pattern", "mtp_layers_block_type", [FULL, "moe"]),
    ):
        given = c.lacks(key) or (key.startswith("mtp") and _remapped(c.get(key)) == default)
        if pattern in c.data and given:
            c.put(key, _blocks(c, pattern))
        elif c.lacks(key):
            c.put(key, default)
        c.put(key, _remapped(c.texts(key)))
        c.drop(pattern)
        c.put(pattern, _letters(c.sequence(key)))
    c.drop("num_hidden_layers")
    c.put("num_hidden_layers", len(c.sequence("layers_block_type")))


def _letters(kinds: Sequence[Any]) -> str:
    names = {name: letter for letter, name in _BLOCKS.items()}
    return "".join(names.get(kind, "?") for kind in kinds)


_NEMOTRON_NAMES = {
    "mamba_n_groups": "n_groups",
    "mamba_d_conv": "conv_kernel",
    "mamba_expand": "expand",
    "mamba_dt_limit": "time_step_limit",
    "mamba_conv_bias": "use_conv_bias",
    "mamba_chunk_size": "chunk_size",
}


def zamba2(c: Draft) -> None:
    if c.lacks("layers_block_type"):
        m, h = LINEAR, "hybrid"
        c.put("layers_block_type", [m] + ([m] * 5 + [h]) * 7 + [m] * 4 + [h] + [m] * 3 + [h] + [m] * 2)
    kinds = _remapped(c.texts("layers_block_type"))
    c.put("layers_block_type", kinds)
    c.put("hybrid_layer_ids", [i for i, kind in enumerate(kinds) if kind == "hybrid"])


def jamba(c: Draft) -> None:
    period, offset = c.integer("attn_layer_period"), c.integer("attn_layer_offset", minimum=0)
    kinds = ["attention" if i % period == offset else "mamba" for i in range(c.layers())]
    c.put("layers_block_type", kinds)
    c.put("layer_types", _remapped(kinds))


def bamba(c: Draft) -> None:
    full = set() if c.lacks("attn_layer_indices") else set(c.integers("attn_layer_indices"))
    c.put("layers_block_type", [FULL if i in full else LINEAR for i in range(c.layers())])


def falcon_h1(c: Draft) -> None:
    c.put("layers_block_type", ["hybrid"] * c.layers())


def step3p5(c: Draft) -> None:
    """Step 3.5: the hub's per-layer lists go on over the MTP layers; the class splits those off."""
    n, extra = c.layers(), min(c.taken("num_nextn_predict_layers", 0, 0), MAXIMUM_LAYERS)
    c.put("num_nextn_predict_layers", extra)
    for key, rest in (("layer_types", "mtp_layer_types"), ("mlp_layer_types", "mtp_mlp_layer_types")):
        kinds = c.get(key)
        if extra and isinstance(kinds, list) and len(kinds) == n + extra:
            c.put(key, kinds[:n])
            c.put(rest, kinds[n:])
    if c.lacks("layer_types"):
        c.put("layer_types", [FULL] * n)
        if extra:
            c.put("mtp_layer_types", [FULL] * extra)


def first_dense(count: int | str) -> Rule:
    """``mlp_layer_types``: the first layers dense, the others sparse."""

    def rule(c: Draft) -> None:
        if c.lacks("mlp_layer_types"):
            n = c.layers()
            dense = min(count if isinstance(count, int) else c.integer(count, minimum=0), n)
            c.put("mlp_layer_types", ["dense"] * dense + ["sparse"] * (n - dense))

    return rule


def _remapped(kinds: Any) -> Any:
    return [LEGACY.get(kind, kind) for kind in kinds] if isinstance(kinds, list) else kinds


def finish(c: Draft) -> None:
    """What every config class does last: today's names of layer types."""
    for key in ("layer_types", "mtp_layer_types"):
        kinds = c.get(key)
        if isinstance(kinds, list) and any(isinstance(kind, str) and kind in LEGACY for kind in kinds):
            c.put(key, [LEGACY.get(kind, kind) if isinstance(kind, str) else kind for kind in kinds])


Allowed = tuple[frozenset[str], frozenset[str]]
USUAL: Allowed = (ATTENTION, frozenset(("sparse", "dense")))
DEEPSEEK_V4: Allowed = (
    frozenset((SLIDING, "compressed_sparse_attention", "heavily_compressed_attention")),
    frozenset(("hash_moe", "moe")),
)


def check(c: Draft, allowed: Allowed = USUAL) -> None:
    """What Transformers validates: known layer types, as many as there are layers. KvplanError otherwise."""
    for key, names in zip(("layer_types", "mlp_layer_types"), allowed, strict=True):
        if c.lacks(key) or "num_hidden_layers" not in c:
            return
        kinds = c.texts(key, allowed=names)
        if not c.lacks("num_hidden_layers") and len(kinds) != c.layers():
            raise c.error(key, f"has {len(kinds)} entries for num_hidden_layers {c.layers()}; make them agree")
