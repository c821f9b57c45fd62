"""``rope_parameters`` in today's form from every older spelling, as Transformers and vLLM bring it there.

The maximum length and its scaling follow from it. Sources: transformers/modeling_rope_utils.py
(`RotaryEmbeddingConfigMixin`) with the overrides of single config classes, and vLLM's
transformers_utils/config.py (`patch_rope_parameters`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.hf.config import shown
from kvplan.hf.draft import Draft

KEPT, LAYERED, MROPE, PHI3, NEOX, ROTARY_DIM = "kept", "layered", "mrope", "phi3", "neox", "rotary_dim"
_EXTENDING = ("llama3", "yarn", "longrope")
_REQUIRED = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor", "original_max_position_embeddings"),
    "longrope": ("short_factor", "long_factor", "original_max_position_embeddings"),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}
_WITHOUT = frozenset(
    ("falcon_mamba", "granitemoehybrid", "jamba", "kimi_linear", "mamba", "mamba2", "nemotron_h", "whisper", "zamba2")
)
"""Model types whose layers have no rotary positions, or leave them out on request."""
_WITHOUT_IF_NULL = _WITHOUT | {"glm5_next", "glm5_next_text", "olmo_hybrid"}


def standardize(c: Draft, style: str | None) -> None:
    """Puts ``rope_parameters`` in its final form; a config without rotary positions keeps none."""
    if "rope_parameters" in c.defaults:
        if style != KEPT:
            _convert(c, style)
        elif "rope_scaling" in c.data:
            c.put("rope_parameters", c.drop("rope_scaling"))
    elif c.get("rope_scaling") and c.get("rope_theta"):
        _convert(c, style)
    elif "rope_scaling" in c.data:
        c.put("rope_parameters", c.drop("rope_scaling"))
    theta = _first(c, "rope_theta", "rotary_emb_base")
    if theta is None and not c.get("rope_parameters"):
        return
    factor = _first(c, "partial_rotary_factor", "rotary_pct", "rotary_emb_fraction")
    parameters = _parameters(c)
    for part in _parts(c, parameters):
        _rename_legacy(c, part)
        _fill(c, part, theta, factor, nested=part is not parameters)
        _check(c, part)
    c.put("rope_parameters", parameters)


def _convert(c: Draft, style: str | None) -> None:
    """The class's own step from ``rope_scaling``, ``rope_theta`` and the like."""
    if style == LAYERED:
        _convert_layered(c)
        return
    scaling = c.drop("rope_scaling")
    if scaling:
        c.put("rope_parameters", scaling)
    parameters = _parameters(c)
    theta = _taken(c, "rotary_emb_base" if style == NEOX else "rope_theta")
    factor = None if style == MROPE else _taken(c, "rotary_pct" if style == NEOX else "partial_rotary_factor")
    if style == ROTARY_DIM and factor is None and not c.lacks("rotary_dim"):
        factor = c.number("rotary_dim") / c.integer("head_dim")
    for part in _parts(c, parameters):
        if style == MROPE and part.get("rope_type", part.get("type")) == "mrope":
            part["rope_type"] = "default"
        _fill(c, part, theta, factor, nested=part is not parameters)
        if style == PHI3 and part["rope_type"] in ("su", "yarn"):
            part["rope_type"] = "longrope"
    c.put("rope_parameters", parameters)


def _convert_layered(c: Draft) -> None:
    """Gemma 3, Gemma 3n, OLMo 3: one set per layer type; a legacy ``rope_scaling`` is that of the full layers."""
    scaling = c.drop("rope_scaling")
    parameters = _parameters(c)
    if c.lacks("rope_parameters"):
        parameters = {"sliding_attention": {"rope_type": "default"}, "full_attention": {"rope_type": "default"}}
    for kind, name in (("full_attention", "rope_theta"), ("sliding_attention", "rope_local_base_freq")):
        part = parameters.get(kind)
        part = part if isinstance(part, dict) else {"rope_type": "default"}
        if kind == "full_attention" and isinstance(scaling, Mapping):
            part.update(scaling)
        parameters[kind] = part
        _fill(c, part, _taken(c, name), None, nested=True)
    c.put("rope_parameters", parameters)


def _taken(c: Draft, key: str) -> Any:
    """The value of a field the class takes over into ``rope_parameters``: gone from the config unless it is a field."""
    value = c.get(key)
    if key not in c.defaults:
        c.drop(key)
    return value


def _first(c: Draft, *keys: str) -> Any:
    return next((c.get(key) for key in keys if not c.lacks(key)), None)


def _parameters(c: Draft) -> dict[str, Any]:
    """A copy of the file's ``rope_parameters``: the source stays as it was read."""
    value = c.get("rope_parameters")
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise c.error(_named(c), f"must be a JSON object, got {shown(value)}")
    return {key: dict(item) if isinstance(item, Mapping) else item for key, item in value.items()}


def _named(c: Draft) -> str:
    """The field of the file that the parameters stand in; the older one counts where it holds something."""
    return "rope_scaling" if c.raw.get("rope_scaling") else "rope_parameters"


def _parts(c: Draft, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """The sets in it: one per layer type where it is nested by those, else the whole."""
    kinds = c.get("layer_types")
    names = {k for k in kinds if isinstance(k, str)} if isinstance(kinds, list) else set()
    names |= {"main", "compress"} if "compress_rates" in c else set()
    nested = [parameters[key] for key in parameters if key in names]
    return [part for part in nested if isinstance(part, dict)] if nested else [parameters]


def _fill(c: Draft, part: dict[str, Any], theta: Any, factor: Any, *, nested: bool) -> None:
    part.setdefault("rope_type", part.get("type", "default"))
    if theta is not None:
        part.setdefault("rope_theta", theta)
    if factor is not None:
        part.setdefault("partial_rotary_factor", factor)
    if part["rope_type"] in _EXTENDING:
        if not nested and "original_max_position_embeddings" in c:
            part["original_max_position_embeddings"] = c.get("original_max_position_embeddings")
        elif not c.lacks("max_position_embeddings"):
            part.setdefault("original_max_position_embeddings", c.get("max_position_embeddings"))


def _rename_legacy(c: Draft, part: dict[str, Any]) -> None:
    kind, old = part.get("rope_type"), part.get("type")
    agreeing = kind == old or (old, kind) in (("su", "longrope"), ("mrope", "default"))
    if kind is not None and old is not None and not agreeing:
        raise c.error(_named(c), f"has rope_type {shown(kind)} and type {shown(old)}; keep one of them")
    kind = kind if kind is not None else old
    if kind == "mrope" and "mrope_section" not in part:
        raise c.error(_named(c), "of type mrope needs an mrope_section")
    names = {"su": "longrope", "mrope": "default", "telechat3-yarn": "yarn"}
    if kind is not None:
        part["rope_type"] = names.get(kind, kind) if isinstance(kind, str) else kind


def _check(c: Draft, part: dict[str, Any]) -> None:
    kind = part.get("rope_type")
    if not isinstance(kind, str):
        raise c.error(_named(c), f"must name a rope_type, got {shown(kind)}")
    missing = [key for key in _REQUIRED.get(kind, ()) if key not in part]
    if missing:
        raise c.error(_named(c), f"of type {kind} lacks {', '.join(missing)}")
    _check_theta(c, part)
    size = c.given.get("head_dim") or c.get("head_dim")  # the file's wins in the end, whatever the class computes
    factor = part.get("partial_rotary_factor", 1.0)
    if isinstance(size, int) and isinstance(factor, (int, float)) and size > 4 and size % 2 and factor >= 1:
        raise c.error("head_dim", f"must be even for rotary positions, got {size}")


def _check_theta(c: Draft, part: dict[str, Any]) -> None:
    """The base of the rotary positions: an explicit null is none, and the model cannot be built with it."""
    kind, theta = str(c.get("model_type")), part.get("rope_theta")
    null = "rope_theta" in part or (c.raw.get("rope_theta", 0) is None and "rope_parameters" in c.defaults)
    if theta is None and (kind in _WITHOUT_IF_NULL or not null):
        return
    if kind not in _WITHOUT and not (isinstance(theta, (int, float)) and abs(theta) < 2**63):
        raise c.error("rope_theta", f"must be a number, got {shown(theta)}")
