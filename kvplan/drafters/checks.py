"""What vLLM's loaders refuse: targets that a method cannot draft for, and drafters that do not fit the target.

Sources: v1/worker/gpu/spec_decode (eagle3_utils.py, dflash/speculator.py, utils.py), v1/spec_decode
(llm_base_proposer.py, draft_model.py) and the drafters' own classes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kvplan.engine import hooks
from kvplan.engine.args import EngineConfig, Speculative
from kvplan.engine.facts import count, is_deepseek_mla
from kvplan.engine.parallel import check_model
from kvplan.errors import Refused
from kvplan.hf import Config
from kvplan.model import Model


def check(engine: EngineConfig, drafter: Model) -> None:
    """Refused where the drafter cannot run beside the target. ``drafter``: a drafter with layers of its own."""
    speculative, target = engine.speculative, drafter.target
    if speculative is None or target is None:
        return
    check_kv_scheme(drafter)
    if speculative.method == "draft_model":
        check_draft_model(engine, speculative, drafter)
    elif reads_hidden_states(speculative, drafter.root):
        check_hidden_states(engine, speculative.method, target)
    if speculative.method in ("eagle", "mtp"):
        check_stack(speculative.method, target)
    if speculative.method in ("eagle", "eagle3", "dflash", "dspark"):
        check_width(speculative, drafter, target)
    if speculative.parallel_drafting and not drafter.architecture.endswith("MuseGlimmerAssistantModel"):
        check_mask_token(drafter.root)  # Muse Glimmer's config class has a default for the token
    if speculative.method == "dflash":
        check_anchor(drafter.root)


def reads_hidden_states(speculative: Speculative, root: Config) -> bool:
    """Whether the drafter reads inner layers of the target (`requires_aux_hidden_states`)."""
    if speculative.method == "eagle3":
        section = root.section("eagle_config")
        return section is None or section.truthy("use_aux_hidden_state", True)
    return speculative.method in ("dflash", "dspark", "extract_hidden_states")


def check_hidden_states(engine: EngineConfig, method: str, target: Model) -> None:
    """Refused where the target's class does not hand its inner hidden states out, or not over pipeline stages."""
    from kvplan.drafters import hidden_states

    if target.architecture not in hidden_states.ARCHITECTURES_WITH:
        raise Refused(
            f"--speculative-config method {method}: {target.architecture} does not give a drafter its inner hidden "
            "states in vLLM 0.33.0; choose another method."
        )
    kept = method == "extract_hidden_states"
    if engine.pipeline_parallel_size > 1 and (kept or not hidden_states.over_stages(target)):
        raise Refused(
            f"--pipeline-parallel-size {engine.pipeline_parallel_size}: {target.architecture} does not support method "
            f"{method} over pipeline stages in vLLM 0.33.0; use 1."
        )


_OTHER_STACKS = frozenset(
    (
        "BloomForCausalLM",
        "ChatGLMForConditionalGeneration",
        "ChatGLMModel",
        "DbrxForCausalLM",
        "ExaoneForCausalLM",
        "FalconForCausalLM",
        "FalconMambaForCausalLM",
        "GPT2LMHeadModel",
        "GPTJForCausalLM",
        "Idefics3ForConditionalGeneration",
        "Mamba2ForCausalLM",
        "MambaForCausalLM",
        "SmolVLMForConditionalGeneration",
    )
)
"""Classes that do not hold their layers, or the whole text model, under the name `model`."""


def check_stack(method: str, target: Model) -> None:
    """Refused where the loader does not find the target's layers (`load_eagle_model` of eagle/utils.py)."""
    if target.architecture in _OTHER_STACKS:
        raise Refused(
            f"--speculative-config method {method}: vLLM 0.33.0 does not find the embedding of {target.architecture} "
            "to share with a drafter; choose another method."
        )


def check_draft_model(engine: EngineConfig, speculative: Speculative, drafter: Model) -> None:
    """Refused where a plain draft model cannot run, or where its class would change the target's options."""
    if engine.pipeline_parallel_size > 1:
        raise Refused(
            f"--pipeline-parallel-size {engine.pipeline_parallel_size}: vLLM 0.33.0 splits a plain draft model over "
            "the stages but runs it on the last one only; use 1 or another method."
        )
    size = speculative.draft_tensor_parallel_size
    if not engine.use_v2_model_runner and size != engine.tensor_parallel_size:
        raise Refused(
            f"--speculative-config draft_tensor_parallel_size {size}: the V1 model runner needs the target's "
            f"{engine.tensor_parallel_size} for a draft model."
        )
    if not engine.use_v2_model_runner:
        check_model(
            drafter.root,
            drafter.config,
            "",
            tensor_parallel_size=size,
            decode_context_parallel_size=engine.decode_context_parallel_size,
            use_mla=is_deepseek_mla(drafter.config),
        )
    if not engine.use_v2_model_runner and uses_mrope(drafter):
        raise Refused(
            f"{drafter.root.where}: the V1 model runner does not run draft models with multimodal rotary positions; "
            "choose another drafter."
        )
    check_own_defaults(engine, drafter)


def uses_mrope(model: Model) -> bool:
    """Whether positions have several axes (vllm/transformers_utils/config.py, uses_mrope)."""
    found: Any = model.config.get("rope_parameters") or model.config.get("rope_scaling")
    return isinstance(found, dict) and any(
        "mrope_section" in one for one in (found, *found.values()) if isinstance(one, dict)
    )


def check_own_defaults(engine: EngineConfig, drafter: Model) -> None:
    """Refused where the draft model's class sets options that vLLM shares between it and the target."""
    options = hooks.Options(
        cache_dtype=drafter.cache_dtype,
        mamba_ssm_cache_dtype=engine.mamba_ssm_cache_dtype,
        attention_backend=drafter.attention_backend,
        flash_attn_version=engine.flash_attn_version,
        method="draft_model",
        draft_cache_dtype=drafter.cache_dtype,
        pipeline_parallel_size=engine.pipeline_parallel_size,
    )
    if hooks.apply(drafter.architecture, options, drafter.root, drafter.config, engine.gpu) != options:
        raise Refused(
            f"{drafter.root.where}: {drafter.architecture} changes options that a draft model shares with the target "
            f"{engine.target.architecture}; kvplan does not plan the pair."
        )


def check_kv_scheme(drafter: Model) -> None:
    """Refused where the drafter's checkpoint asks for a KV cache of its own, which vLLM then gives the whole run."""
    found: Any = drafter.root.get("quantization_config")
    own = isinstance(found, dict) and found.get("kv_cache_scheme") is not None
    if own and drafter.cache_dtype == "auto":
        raise Refused(
            f"{drafter.root.where}: quantization_config has a kv_cache_scheme; kvplan plans such a drafter only with "
            "--kv-cache-dtype or kv_cache_dtype of --speculative-config."
        )


def check_width(speculative: Speculative, drafter: Model, target: Model) -> None:
    """Refused where the target's hidden states do not have the width that the drafter was made for."""
    if drafter.architecture in _STAGES_OF_TARGET:
        return
    config, width = drafter.config, count(target.config, "hidden_size")
    own = config.integer("hidden_size")
    if speculative.method != "eagle" and reads_hidden_states(speculative, drafter.root):
        own = config.optional_integer("target_hidden_size") or own
    if own != width:
        raise Refused(
            f"{config.where}: the drafter reads hidden states of width {own}, and the target's have {width}; "
            "choose a drafter that was made for this target."
        )


_STAGES_OF_TARGET = frozenset(("DSparkDraftModel", "DSparkV41DraftModel", "K3DSparkModel", "MuseSparkDSparkModel"))
"""Drafters with hidden sizes of other names."""


def check_mask_token(root: Config) -> None:
    """Refused without the token that stands for what is not drafted yet (`get_parallel_drafting_token_id`)."""
    section = root.section("dflash_config")
    named = section is not None and "mask_token_id" in section
    others = ("dspark_noise_token_id", "pard_token", "ptd_token_id")
    if not named and root.get("mask_token_id") is None and not any(key in root for key in others):
        raise Refused(f"{root.where}: mask_token_id is missing, which drafting a whole block at once needs.")


def check_anchor(root: Config) -> None:
    """Refused where a DFlash drafter was trained to predict at its anchor."""
    section = root.section("dflash_config")
    if section is not None and section.truthy("sample_from_anchor"):
        raise Refused(f"{section.where}: sample_from_anchor is true, which vLLM 0.33.0 does not run for DFlash.")


_SEVERAL_GROUPS = frozenset(("Step3p5MTP", "Gemma4MTPModel"))
"""Drafters whose V1 proposers read several KV cache groups."""


def split_over_groups(engine: EngineConfig, drafted: Iterable[str], groups: Iterable[Iterable[str]]) -> str | None:
    """What the V1 runner dies of where the drafter's layers lie in several groups (`validate_same_kv_cache_group`).

    ``drafted``: names of the drafter's layers; ``groups``: the names of each group's.
    """
    speculative = engine.speculative
    if speculative is None or engine.use_v2_model_runner or speculative.architecture in _SEVERAL_GROUPS:
        return None
    names = set(drafted)
    holding = sum(1 for group in groups if not names.isdisjoint(group))
    if holding < 2:
        return None
    return (
        f"the V1 model runner needs all layers of the drafter in one KV cache group, and they lie in {holding}; unset "
        "VLLM_USE_V2_MODEL_RUNNER or choose another drafter."
    )
