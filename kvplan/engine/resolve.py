"""From flags, configs and a GPU to resolved options: the order of vLLM's own steps.

Source: `create_engine_config` of vllm/engine/arg_utils.py and `VllmConfig.__post_init__` of vllm/config/vllm.py.
"""

from __future__ import annotations

from kvplan.engine import batching, cuda_graphs, hooks, hybrid_manager, kv_cache_dtype, parallel, scheduling
from kvplan.engine.args import EngineArgs, EngineConfig, ModelFacts, ResolvedModel, Speculative
from kvplan.engine.attention import backend_per_kind, given_backend
from kvplan.engine.dtype import config_dtype
from kvplan.engine.facts import is_deepseek_mla, num_hidden_layers
from kvplan.engine.kind import FULL_LAYER_TYPES, Kind, kind_of
from kvplan.engine.model import resolve_target, scheme_of
from kvplan.engine.quantization import check_quantization, quantization_config
from kvplan.engine.unplanned import check_flags
from kvplan.errors import Refused
from kvplan.gpus import Gpu

DEFAULT_BLOCK_SIZE = 16
_AS_GIVEN = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "decode_context_parallel_size",
    "prefill_context_parallel_size",
    "enable_expert_parallel",
    "mamba_cache_dtype",
)
"""Options that vLLM leaves as the flag says."""


def resolve(args: EngineArgs, target: ModelFacts, drafter: ModelFacts | None, gpu: Gpu) -> EngineConfig:
    """Every option as vLLM 0.33.0 resolves it, with the target's and the drafter's effective configs.

    ``drafter``: what was read of the model that `--speculative-config` names; None where it names none (ngram, a
    built-in MTP). Refused with one sentence where vLLM refuses, or where kvplan cannot judge a flag.
    """
    check_flags(args)
    parallel.check_sizes(args)
    if target.root.get("speculators_config") is not None:
        raise Refused(f"{target.root.where} is a drafter in the speculators format; plan the model that it drafts for.")
    model = resolve_target(args, target, gpu)
    kind = kind_of(args, model)
    speculative = _speculative(args, target, model, drafter)
    sizes = _batching(args, gpu, model, kind)
    options, speculative = _cache_options(args, target, model, kind, speculative, gpu)
    _check_model(args, model, kind, gpu)
    use_v2 = scheduling.resolve_model_runner(args, speculative)
    length, notes = _cut_to_drafter(model, speculative, use_v2)
    notes += _dtype_note(args, target, model)
    asynchronous = scheduling.resolve_async_scheduling(args, speculative, use_v2)
    scheduling.check_model_runner(args, speculative, use_v2, asynchronous)
    batches = scheduling.max_concurrent_batches(args.pipeline_parallel_size, asynchronous, use_v2)
    config = EngineConfig(
        args=args,
        gpu=gpu,
        dtype=model.dtype,
        quantization=model.quantization,
        cache_dtype=options.cache_dtype,
        kv_cache_dtype_skip_layers=_skip_layers(args, model, kind, options.cache_dtype),
        is_hybrid=kind.is_hybrid,
        use_mla=kind.use_mla,
        max_model_len=length,
        max_num_seqs=sizes.max_num_seqs,
        max_num_batched_tokens=sizes.max_num_batched_tokens,
        max_num_encoder_input_tokens=sizes.max_num_batched_tokens,
        async_scheduling=asynchronous,
        use_v2_model_runner=use_v2,
        max_concurrent_batches=batches,
        max_in_flight_tokens=batches * sizes.max_num_batched_tokens,
        enable_prefix_caching=kind.enable_prefix_caching,
        mamba_cache_mode="align" if kind.enable_prefix_caching and kind.has_states else "none",
        mamba_ssm_cache_dtype=options.mamba_ssm_cache_dtype,
        mamba_block_size=_mamba_block_size(args, model, kind, length),
        block_size=DEFAULT_BLOCK_SIZE if args.block_size is None else args.block_size,
        user_specified_block_size=args.block_size is not None,
        disable_hybrid_kv_cache_manager=hybrid_manager.resolve_hybrid_manager(args, model.text, speculative),
        attention_backend=options.attention_backend,
        backend_per_kind=backend_per_kind(args),
        use_non_causal=bool((args.attention_config or {}).get("use_non_causal")),
        use_kv_connector=hybrid_manager.connector(args) is not None,
        target=model._replace(max_model_len=length),
        speculative=speculative,
        enable_chunked_prefill=kind.enable_chunked_prefill,
        is_mm_prefix_lm=kind.is_mm_prefix_lm,
        flash_attn_version=options.flash_attn_version,
        max_num_active_seqs=_max_num_active_seqs(args, sizes, speculative),
        notes=notes,
        **{name: getattr(args, name) for name in _AS_GIVEN},
    )
    cuda_graphs.check(config)
    return config


def _speculative(
    args: EngineArgs, facts: ModelFacts, model: ResolvedModel, drafter: ModelFacts | None
) -> Speculative | None:
    flags = args.additional_flags
    if not args.speculative_config and not any(flags.get(f"spec_{k}") for k in ("method", "model", "tokens")):
        return None
    from kvplan.engine.speculative import resolve_speculative

    return resolve_speculative(args, facts, model, drafter)


def _batching(args: EngineArgs, gpu: Gpu, model: ResolvedModel, kind: Kind) -> batching.Batching:
    minimum = batching.min_multimodal_tokens(model.architecture, model.root, args) if kind.is_mm_prefix_lm else 0
    sizes = batching.resolve_batching(args, gpu, model.max_model_len, kind.chunked_by_flag, minimum)
    batching.check_batching(sizes, model.max_model_len, kind.enable_chunked_prefill, args)
    return sizes


def _cache_options(
    args: EngineArgs, facts: ModelFacts, model: ResolvedModel, kind: Kind, speculative: Speculative | None, gpu: Gpu
) -> tuple[hooks.Options, Speculative | None]:
    """The cache's dtypes and the attention backend after the checkpoint's and the architecture's own wishes."""
    scheme = scheme_of(facts, model.root)
    of_root = model.root.get("quantization_config") is not None or facts.hf_quant_config is not None
    cache_dtype = kv_cache_dtype.resolve_cache_dtype(args.kv_cache_dtype, scheme if of_root else None)
    options = hooks.apply(model.architecture, _options(args, cache_dtype, speculative), model.root, model.text, gpu)
    kv_cache_dtype.check_cache_dtype(options.cache_dtype, model.dtype, kind.use_mla)
    kv_cache_dtype.check_e5m2(options.cache_dtype, model.quantization, scheme, kind.use_mla)
    if speculative is not None:
        speculative = speculative._replace(kv_cache_dtype=options.draft_cache_dtype)
        if speculative.draft is not None and options.draft_cache_dtype is not None:
            _check_draft_dtype(options.draft_cache_dtype, speculative, speculative.draft, model, kind)
    compressed = kv_cache_dtype.compressed_tensors_scheme(model.root, scheme)
    if compressed is not None and options.cache_dtype == "auto" and not kind.use_mla:
        # vLLM decides this when it builds the first attention layer; every later layer then sees it.
        options = options._replace(cache_dtype="fp8")
    return options, speculative


def _check_draft_dtype(
    cache_dtype: str, speculative: Speculative, draft: ResolvedModel, target: ResolvedModel, kind: Kind
) -> None:
    """Refused where the drafter's own dtype does not fit: vLLM checks it against the target when it loads the drafter,
    and against the scales of a checkpoint that both are in, or of a plain draft model's."""
    flag = "--speculative-config kv_cache_dtype"
    kv_cache_dtype.check_cache_dtype(cache_dtype, target.dtype, kind.use_mla, flag)
    if speculative.method in ("mtp", "draft_model") and (scheme := quantization_config(draft.root)) is not None:
        method = draft.quantization or target.quantization
        kv_cache_dtype.check_e5m2(cache_dtype, method, scheme, is_deepseek_mla(draft.text), flag)


def _options(args: EngineArgs, cache_dtype: str, speculative: Speculative | None) -> hooks.Options:
    version = (args.attention_config or {}).get("flash_attn_version")
    if version not in (None, 2, 3, 4):
        raise Refused(f"--attention-config flash_attn_version {version!r} must be 2, 3 or 4.")
    if _is_packed_format(cache_dtype):
        version = 2
    return hooks.Options(
        cache_dtype=cache_dtype,
        mamba_ssm_cache_dtype=args.mamba_ssm_cache_dtype,
        attention_backend=given_backend(args),
        flash_attn_version=version,
        method=None if speculative is None else speculative.method,
        draft_cache_dtype=None if speculative is None else speculative.kv_cache_dtype,
        pipeline_parallel_size=args.pipeline_parallel_size,
    )


def _is_packed_format(cache_dtype: str) -> bool:
    """TurboQuant and UltraQuant: they need FlashAttention 2 and keep the outer layers unquantised."""
    return cache_dtype.startswith("turboquant_") or cache_dtype == "ultraquant_4bit"


def _check_model(args: EngineArgs, model: ResolvedModel, kind: Kind, gpu: Gpu) -> None:
    parallel.check_model(
        model.root,
        model.text,
        model.flags,
        tensor_parallel_size=args.tensor_parallel_size,
        pipeline_parallel_size=args.pipeline_parallel_size,
        decode_context_parallel_size=args.decode_context_parallel_size,
        enable_expert_parallel=args.enable_expert_parallel,
        use_mla=kind.use_mla,
    )
    check_quantization(model.quantization, model.dtype, gpu)
    if args.additional_flags.get("enable_lora") and "x" in model.flags:
        raise Refused(f"--enable-lora: vLLM has no LoRA for architecture {model.architecture}; leave it out.")


def _cut_to_drafter(model: ResolvedModel, speculative: Speculative | None, use_v2: bool) -> tuple[int, tuple[str, ...]]:
    """The target's length after the drafter's: the V2 runner cannot stop drafting beyond it."""
    drafter = None if speculative is None else speculative.draft
    if speculative is None or drafter is None or not use_v2:
        return model.max_model_len, ()
    from kvplan.engine.draft import shares_target_positions

    if shares_target_positions(speculative.method, drafter.root) or drafter.max_model_len >= model.max_model_len:
        return model.max_model_len, ()
    note = f"max_model_len is cut from {model.max_model_len} to the drafter's {drafter.max_model_len}"
    return drafter.max_model_len, (note,)


def _dtype_note(args: EngineArgs, facts: ModelFacts, model: ResolvedModel) -> tuple[str, ...]:
    unknown = args.dtype == "auto" and config_dtype(model.root, model.text) is None and not facts.weight_dtypes
    note = f"no dtype in {model.root.where}: {model.dtype}, unless the tensors of the checkpoint are float16"
    return (note,) if unknown and model.dtype == "bfloat16" else ()


def _mamba_block_size(args: EngineArgs, model: ResolvedModel, kind: Kind, length: int) -> int | None:
    """Tokens between two cached states before the layers exist: the model's length without prefix caching."""
    size, prefix = args.mamba_block_size, kind.enable_prefix_caching
    if kind.has_states:
        if prefix and not kind.enable_chunked_prefill:
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


def _max_num_active_seqs(args: EngineArgs, sizes: batching.Batching, speculative: Speculative | None) -> int | None:
    """The limit on running requests. Refused where a step has no room for one request's drafted tokens."""
    given: int | None = args.additional_flags.get("max_num_active_seqs")
    if speculative is None:
        return given
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
    if speculative.method not in ("dflash", "dspark"):
        return given
    fits = tokens // lookahead
    return fits if fits < (given or sizes.max_num_seqs) else given


def _skip_layers(args: EngineArgs, model: ResolvedModel, kind: Kind, cache_dtype: str) -> tuple[str, ...]:
    """`--kv-cache-dtype-skip-layers`; the packed formats also keep the first and last two layers unquantised."""
    given = tuple(args.kv_cache_dtype_skip_layers)
    if not _is_packed_format(cache_dtype):
        return given
    if kind.is_hybrid:
        if not _names_full_attention(model):
            raise Refused(
                f"--kv-cache-dtype {cache_dtype}: {model.root.where} does not say which layers have full attention."
            )
        return tuple(sorted(set(given)))
    layers = num_hidden_layers(model.root, model.text)
    n = min(2, layers // 2)
    return tuple(sorted({*given, *map(str, range(n)), *map(str, range(layers - n, layers))}))


def _names_full_attention(model: ResolvedModel) -> bool:
    types, names = model.text.get("layer_types"), FULL_LAYER_TYPES
    if types is None:
        types, names = model.text.get("layers_block_type"), ("attention", "hybrid")
    return isinstance(types, (list, tuple)) and any(t in names for t in types)
