"""The models of a deployment as the family files see them: the target, and the drafter with what it takes over.

Which of the target's options a drafter keeps depends on how vLLM loads it (vllm/v1/worker/gpu/spec_decode).
"""

from __future__ import annotations

from typing import Any

from kvplan import families
from kvplan.backends.base import BackendEnv
from kvplan.cache.build import Side
from kvplan.engine.args import EngineConfig, Speculative
from kvplan.engine.facts import num_attention_heads, num_hidden_layers, num_kv_heads
from kvplan.engine.heads import head_size
from kvplan.layers import Layer
from kvplan.model import DRAFTER, TARGET, Model

_OWN_ATTENTION = frozenset({"dflash", "dspark"})
"""Methods whose drafter selects its backend anew, whatever the target was given."""


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
    )


def drafter_model(engine: EngineConfig, target: Model) -> Model | None:
    """The drafter; None where the method has no model with layers of its own."""
    speculative = engine.speculative
    if speculative is None or speculative.draft is None:
        return None
    resolved = speculative.draft
    return target._replace(
        owner=DRAFTER,
        architecture=resolved.architecture,
        config=resolved.text,
        root=resolved.root,
        dtype=resolved.dtype,
        cache_dtype=speculative.kv_cache_dtype or engine.cache_dtype,
        tensor_parallel_size=speculative.draft_tensor_parallel_size,
        attention_backend=_drafter_backend(engine, speculative),
        use_non_causal=speculative.use_non_causal,
        start_layer=num_hidden_layers(target.root, target.config),
        target=target,
    )


def _drafter_backend(engine: EngineConfig, speculative: Speculative) -> str | None:
    if speculative.attention_backend is not None or speculative.method in _OWN_ATTENTION:
        return speculative.attention_backend
    return engine.attention_backend


def environment(engine: EngineConfig) -> BackendEnv:
    """What backends read of the run's config, which is the target's."""
    resolved, tensor_parallel_size = engine.target, engine.tensor_parallel_size
    root, text = resolved.root, resolved.text
    heads = num_attention_heads(text)
    kv_heads = num_kv_heads(root, text)
    flags = engine.args.additional_flags
    attention = engine.args.attention_config or {}
    env = BackendEnv(
        gpu=engine.gpu,
        num_attention_heads=heads // tensor_parallel_size,
        num_kv_heads=1 if engine.use_mla else max(1, kv_heads // tensor_parallel_size),
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


_TEXT_FIELDS = ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank", "index_topk", "index_kpool")


def declared(model: Model) -> list[Layer]:
    """The layers that the model's family or drafter file declares, in the engine's order."""
    package = "families" if model.owner == TARGET else "drafters"
    module = families.find(model.architecture, package)
    return list(module.layers(model))


def sides(engine: EngineConfig) -> tuple[Side, ...]:
    """Target and, where it has layers of its own, drafter: declared layers and the environment they select in."""
    target = target_model(engine)
    env = environment(engine)
    found = [Side(target, declared(target), env)]
    drafter = drafter_model(engine, target)
    if drafter is not None:
        found.append(Side(drafter, declared(drafter), env._replace(cache_dtype=drafter.cache_dtype)))
    return tuple(found)
