"""Reading a config with transformers' own class, and where it differs from kvplan's reading of it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

from kvplan.hf import Config
from kvplan.hf.defaults import entry

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import transformers

transformers.logging.set_verbosity_error()

# Fields without any bearing on caches, lengths, dtypes or weights, and those that vLLM gets in another way.
IGNORED_PARTS = (
    "initializer",
    "dropout",
    "token_id",
    "token_index",
    "_eps",
    "epsilon",
    "logit",
    "hidden_act",
    "jitter",
)
IGNORED = {
    "activation",
    "activation_function",
    "activation_sparsity_pattern",
    "architectures",
    "audio_config",
    "auto_map",
    "allow_global_per_layer_attribute_access",
    "aux_loss_alpha",
    "base_model_tp_plan",
    "chunk_size_feed_forward",
    "global_head_dim",  # Gemma 4's class folds both into per_layer_config; kvplan keeps them beside it
    "num_global_key_value_heads",
    "encoder_config",
    "id2label",
    "image_grid_pinpoints",
    "ignore_keys_at_rope_validation",
    "kvplan",
    "label2id",
    "layer_rope_theta",
    "max_length",
    "max_value_projector_patch_to_query_dict",
    "mlp_multipliers",
    "model_type",
    "num_labels",
    "output_hidden_states",
    "output_router_logits",
    "pretraining_tp",
    "problem_type",
    "projector_config",
    "projector_patch_to_query_dict",
    "return_dict",
    "router_aux_loss_coef",
    "seq_aux",
    "partial_rotary_factor",
    "per_layer_config",
    "quantization_config",
    "query_pre_attn_scalar",
    "rope_scaling",
    "rope_theta",
    "routed_scaling_factor",
    "sliding_window_pattern",  # only the list that follows from it counts
    "ssm_multipliers",
    "text_config",
    "time_step_limit",
    "torch_dtype",
    "transformers_version",
    "use_cache",
    "vision_config",
}
ROPE = ("rope_type", "factor", "original_max_position_embeddings")
"""What of the rotary parameters bears on lengths."""


def has_class(model_type: str) -> bool:
    """Whether vLLM reads the type with a class of transformers (else with one of its own, or with remote code)."""
    line = entry(model_type)
    return line is not None and line["from"].startswith("transformers")


def read(config: dict[str, Any]) -> tuple[Any, Any]:
    """The whole config and its text part, as the class that the table names reads them."""
    line = entry(config["model_type"])
    assert line is not None
    cls = getattr(transformers, line["class"])
    root = cls.from_dict(copy.deepcopy(config))
    text = root.get_text_config()
    for part in {id(root): root, id(text): text}.values():
        if getattr(part, "rope_theta", None) is not None:  # as vLLM's patch_rope_parameters does
            part.standardize_rope_params()
    return root, text


def differences(ours: Config, theirs: Any) -> Iterator[str]:
    """One line for each field that the two readings do not agree on."""
    if theirs.is_heterogeneous:
        yield from _by_layer(ours, theirs)
        theirs.allow_global_per_layer_attribute_access = True
    names = {*ours.keys(), *vars(theirs), *type(theirs).attribute_map}
    for name in sorted(names):
        if name.startswith("_") or name in IGNORED or any(part in name for part in IGNORED_PARTS):
            continue
        has = hasattr(theirs, name)
        mine, their = plain(ours.get(name), name), plain(getattr(theirs, name, None), name)
        if (name in ours) != has or mine != their:
            yield f"{name}: kvplan {mine!r:.100}, {type(theirs).__name__} {their if has else 'has none'!r:.100}"


def _by_layer(ours: Config, theirs: Any) -> Iterator[str]:
    """Differences in what varies from layer to layer."""
    for i, layer in enumerate(theirs.per_layer_config):
        for name in ("head_dim", "num_key_value_heads", "num_attention_heads", "sliding_window"):
            mine, their = ours.layer(i).get(name), getattr(layer, name)
            if mine != their:
                yield f"layer {i}: {name}: kvplan {mine!r}, {type(theirs).__name__} {their!r}"


def plain(value: Any, name: str = "") -> Any:
    """A value as JSON has it, with whole numbers as integers; of rotary parameters only what counts."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if name != "rope_parameters" or k in ROPE or isinstance(v, dict)}
        return {str(k): plain(v, name) for k, v in kept.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
