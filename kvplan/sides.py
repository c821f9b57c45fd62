"""The models of a deployment as the family files see them: the target, and the drafter with what it takes over.

A drafter is built under a copy of the target's configuration. What the copy changes depends on the runner and on the
method: `load_eagle_model`, `load_dflash_model`, `load_dspark_model` and the speculators beside them
(vllm/v1/worker/gpu/spec_decode) on the V2 runner, `_create_draft_vllm_config` of the proposers (vllm/v1/spec_decode)
on V1. Its layers are split over the target's tensor-parallel ranks, whatever draft_tensor_parallel_size says: no
loader makes another group.
"""

from __future__ import annotations

from typing import Any

from kvplan import families
from kvplan.backends.base import BackendEnv
from kvplan.cache.build import Side
from kvplan.engine.args import EngineConfig, ResolvedModel, Speculative
from kvplan.engine.facts import is_deepseek_mla, model_type, num_attention_heads, num_hidden_layers, num_kv_heads
from kvplan.engine.heads import head_size
from kvplan.engine.stages import layer_counts
from kvplan.errors import Refused
from kvplan.layers import Layer
from kvplan.model import DRAFTER, TARGET, Model

_DRAFT_MODEL = "draft_model"
_BLOCK_METHODS = frozenset(("dflash", "dspark"))
"""Methods that draft a block at once: their drafter selects its backend anew and may attend both ways."""
_TEXT_FIELDS = ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank", "index_topk", "index_kpool")


def target_model(engine: EngineConfig) -> Model:
    """The target under the deployment's options."""
    resolved = engine.target
    return Model(
        owner=TARGET,
        architecture=resolved.architecture,
        config=resolved.text,
        root=resolved.root,
        engine=engine,
        dtype=resolved.dtype,
        cache_dtype=engine.cache_dtype,
        tensor_parallel_size=engine.tensor_parallel_size,
        attention_backend=engine.attention_backend,
        use_non_causal=engine.use_non_causal,
        is_mm_prefix_lm=engine.is_mm_prefix_lm,
        use_per_head_quant_scales=_has_scale_per_head(resolved),
    )


def drafter_model(engine: EngineConfig, target: Model) -> Model | None:
    """The drafter; None where the method has no model with layers of its own."""
    speculative = engine.speculative
    if speculative is None or speculative.draft is None:
        return None
    resolved = speculative.draft
    own_dtype = speculative.kv_cache_dtype if _takes_own_dtype(engine, speculative) else None
    block = speculative.method in _BLOCK_METHODS
    total = num_hidden_layers(target.root, target.config)
    return target._replace(
        owner=DRAFTER,
        architecture=resolved.architecture,
        config=resolved.text,
        root=resolved.root,
        dtype=resolved.dtype,
        cache_dtype=own_dtype or engine.cache_dtype,
        owns_cache_dtype=own_dtype is not None,
        attention_backend=_attention_backend(engine, speculative),
        use_non_causal=speculative.use_non_causal if block else engine.use_non_causal,
        is_mm_prefix_lm=_is_mm_prefix_lm(engine, speculative),
        use_per_head_quant_scales=_has_scale_per_head(resolved),
        selects_without_dcp=_replicates_context(engine, resolved, block) or _is_v2_draft_model(engine, speculative),
        replicates_context=_replicates_context(engine, resolved, block),
        start_layer=0 if speculative.method == _DRAFT_MODEL else total,
        layers_on_last_stage=_layers_on_last_stage(engine, total),
        target=target,
    )


def _replicates_context(engine: EngineConfig, resolved: ResolvedModel, block: bool) -> bool:
    """Whether the drafter runs without decode context parallelism beside a target with it (`DFlashSpeculator`)."""
    parallel = engine.decode_context_parallel_size > 1
    return parallel and block and engine.use_v2_model_runner and not is_deepseek_mla(resolved.text)


def _is_v2_draft_model(engine: EngineConfig, speculative: Speculative) -> bool:
    """Whether the drafter is built with a parallel config of its own (`StandaloneARSpeculator`), but shards its cache
    as the target does."""
    return speculative.method == _DRAFT_MODEL and engine.use_v2_model_runner


def is_gemma4_assistant(speculative: Speculative) -> bool:
    """An assistant that reads the target's cache (`use_gemma4_mtp`)."""
    return speculative.method == "mtp" and speculative.architecture == "Gemma4MTPModel"


def _attention_backend(engine: EngineConfig, speculative: Speculative) -> str | None:
    """The backend that the drafter is built with: its own, the target's, or None for a selection of its own."""
    own, v2 = speculative.attention_backend, engine.use_v2_model_runner
    if is_gemma4_assistant(speculative):
        return engine.attention_backend or (None if v2 else own)
    if not v2:
        return own
    if speculative.method == _DRAFT_MODEL:
        return engine.attention_backend
    if own is None and (speculative.method not in _BLOCK_METHODS or _is_deepseek_v4_stage(speculative)):
        return engine.attention_backend
    return own


def _is_deepseek_v4_stage(speculative: Speculative) -> bool:
    """DSpark stages inside a DeepSeek-V4 checkpoint, which share the target's cache layout."""
    kind = "" if speculative.draft is None else model_type(speculative.draft.root)
    return speculative.method == "dspark" and kind in ("deepseek_v4", "deepseek_v41")


def _takes_own_dtype(engine: EngineConfig, speculative: Speculative) -> bool:
    """Whether the loader looks at kv_cache_dtype of --speculative-config."""
    if speculative.method == "extract_hidden_states":
        return False
    return not (engine.use_v2_model_runner and is_gemma4_assistant(speculative))


def _is_mm_prefix_lm(engine: EngineConfig, speculative: Speculative) -> bool:
    """Whether images attend both ways in the config that is current while the drafter is built: its own, or the
    target's. The target's switches for multimodal input do not reach a drafter."""
    own = speculative.method == _DRAFT_MODEL or (engine.use_v2_model_runner and is_gemma4_assistant(speculative))
    if not own or speculative.draft is None:
        return engine.is_mm_prefix_lm
    from kvplan.engine.args import EngineArgs
    from kvplan.engine.kind import kind_of

    return kind_of(EngineArgs(model=engine.args.model, enable_prefix_caching=False), speculative.draft).is_mm_prefix_lm


def _has_scale_per_head(resolved: ResolvedModel) -> bool:
    """Whether the checkpoint's KV scheme has a scale per head (`Attention.__init__`)."""
    found: Any = resolved.root.get("quantization_config")
    scheme = found.get("kv_cache_scheme") if isinstance(found, dict) else None
    return isinstance(scheme, dict) and scheme.get("strategy") == "attn_head"


def _layers_on_last_stage(engine: EngineConfig, total: int) -> int:
    partition = engine.args.env.get("VLLM_PP_LAYER_PARTITION")
    return layer_counts(total, engine.pipeline_parallel_size, partition)[-1]


def environment(engine: EngineConfig) -> BackendEnv:
    """What backends read of the run's config, which is the target's."""
    return _environment(engine, engine.target, engine.tensor_parallel_size, engine.use_mla)


def _environment(engine: EngineConfig, resolved: ResolvedModel, tensor_parallel_size: int, use_mla: bool) -> BackendEnv:
    root, text = resolved.root, resolved.text
    heads = num_attention_heads(text)
    kv_heads = num_kv_heads(root, text)
    flags = engine.args.additional_flags
    attention = engine.args.attention_config or {}
    env = BackendEnv(
        gpu=engine.gpu,
        num_attention_heads=heads // tensor_parallel_size,
        num_kv_heads=1 if use_mla else max(1, kv_heads // tensor_parallel_size),
        head_size=head_size(root, text),
        cache_dtype=engine.cache_dtype,
        decode_context_parallel_size=engine.decode_context_parallel_size,
        prefill_context_parallel_size=engine.prefill_context_parallel_size,
        flash_attn_version=engine.flash_attn_version,
        use_trtllm_attention=attention.get("use_trtllm_attention"),
        batch_invariant=engine.args.env.get("VLLM_BATCH_INVARIANT") == "1",
        has_logits_soft_cap=text.truthy("attn_logit_softcapping"),
        is_mm_prefix_lm=engine.is_mm_prefix_lm,
        use_replayssm=bool(flags.get("use_replayssm")),
    )
    sizes: dict[str, Any] = {key: text.optional_integer(key, minimum=0) for key in _TEXT_FIELDS}
    return env._replace(**sizes)


def _drafter_environment(engine: EngineConfig, drafter: Model, env: BackendEnv) -> BackendEnv:
    """What the drafter's backends read: the run's config, or for a plain draft model its own."""
    speculative = engine.speculative
    if speculative is not None and speculative.draft is not None and speculative.method == _DRAFT_MODEL:
        resolved, size = speculative.draft, speculative.draft_tensor_parallel_size
        env = _environment(engine, resolved, size, is_deepseek_mla(resolved.text))
    if drafter.selects_without_dcp:
        env = env._replace(decode_context_parallel_size=1)
    return env._replace(cache_dtype=drafter.cache_dtype, is_mm_prefix_lm=drafter.is_mm_prefix_lm)


def declared(model: Model) -> list[Layer]:
    """The layers that the model's family or drafter file declares, in the engine's order."""
    if model.owner == TARGET:
        return list(families.find(model.architecture).layers(model))
    speculative = model.engine.speculative
    if speculative is not None and speculative.method == _DRAFT_MODEL:
        from kvplan.drafters.draft_model import layers

        return layers(model)
    return list(families.find(model.architecture, "drafters").layers(model))


def check_names(target: list[Layer], drafter: list[Layer]) -> None:
    """Refused where vLLM would give a layer of the drafter the name of one of the target's."""
    known = {layer.name for layer in target}
    twice = next((layer.name for layer in drafter if layer.name in known), None)
    if twice is not None:
        raise Refused(
            f"vLLM would name a layer of the drafter {twice}, as one of the target's is named, and stops; "
            "drop --pipeline-parallel-size or choose another drafter."
        )


def sides(engine: EngineConfig) -> tuple[Side, ...]:
    """Target and, where it has layers of its own, drafter: declared layers and the environment they select in."""
    target = target_model(engine)
    env = environment(engine)
    layers = declared(target)
    found = [Side(target, layers, env)]
    drafter = drafter_model(engine, target)
    if drafter is not None:
        from kvplan.drafters import checks

        checks.check(engine, drafter)
        drafted = declared(drafter)
        check_names(layers, drafted)
        found.append(Side(drafter, drafted, _drafter_environment(engine, drafter, env)))
    return tuple(found)
