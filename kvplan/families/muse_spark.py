"""Muse Spark: sliding layers with a full layer every few; the vision and audio encoders cache nothing.

vLLM: models/muse_spark/nvidia/model.py (MuseSpark1xAttention), models/muse_spark/common/omni.py. The config classes are
vLLM's own (transformers_utils/configs/muse_spark.py) and have no defaults.
"""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.families.common import num_layers, require, uniform_gqa, windows_by_layer_type
from kvplan.families.registry import Traits
from kvplan.hf import Config
from kvplan.layers import Layer
from kvplan.model import Model

ARCHITECTURES = ("MuseSparkForConditionalGeneration",)

TRAITS = Traits(is_multimodal=True)

_WHY = ("layer_types, sliding_window", "models/muse_spark/nvidia/model.py, MuseSpark1xAttention")
_TEXT = (
    "final_logit_softcapping",
    "max_position_embeddings",
    "moe_hidden_size",
    "moe_intermediate_size",
    "num_experts_per_tok",
    "num_local_experts",
    "num_shared_experts",
    "output_multiplier",
    "post_norm_eps",
    "qk_scale_factor",
    "residual_gate_temperature",
    "rms_norm_eps",
    "routed_scaling_factor",
    "rope_parameters",
    "tie_word_embeddings",
    "vocab_size",
)
"""Further fields of the text model that its class reads."""


_VISION = (
    "intermediate_size",
    "layer_norm_eps",
    "num_attention_heads",
    "patch_size",
    "patch_temporal",
    "pos_emb_height",
    "pos_emb_width",
)
_AUDIO = ("conv_kernel_size", "mlp_ratio", "rms_norm_eps")


def check_text(config: Config) -> None:
    """KvplanError where vLLM's MuseSparkTextConfig or its model class refuses a field, or lacks it."""
    require(config, *_TEXT)
    count = num_layers(config)
    if config.text("hidden_act") != "silu" or config.truthy("attention_bias", True):
        raise config.error("hidden_act", "must be silu with attention_bias false, which vLLM's class wants")
    rope = config.section("rope_parameters")
    if rope is None or rope.get("rope_type") != "default":
        raise config.error("rope_parameters", "must have rope_type default, which vLLM's class wants")
    if config.get("num_shared_experts"):
        raise config.error("num_shared_experts", "must be 0: vLLM's class has no shared experts")
    config.texts("layer_types", length=count, allowed=("full_attention", "sliding_attention"))
    if "dense" in config.texts("mlp_layer_types", length=count, allowed=("sparse", "dense")):
        config.integer("intermediate_size")
    config.sequence("layer_rope_theta", length=count)


def check_encoders(root: Config, text: Config) -> None:
    """KvplanError where the vision or audio encoder is missing, or does not fit the text model."""
    require(root, "projector_hidden_size", "out_hidden_size")
    vision, audio = root.section("vision_config"), root.section("audio_config")
    if vision is None or audio is None:
        raise root.error("vision_config" if vision is None else "audio_config", "is missing, and vLLM needs it")
    check_vision(vision)
    check_audio(audio)
    merged = vision.integer("hidden_size") * vision.integer("merge_size") ** 2
    if root.integer("out_hidden_size") != merged:
        raise root.error("out_hidden_size", f"must be the width of merged vision patches ({merged})")
    if audio.integer("out_hidden_size") != text.integer("hidden_size"):
        raise audio.error("out_hidden_size", f"must be the text model's hidden_size ({text.integer('hidden_size')})")


def check_vision(vision: Config) -> None:
    """KvplanError where vLLM's MuseSparkVisionConfig or the encoder refuses a field, or lacks it."""
    require(vision, *_VISION)
    if vision.text("hidden_act") != "gelu":
        raise vision.error("hidden_act", "must be gelu, which vLLM's class wants")
    rope = vision.section("rope_parameters")
    if rope is None or rope.get("rope_type") != "axial":
        raise vision.error("rope_parameters", "must have rope_type axial, which vLLM's class wants")
    vision.texts("layer_types", length=num_layers(vision), allowed=("full_attention", "window_attention"))


def check_audio(audio: Config) -> None:
    """The same for MuseSparkAudioConfig."""
    require(audio, *_AUDIO)
    if audio.text("hidden_act") != "gelu":
        raise audio.error("hidden_act", "must be gelu, which vLLM's class wants")
    for key in ("patch_sizes", "depths", "hidden_sizes"):
        audio.sequence(key, length=num_layers(audio))


def check_gated_heads(model: Model) -> None:
    """Refused where ranks would share a KV head: the projection that has the output gate in it does not repeat one."""
    config, tp = model.config, model.tensor_parallel_size
    if config.integer("num_key_value_heads") % tp:
        raise Refused(
            f"{config.where}: {config.integer('num_key_value_heads')} KV heads cannot be split over "
            f"--tensor-parallel-size {tp}, and Muse Spark's gated projection repeats none; choose a smaller size."
        )


def layers(model: Model) -> list[Layer]:
    config = model.config
    check_text(config)
    check_gated_heads(model)
    check_encoders(model.root, config)
    if model.engine.quantization not in (None, "modelopt_fp4"):
        raise Refused(
            f"--quantization {model.engine.quantization}: Muse Spark runs unquantized or with ModelOpt's NVFP4 only; "
            "choose such a checkpoint."
        )
    return uniform_gqa(
        model,
        _WHY,
        windows=windows_by_layer_type(config, num_layers(config)),
        head_size=config.integer("head_dim"),
        num_kv_heads=config.integer("num_key_value_heads"),
    )
