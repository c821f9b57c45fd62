"""The tensors of a deployment, from its configs: what each pipeline stage's first rank creates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from kvplan.engine.args import EngineConfig
from kvplan.engine.draft import shares_target_positions
from kvplan.errors import Refused
from kvplan.model import Model
from kvplan.sides import drafter_model, target_model
from kvplan.weights.builder import Builder
from kvplan.weights.own import Own
from kvplan.weights.parts import Tensor
from kvplan.weights.quant.base import Unquantized
from kvplan.weights.quant.make import make
from kvplan.weights.registry import find

_SHARING_MODULES = ("MiniMaxM3MTP",)
"""Prediction modules that find the target's embedding on the last stage."""
_EMBEDDINGS = ("embed_tokens.weight", "tok_embeddings.weight", "word_embeddings.weight", "wte.weight")
_UNKNOWN_FLAGS = (
    "enable_lora",
    "dcp_q_replicate",
    "cpu_offload_gb",
    "offload_group_size",
    "enable_eplb",
    "quantization_config",
)
_UNKNOWN_VARIABLES = ("VLLM_REPLICATE_EMBED", "VLLM_DCP_Q_REPLICATE")
Settings = Mapping[str, Any] | None
Tables = set[tuple[Any, ...]]


class Stage(NamedTuple):
    """Parameters and buffers of the first rank of a pipeline stage."""

    target: tuple[Tensor, ...]
    drafter: tuple[Tensor, ...] = ()


def deployment(engine: EngineConfig, settings: Settings = None, draft_settings: Settings = None) -> tuple[Stage, ...]:
    """Every stage's tensors; the settings are the checkpoints' quantisations. Refused by name where not known."""
    _check_options(engine)
    target = target_model(engine)
    drafter = drafter_model(engine, target)
    stages = []
    for i in range(engine.pipeline_parallel_size):
        tables: Tables = set()
        own = tensors(target, engine.quantization, settings, i, tables)
        last = i == engine.pipeline_parallel_size - 1
        if drafter is not None and last and i > 0:
            _check_shared(drafter, own)
        extra = drafted(drafter, settings, draft_settings, tables) if drafter is not None and last else []
        stages.append(Stage(tuple(own), tuple(extra)))
    return tuple(stages)


def _check_shared(drafter: Model, own: Iterable[Tensor]) -> None:
    """Refused where the last stage lacks the embedding that a drafter shares (`maybe_share_target_embed`)."""
    speculative = drafter.engine.speculative
    if speculative is None or speculative.method not in ("eagle", "eagle3", "dflash", "dspark"):
        return
    if not any(tensor.name.endswith(_EMBEDDINGS) for tensor in own):
        raise Refused(
            f"{drafter.root.where}: the last pipeline stage of this target holds no embedding to share, so vLLM starts "
            "only where the drafter brings its own, which its config does not say; give --weights-bytes."
        )


def _check_options(engine: EngineConfig) -> None:
    """Refused with an option that changes which tensors a rank holds, and that kvplan does not follow."""
    flags, env = engine.args.additional_flags, engine.args.env
    given = [f"--{name.replace('_', '-')}" for name in _UNKNOWN_FLAGS if flags.get(name)]
    given += [f"{name}={env[name]}" for name in _UNKNOWN_VARIABLES if env.get(name, "0").lower() in ("1", "true")]
    if given:
        raise Refused(f"{given[0]}: the weights with it are not known to kvplan; give --weights-bytes.")


def stored_bytes(engine: EngineConfig, settings: Settings = None) -> int:
    """Bytes of the target's checkpoint as the configs have it: all that is loaded, on one rank, without padding."""
    alone = engine._replace(pipeline_parallel_size=1, data_parallel_size=1, enable_expert_parallel=False)
    model = target_model(alone)._replace(tensor_parallel_size=1)
    found = tensors(model, engine.quantization, settings, pads=False)
    return sum(tensor.bytes for tensor in found if tensor.loaded)


def tensors(
    model: Model,
    method: str | None,
    settings: Settings,
    stage: int = 0,
    tables: Tables | None = None,
    *,
    pads: bool = True,
) -> list[Tensor]:
    """Parameters and buffers of a target, or of a draft model of its own kind, on the first rank of a stage."""
    module = find(model.architecture)
    builder = Builder(model, _scheme(module, model, method, settings), stage, tables, pads=pads)
    module.weights(builder)
    return builder.tensors


def drafted(model: Model, settings: Settings, draft_settings: Settings, tables: Tables) -> list[Tensor]:
    """What a drafter adds to the last stage."""
    engine = model.engine
    speculative, target = engine.speculative, model.target
    if speculative is None or target is None or speculative.draft is None:
        return []
    if speculative.method == "draft_model":
        return tensors(model, speculative.draft.quantization, draft_settings, 0, tables)
    module = find(model.architecture, "drafters")
    if module.OWN_SCHEME:
        scheme = make(speculative.draft.quantization, draft_settings, {}, None)
    else:
        scheme = _scheme(find(target.architecture), target, engine.quantization, settings)
    builder = Builder(_at_target_length(model), scheme, 0, tables)
    module.weights(builder, Own(embedding=_keeps_embedding(model)))
    return builder.tensors


def _at_target_length(model: Model) -> Model:
    """The drafter with tables as long as the target's positions (`_maybe_override_draft_max_position_embeddings`)."""
    config, engine, key = model.config, model.engine, "max_position_embeddings"
    speculative = engine.speculative
    if speculative is None or not shares_target_positions(speculative.method, model.root):
        return model
    if config.get(key) is None or config.integer(key) >= engine.max_model_len:
        return model
    return model._replace(config=config.replace(**{key: engine.max_model_len}))


def _scheme(module: ModuleType, model: Model, method: str | None, settings: Settings) -> Unquantized:
    renames = module.renames(model) if hasattr(module, "renames") else None
    if method == "deepseek_v4_fp8" and settings is not None:
        settings = {**settings, "expert_dtype": model.root.get("expert_dtype", "fp4")}
    return make(method, settings, module.packed(model), renames)


def _keeps_embedding(model: Model) -> bool:
    """Prediction modules on another stage than the target's embedding bring their own (`maybe_share_target_embed`)."""
    speculative = model.engine.speculative
    staged = model.engine.pipeline_parallel_size > 1 and model.architecture not in _SHARING_MODULES
    return staged and speculative is not None and speculative.method == "mtp"
