"""From flags, configs and a GPU to resolved options: the order of vLLM's own steps.

Source: `create_engine_config` of vllm/engine/arg_utils.py and `VllmConfig.__post_init__` of vllm/config/vllm.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.engine import batching, hooks, hybrid_manager, kv_cache_dtype, parallel, scheduling
from kvplan.engine.args import EngineArgs, EngineConfig, ModelFacts, ResolvedModel, Speculative
from kvplan.engine.draft import shares_target_positions
from kvplan.engine.facts import is_deepseek_mla, is_encoder_decoder, model_type, num_hidden_layers
from kvplan.engine.model import resolve_target, scheme_of
from kvplan.engine.quantization import check_quantization
from kvplan.engine.speculative import resolve_speculative
from kvplan.engine.unplanned import check_flags
from kvplan.errors import Refused
from kvplan.gpus import Gpu

DEFAULT_BLOCK_SIZE = 16
_FULL_LAYER_TYPES = ("attention", "full_attention")
_MM_PREFIX_TYPES = ("bagel", "gemma3", "molmo2", "moondream3", "paligemma")


def resolve(args: EngineArgs, target: ModelFacts, drafter: ModelFacts | None, gpu: Gpu) -> EngineConfig:
    """Every option as vLLM 0.33.0 resolves it, with the target's and the drafter's effective configs.

    ``drafter``: what was read of the model that `--speculative-config` names; None where it names none (ngram, a
    built-in MTP). Refused with one sentence where vLLM refuses, or where kvplan cannot judge a flag.
    """
    check_flags(args)
    parallel.check_sizes(args)
    model = resolve_target(args, target, gpu)
    is_hybrid, use_mla = _is_hybrid(model), _use_mla(args, model)
    chunked, prefix = _prefill_and_caching(args, model, is_hybrid)
    scheme = scheme_of(target, model.root)
    own_scheme = scheme if model.root.get("quantization_config") or target.hf_quant_config else None
    cache_dtype = kv_cache_dtype.resolve_cache_dtype(args.kv_cache_dtype, own_scheme)
    speculative = resolve_speculative(args, target, model, drafter)
    mm_prefix = _is_mm_prefix_lm(args, model)
    minimum = batching.min_multimodal_tokens(model.architecture, model.root, args) if mm_prefix else 0
    sizes = batching.resolve_batching(args, gpu, model.max_model_len, chunked, minimum)
    batching.check_batching(sizes, model.max_model_len, chunked, args)
    options = hooks.apply(model.architecture, _options(args, cache_dtype, speculative), model.root, model.text, gpu)
    kv_cache_dtype.check_cache_dtype(options.cache_dtype, model.dtype, use_mla)
    parallel.check_model(
        model.root,
        model.text,
        model.flags,
        tensor_parallel_size=args.tensor_parallel_size,
        pipeline_parallel_size=args.pipeline_parallel_size,
        decode_context_parallel_size=args.decode_context_parallel_size,
        enable_expert_parallel=args.enable_expert_parallel,
        use_mla=use_mla,
    )
    check_quantization(model.quantization, model.dtype, gpu)
    if speculative is not None:
        speculative = speculative._replace(kv_cache_dtype=options.draft_cache_dtype)
    use_v2 = scheduling.resolve_model_runner(args, speculative)
    length, notes = _cut_to_drafter(model, speculative, use_v2)
    state_block = _mamba_block_size(args, model, is_hybrid, prefix, chunked, length)
    asynchronous = scheduling.resolve_async_scheduling(args, speculative, use_v2)
    scheduling.check_model_runner(args, speculative, use_v2, asynchronous)
    active = _check_lookahead(args, sizes, speculative)
    batches = scheduling.max_concurrent_batches(args.pipeline_parallel_size, asynchronous, use_v2)
    compressed = kv_cache_dtype.compressed_tensors_scheme(model.root, scheme)
    if compressed is not None and options.cache_dtype == "auto" and not use_mla:
        options = options._replace(cache_dtype="fp8")
        notes += ("the checkpoint's compressed-tensors scheme stores the KV cache as fp8",)
    return EngineConfig(
        args=args,
        gpu=gpu,
        dtype=model.dtype,
        quantization=model.quantization,
        cache_dtype=options.cache_dtype,
        kv_cache_dtype_skip_layers=_skip_layers(args, model, is_hybrid, options.cache_dtype),
        is_hybrid=is_hybrid,
        use_mla=use_mla,
        max_model_len=length,
        max_num_seqs=sizes.max_num_seqs,
        max_num_batched_tokens=sizes.max_num_batched_tokens,
        max_num_encoder_input_tokens=sizes.max_num_batched_tokens,
        async_scheduling=asynchronous,
        use_v2_model_runner=use_v2,
        max_concurrent_batches=batches,
        max_in_flight_tokens=batches * sizes.max_num_batched_tokens,
        enable_prefix_caching=prefix,
        mamba_cache_mode="align" if prefix and _has_states(model, is_hybrid) else "none",
        mamba_cache_dtype=args.mamba_cache_dtype,
        mamba_ssm_cache_dtype=options.mamba_ssm_cache_dtype,
        mamba_block_size=state_block,
        block_size=DEFAULT_BLOCK_SIZE if args.block_size is None else args.block_size,
        user_specified_block_size=args.block_size is not None,
        tensor_parallel_size=args.tensor_parallel_size,
        pipeline_parallel_size=args.pipeline_parallel_size,
        data_parallel_size=args.data_parallel_size,
        decode_context_parallel_size=args.decode_context_parallel_size,
        prefill_context_parallel_size=args.prefill_context_parallel_size,
        enable_expert_parallel=args.enable_expert_parallel,
        disable_hybrid_kv_cache_manager=hybrid_manager.resolve_hybrid_manager(args, model.text, speculative),
        attention_backend=options.attention_backend,
        backend_per_kind=_backend_per_kind(args),
        use_non_causal=bool(_attention(args).get("use_non_causal")),
        use_kv_connector=hybrid_manager.connector(args) is not None,
        target=model._replace(max_model_len=length),
        speculative=speculative,
        enable_chunked_prefill=chunked,
        is_mm_prefix_lm=mm_prefix,
        flash_attn_version=options.flash_attn_version,
        max_num_active_seqs=active,
        notes=notes,
    )


def _is_hybrid(model: ResolvedModel) -> bool:
    """The class mixes attention with states, and the config really has layers that are not attention."""
    types = model.root.get("layer_types")
    plain = isinstance(types, (list, tuple)) and all(t in _FULL_LAYER_TYPES for t in types)
    return "h" in model.flags and not plain


def _has_states(model: ResolvedModel, is_hybrid: bool) -> bool:
    return is_hybrid or "f" in model.flags


def _use_mla(args: EngineArgs, model: ResolvedModel) -> bool:
    if model.uses_transformers_backend:
        return model.text.get("kv_lora_rank") is not None
    return model.text.truthy("is_causal", True) and is_deepseek_mla(model.text)


def _prefill_and_caching(args: EngineArgs, model: ResolvedModel, is_hybrid: bool) -> tuple[bool, bool]:
    """Chunked prefill and prefix caching: on by default where the kind of model supports them."""
    encoder_decoder = not is_hybrid and is_encoder_decoder(model.root, model.text)
    chunked = not encoder_decoder if args.enable_chunked_prefill is None else args.enable_chunked_prefill
    supported = is_hybrid or not ("f" in model.flags or encoder_decoder)
    prefix = supported if args.enable_prefix_caching is None else args.enable_prefix_caching
    return chunked and not encoder_decoder, prefix


def _is_mm_prefix_lm(args: EngineArgs, model: ResolvedModel) -> bool:
    """Whether images attend both ways and the deployment takes any."""
    kind = model_type(model.root)
    if kind == "deepseek_v4":
        found = bool(model.root.get("vision_n_layers"))
    elif kind in ("gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text"):
        found = model.text.get("use_bidirectional_attention") == "vision"
    elif "is_mm_prefix_lm" in model.root:
        found = model.root.truthy("is_mm_prefix_lm")
    else:
        found = kind in _MM_PREFIX_TYPES
    return found and (not model.is_multimodal or batching.takes_multimodal(args, model.root))


def _options(args: EngineArgs, cache_dtype: str, speculative: Speculative | None) -> hooks.Options:
    attention = _attention(args)
    given = {str(b).upper() for b in (args.attention_backend, attention.get("backend")) if b is not None}
    if args.attention_backend is not None and attention.get("backend") is not None:
        raise Refused("--attention-backend and backend of --attention-config exclude each other; keep one.")
    backend = next(iter(given), None)
    version = attention.get("flash_attn_version")
    if version not in (None, 2, 3, 4):
        raise Refused(f"--attention-config flash_attn_version {version!r} must be 2, 3 or 4.")
    if cache_dtype.startswith("turboquant_") or cache_dtype == "ultraquant_4bit":
        version = 2
    return hooks.Options(
        cache_dtype=cache_dtype,
        mamba_ssm_cache_dtype=args.mamba_ssm_cache_dtype,
        attention_backend=None if backend == "AUTO" else backend,
        flash_attn_version=version,
        method=None if speculative is None else speculative.method,
        draft_cache_dtype=None if speculative is None else speculative.kv_cache_dtype,
        pipeline_parallel_size=args.pipeline_parallel_size,
    )


def _attention(args: EngineArgs) -> Mapping[str, Any]:
    return args.attention_config or {}


def _backend_per_kind(args: EngineArgs) -> Mapping[str, str]:
    value = _attention(args).get("backend_per_kind") or {}
    if not isinstance(value, Mapping):
        raise Refused(f"--attention-config backend_per_kind must be an object, got {value!r}.")
    return {str(kind): str(backend).upper() for kind, backend in value.items()}


def _cut_to_drafter(model: ResolvedModel, speculative: Speculative | None, use_v2: bool) -> tuple[int, tuple[str, ...]]:
    """The target's length after the drafter's: the V2 runner cannot stop drafting beyond it."""
    drafter = None if speculative is None else speculative.draft
    if speculative is None or drafter is None or not use_v2:
        return model.max_model_len, ()
    if shares_target_positions(speculative.method, drafter.root) or drafter.max_model_len >= model.max_model_len:
        return model.max_model_len, ()
    note = f"max_model_len is cut from {model.max_model_len} to the drafter's {drafter.max_model_len}"
    return drafter.max_model_len, (note,)


def _mamba_block_size(
    args: EngineArgs, model: ResolvedModel, is_hybrid: bool, prefix: bool, chunked: bool, length: int
) -> int | None:
    """Tokens between two cached states before the layers exist: the model's length without prefix caching."""
    size = args.mamba_block_size
    if _has_states(model, is_hybrid):
        if prefix and not chunked:
            raise Refused("--no-enable-chunked-prefill: prefix caching of state layers needs chunked prefill.")
        if size is None:
            size = (args.block_size or DEFAULT_BLOCK_SIZE) if prefix else model.max_model_len
    if size is None or prefix or size == length:
        return size
    if args.mamba_block_size is None:
        raise Refused(
            f"the drafter cuts --max-model-len from {model.max_model_len} to {length}, which vLLM does not accept for "
            f"state layers without prefix caching; set --max-model-len {length}."
        )
    raise Refused(f"--mamba-block-size {size} needs --enable-prefix-caching; add it or leave the size out.")


def _check_lookahead(args: EngineArgs, sizes: batching.Batching, speculative: Speculative | None) -> int | None:
    """The limit on running requests. Refused where a step has no room for one request's drafted tokens."""
    active: int | None = args.additional_flags.get("max_num_active_seqs")
    if speculative is None:
        return active
    tokens, lookahead = sizes.max_num_batched_tokens, speculative.num_lookahead_tokens
    if tokens <= lookahead:
        raise Refused(
            f"--max-num-batched-tokens {tokens} leaves no room beside the {lookahead} tokens that the drafter looks "
            "ahead; raise it or draft fewer."
        )
    needed = sizes.max_num_seqs * (speculative.num_speculative_tokens + 1)
    if args.additional_flags.get("enable_lora") and tokens < needed:
        raise Refused(
            f"--max-num-batched-tokens {tokens} is less than the {needed} that --max-num-seqs {sizes.max_num_seqs} "
            "drafting requests need with LoRA; raise it."
        )
    if speculative.method in ("dflash", "dspark"):
        active = min(active or sizes.max_num_seqs, tokens // lookahead)
        return active if active < sizes.max_num_seqs else args.additional_flags.get("max_num_active_seqs")
    return active


def _skip_layers(args: EngineArgs, model: ResolvedModel, is_hybrid: bool, cache_dtype: str) -> tuple[str, ...]:
    """`--kv-cache-dtype-skip-layers`; the packed formats also keep the first and last two layers unquantised."""
    given = tuple(args.kv_cache_dtype_skip_layers)
    if not (cache_dtype.startswith("turboquant_") or cache_dtype == "ultraquant_4bit"):
        return given
    if is_hybrid:
        if not _names_full_attention(model):
            raise Refused(
                f"--kv-cache-dtype {cache_dtype}: {model.root.where} does not say which layers have full attention."
            )
        return tuple(sorted(set(given)))
    layers = num_hidden_layers(model.root, model.text)
    n = min(2, layers // 2)
    return tuple(sorted({*given, *map(str, range(n)), *map(str, range(layers - n, layers))}))


def _names_full_attention(model: ResolvedModel) -> bool:
    types = model.text.get("layer_types")
    names = _FULL_LAYER_TYPES
    if types is None:
        types, names = model.text.get("layers_block_type"), ("attention", "hybrid")
    return isinstance(types, (list, tuple)) and any(t in names for t in types)
