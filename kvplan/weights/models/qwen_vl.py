"""Qwen2.5-VL and Qwen3-VL (vLLM: model_executor/models/qwen2_5_vl.py, qwen3_vl.py, qwen3_vl_moe.py)."""

from __future__ import annotations

from kvplan.model import Model
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import SHARED, Frame, decoder
from kvplan.weights.models.llama import qwen2_layer, qwen3_layer
from kvplan.weights.models.qwen_moe import FRAME, qwen3_moe_layer
from kvplan.weights.names import GATE_UP, QKV, Renames
from kvplan.weights.vision.qwen import qwen2_5_vision, qwen3_vision

ARCHITECTURES = (
    "Qwen2_5_VLForConditionalGeneration",
    "Qwen3VLForConditionalGeneration",
    "Qwen3VLMoeForConditionalGeneration",
)
_FRAME = Frame(embed_on=SHARED, outer="language_model.")
_VL = (
    ("model.visual.", "visual."),
    ("lm_head.", "language_model.lm_head."),
    ("model.language_model.", "language_model.model."),
)


def packed(model: Model) -> dict[str, tuple[str, ...]]:
    if model.architecture == "Qwen3VLMoeForConditionalGeneration":
        return {**QKV}
    return {**QKV, **GATE_UP, "qkv": ("qkv",)}


def renames(model: Model) -> Renames:
    if model.architecture == "Qwen2_5_VLForConditionalGeneration":
        return Renames(
            prefixes=(
                ("model.language_model.", "language_model.model."),
                ("model.visual.", "visual."),
                ("lm_head.", "language_model.lm_head."),
                ("model.", "language_model.model."),
            )
        )
    return Renames(prefixes=_VL)


def weights(b: Builder) -> None:
    architecture = b.model.architecture
    vision_of(b)
    if architecture == "Qwen2_5_VLForConditionalGeneration":
        decoder(b, qwen2_layer, _FRAME)
    elif architecture == "Qwen3VLForConditionalGeneration":
        decoder(b, _qwen3_layer, _FRAME)
    else:
        decoder(b, _qwen3_moe_layer, FRAME._replace(outer="language_model."))


def positions_factor(b: Builder) -> int:
    """Length of the rotary table in text positions: longer where videos are pruned, which keeps the positions."""
    return 4 if b.model.engine.args.additional_flags.get("video_pruning_rate") else 1


def _qwen3_layer(b: Builder, prefix: str, index: int) -> None:
    qwen3_layer(b, prefix, index, positions_factor=positions_factor(b))


def _qwen3_moe_layer(b: Builder, prefix: str, index: int) -> None:
    qwen3_moe_layer(b, prefix, index, positions_factor=positions_factor(b))


def vision_of(b: Builder) -> None:
    """The vision transformer of the wrapper, where the deployment has it."""
    if not b.has_tower("image", "video"):
        return
    if b.model.architecture == "Qwen2_5_VLForConditionalGeneration":
        qwen2_5_vision(b, "visual")
    else:
        qwen3_vision(b, "visual", deepstack=[] if "3_5" in b.model.architecture else [8, 16, 24])
