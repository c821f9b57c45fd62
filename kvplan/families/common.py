"""What many families share: attention per rank, layer names, layer types, the model-level sliding window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kvplan.engine.stages import layer_counts
from kvplan.errors import Refused
from kvplan.families.registry import find
from kvplan.hf import Config
from kvplan.layers import AttentionLayer, Layer, MLALayer, Why
from kvplan.model import Model

MAX_LAYERS = 2_000
"""Ten times what any published model has; a config that asks for more would only keep kvplan busy."""


_WITHOUT_MODEL_WINDOW = frozenset(
    (
        "BeamForCausalLM",
        "LagunaForCausalLM",
        "MiMoV2FlashForCausalLM",
        "MiMoV2ForCausalLM",
        "MiMoV2OmniForCausalLM",
        "Step3p5ForCausalLM",
    )
)
"""Classes that set `cache_config.sliding_window` to None while they are built."""


def num_layers(config: Config, key: str = "num_hidden_layers") -> int:
    """The number of decoder layers, bounded: a config is untrusted."""
    return config.integer(key, maximum=MAX_LAYERS)


def head_dim(config: Config, heads: str = "num_attention_heads", key: str = "head_dim") -> int:
    """``head_dim``, or hidden_size // heads where it is missing, null or zero (as most of vLLM's models read it)."""
    return config.optional_integer(key, minimum=0) or divided_head_dim(config, heads)


def divided_head_dim(config: Config, heads: str = "num_attention_heads") -> int:
    """hidden_size // heads, where the model class reads no head_dim."""
    size = config.integer("hidden_size") // config.integer(heads)
    if not size:
        raise config.error("hidden_size", f"must be at least {heads}, got {config.integer('hidden_size')}")
    return size


def is_interleaved(config: Config) -> bool:
    """Whether the layers differ in kind (vllm/transformers_utils/config.py, is_interleaved)."""
    layer_types = config.get("layer_types")
    return isinstance(layer_types, list) and len({str(t) for t in layer_types}) > 1


def model_window(model: Model) -> int | None:
    """The window of layers that set none themselves: `cache_config.sliding_window` (vllm/engine/arg_utils.py).

    There is one only where no layer is said to attend fully. A drafter's layers have the target's, unless the
    target's class has taken it away.
    """
    if model.target is not None and model.target.architecture in _WITHOUT_MODEL_WINDOW:
        return None
    config = model.config if model.target is None else model.target.config
    layer_types = config.get("layer_types")
    if isinstance(layer_types, list) and any(kind != "sliding_attention" for kind in layer_types):
        return None
    return config.optional_integer("sliding_window", minimum=0) or None


def check_rotary(config: Config, head_size: int) -> None:
    """Refused where lists of the rotary positions do not fill the rotated half of a head.

    vLLM: layers/rotary_embedding, get_rope; MRotaryEmbedding asserts it of ``mrope_section``, and the factors of
    longrope are multiplied with the frequencies.
    """
    rope = config.get("rope_parameters")
    if not isinstance(rope, Mapping):
        return
    kind, parameters = rope.get("rope_type", "default"), Config(rope, f"{config.where}: rope_parameters")
    if kind == "longrope":
        lists = {key: len(parameters.sequence(key)) for key in ("short_factor", "long_factor") if key in rope}
    elif kind in ("default", "yarn") and rope.get("mrope_section"):
        lists = {"mrope_section": sum(parameters.integers("mrope_section"))}
    else:
        return
    factor = parameters.number("partial_rotary_factor", 1.0)
    half = (parameters.optional_integer("rope_dim", minimum=0) or int(head_size * factor)) // 2
    for key, length in lists.items():
        if length != half and not (kind == "longrope" and length == 1):
            what = "add up to" if key == "mrope_section" else "have as many entries as"
            raise parameters.error(key, f"must {what} half of the {2 * half} rotated elements of a head, got {length}")


def attention(
    model: Model,
    name: str,
    why: Why,
    *,
    num_heads: int,
    num_kv_heads: int,
    head_size: int,
    **fields: Any,
) -> AttentionLayer:
    """An `Attention` layer from head counts of the whole model; ``fields`` are AttentionLayer's.

    Refused where the query heads of a rank do not share its KV heads evenly, as `Attention` refuses, and where a head
    would hold nothing.
    """
    if head_size < 1:
        raise Refused(
            f"{model.config.where}: the attention heads come out with a size of {head_size}; correct hidden_size."
        )
    layer = AttentionLayer(
        name=name,
        num_heads=model.heads_per_rank(num_heads),
        num_kv_heads=model.kv_heads_per_rank(num_kv_heads),
        head_size=head_size,
        why=why,
        **fields,
    )
    if layer.num_heads % layer.num_kv_heads:
        raise Refused(
            f"{model.config.where}: {num_heads} attention heads cannot share {num_kv_heads} KV heads evenly at "
            f"--tensor-parallel-size {model.tensor_parallel_size}; correct the head counts."
        )
    return layer


def divided_attention(model: Model, why: Why) -> AttentionLayer:
    """The nameless attention layer of classes that divide hidden_size over their heads and read no head_dim."""
    config = model.config
    return attention(
        model,
        "",
        why,
        num_heads=config.integer("num_attention_heads"),
        num_kv_heads=config.integer("num_key_value_heads"),
        head_size=divided_head_dim(config),
        sliding_window=model_window(model),
    )


def decoder_names(prefix: str, count: int, suffix: str = "self_attn.attn", start: int = 0) -> Iterator[str]:
    """vLLM's names of the attention layers of a stack: ``{prefix}.layers.{i}.{suffix}``."""
    return (f"{prefix}.layers.{i}.{suffix}" for i in range(start, start + count))


def uniform_gqa(
    model: Model,
    why: Why,
    *,
    prefix: str = "model",
    suffix: str = "self_attn.attn",
    windows: Sequence[int | None] | None = None,
    head_size: int | None = None,
    num_kv_heads: int | None = None,
    **fields: Any,
) -> list[Layer]:
    """A stack of layers with the same heads: `num_attention_heads` and `num_key_value_heads` of the config.

    ``windows`` gives each layer's own sliding window; a layer with none has the model-level one.
    """
    config = model.config
    if config.layer_fields():
        raise Refused(
            f"{config.where}: per_layer_config makes layers differ, which vLLM's {model.architecture} cannot read; "
            "remove it."
        )
    count = num_layers(config)
    window = model_window(model)
    windows = [w or window for w in windows or [None] * count]
    heads, size = config.integer("num_attention_heads"), head_size or head_dim(config)
    check_rotary(config, size)
    template = attention(
        model,
        "",
        why,
        num_heads=heads,
        num_kv_heads=num_kv_heads or config.integer("num_key_value_heads", heads),
        head_size=size,
        **fields,
    )
    names = decoder_names(prefix, count, suffix, model.start_layer)
    return [template._replace(name=name, sliding_window=w) for name, w in zip(names, windows, strict=True)]


def windows_by_layer_type(config: Config, count: int, *, key: str = "sliding_window") -> list[int | None]:
    """Each layer's window from ``layer_types``: the window on ``sliding_attention``, else (or without the key) none.

    A null window, which is what --disable-sliding-window leaves, makes the sliding layers full.
    """
    if config.get("layer_types") is None:
        return [None] * count
    types = config.texts("layer_types", length=count, allowed=("full_attention", "sliding_attention"))
    if "sliding_attention" not in types:
        return [None] * count
    window = config.optional_integer(key, minimum=0) if key in config else config.integer(key)
    return [(window or None) if kind == "sliding_attention" else None for kind in types]


def require(config: Config, *keys: str) -> None:
    """KvplanError unless the config has the fields: the model class reads them and its config class has no default."""
    for key in keys:
        if key not in config:
            raise config.error(key, "is missing, and vLLM cannot build the model without it")


def require_causal(config: Config) -> None:
    """Refused where ``is_causal`` is false: the model class then builds layers that cache nothing."""
    if not config.truthy("is_causal", True):
        raise Refused(f"{config.where}: is_causal is false, so vLLM runs the layers as an encoder that caches nothing.")


def require_no_dual_chunks(config: Config) -> None:
    """Refused for the 1M-token configs of Qwen: no attention backend of vLLM 0.33.0 takes dual chunk attention."""
    if config.truthy("dual_chunk_attention_config", False):
        raise Refused(
            f"{config.where}: dual_chunk_attention_config is set, but vLLM 0.33.0 has no backend for dual chunk "
            "attention; take the field out of the config."
        )


def check_routed(model: Model, is_routed: Callable[[int], bool]) -> None:
    """Refused where a pipeline stage has no layer with routed experts: these classes look for one as they are built."""
    if model.target is not None:
        return
    stages, start = model.engine.pipeline_parallel_size, 0
    partition = model.engine.args.env.get("VLLM_PP_LAYER_PARTITION")
    for count in layer_counts(num_layers(model.config), stages, partition):
        if not any(is_routed(i) for i in range(start, start + count)):
            raise Refused(
                f"{model.config.where}: layers {start} to {start + count - 1} have no routed experts, and vLLM's "
                f"{model.architecture} wants some on every stage of --pipeline-parallel-size {stages}; choose less."
            )
        start += count


def check_split_tower(model: Model, field: str, value: int, *, whole_on_request: bool = True) -> None:
    """Refused where the vision tower does not divide: vLLM always builds it, by default split over the ranks.

    ``whole_on_request``: its class can leave it whole (`supports_encoder_tp_data`).
    """
    tp, args = model.tensor_parallel_size, model.engine.args
    if value % tp and not (whole_on_request and args.additional_flags.get("mm_encoder_tp_mode") == "data"):
        instead = ", or --mm-encoder-tp-mode data" if whole_on_request else ""
        raise Refused(
            f"{model.root.where}: vision_config.{field} {value} cannot be split over --tensor-parallel-size "
            f"{tp}; choose a size that divides it{instead}."
        )


def check_tower(model: Model, usual: Mapping[str, int], *, whole_on_request: bool = True) -> None:
    """`check_split_tower` for fields of vision_config; ``usual``: their defaults in the vision config's class."""
    vision = model.root.section("vision_config", usual)
    for field, value in usual.items():
        given = value if vision is None else vision.integer(field, value)
        check_split_tower(model, field, given, whole_on_request=whole_on_request)


def nested(model: Model, architecture: str, prefix: str = "language_model") -> list[Layer]:
    """The layers of a wrapper's text model, which vLLM builds as ``architecture`` under ``prefix``."""
    text = model._replace(architecture=architecture, root=model.config)
    layers: Iterable[Layer] = find(architecture).layers(text)
    return [under(prefix, layer) for layer in layers]


def under(prefix: str, layer: Layer) -> Layer:
    """The layer under ``prefix``, with the layer whose cache it reads. A name may begin with a dot (``.layers.0``)."""
    renamed = layer._replace(name=f"{prefix}{'' if layer.name.startswith('.') else '.'}{layer.name}")
    if isinstance(renamed, AttentionLayer) and renamed.kv_sharing_target is not None:
        return renamed._replace(kv_sharing_target=f"{prefix}.{renamed.kv_sharing_target}")
    return renamed


def check_latent_rotary(config: Config) -> None:
    """Refused where scaled rotary positions lack what DeepSeek's kind of them needs, whatever kind the config names.

    vLLM: DeepseekV2MLAAttention takes any kind but ``default`` for its own (layers/rotary_embedding, get_rope).
    """
    rope = config.get("rope_parameters")
    if not isinstance(rope, Mapping) or rope.get("rope_type", "default") == "default":
        return
    for key in ("factor", "original_max_position_embeddings"):
        if rope.get(key) is None:
            raise config.error(f"rope_parameters.{key}", "is missing, and vLLM scales this class's positions with it")


def mla(model: Model, names: Iterable[str], why: Why, **fields: Any) -> list[Layer]:
    """Multi-head latent attention layers: one latent of kv_lora_rank + qk_rope_head_dim per token."""
    config = model.config
    template = MLALayer(
        name="",
        num_heads=model.heads_per_rank(config.integer("num_attention_heads")),
        head_size=config.integer("kv_lora_rank") + config.integer("qk_rope_head_dim"),
        why=why,
        **fields,
    )
    return [template._replace(name=name) for name in names]
