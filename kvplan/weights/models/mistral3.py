"""Mistral and Llama decoders behind a vision tower: Mistral 3 and LLaVA.

vLLM: model_executor/models/mistral3.py, llava.py; the decoder is that of llama.py or mistral.py.
"""

from __future__ import annotations

from kvplan.model import Model
from kvplan.weights.builder import Builder
from kvplan.weights.decoder import SHARED, Frame, decoder
from kvplan.weights.models.llama import llama_layer
from kvplan.weights.names import GATE_UP, QKV, Packed, Renames
from kvplan.weights.vision.pixtral import clip, pixtral

ARCHITECTURES = (
    "Mistral3ForConditionalGeneration",
    "LlavaForConditionalGeneration",
)
_TEXTS = ("mistral", "ministral3", "llama")
_PROJECTOR, _MISTRAL3 = "multi_modal_projector", "Mistral3ForConditionalGeneration"
_NEW_NAMES = (
    ("model.language_model.", "language_model.model."),
    ("model.vision_tower.", "vision_tower."),
    ("model.multi_modal_projector.", "multi_modal_projector."),
    ("lm_head.", "language_model.lm_head."),
)


def packed(model: Model) -> Packed:
    return {**QKV, **GATE_UP}


def renames(model: Model) -> Renames:
    plain = (("model.", "language_model.model."),) if model.architecture == _MISTRAL3 else ()
    return Renames(prefixes=(*_NEW_NAMES, *plain))


def weights(b: Builder) -> None:
    """Refused for other decoders and towers than those compared with the engine."""
    kind = b.config.get("model_type")
    if kind not in _TEXTS:
        b.refuse(f"with a text model of type {kind}")
    if b.model.architecture != _MISTRAL3 and b.config.truthy("tie_word_embeddings"):  # as `LlavaConfig` passes it up
        b.model = b.model._replace(root=b.model.root.replace(tie_word_embeddings=True))
    if b.has_tower("image"):
        with b.tower():
            _vision(b)
    decoder(b, llama_layer, Frame(embed_on=SHARED, outer="language_model."))


def _vision(b: Builder) -> None:
    root, hidden = b.model.root, b.config.integer("hidden_size")
    vision = root.get("vision_config")
    kind = vision.get("model_type") if isinstance(vision, dict) else None
    if b.model.architecture == _MISTRAL3:
        size = pixtral(b, "vision_tower", root, -1)
        b.norm(f"{_PROJECTOR}.norm", size)
        merged = size * root.integer("spatial_merge_size", 2) ** 2
        b.replicated(f"{_PROJECTOR}.patch_merger.merging_layer", merged, size, quantized=False)
    elif kind == "pixtral":
        size = pixtral(b, "vision_tower", root, -2)
    elif kind == "clip_vision_model":
        b.only_unquantized()
        size = clip(b, "vision_tower.vision_model", root, -2)
    else:
        b.refuse(f"with a vision tower of type {kind}")
    bias = root.boolean("multimodal_projector_bias", b.model.architecture != _MISTRAL3)
    b.column(f"{_PROJECTOR}.linear_1", size, hidden, bias=bias)
    b.row(f"{_PROJECTOR}.linear_2", hidden, hidden, bias=bias)
