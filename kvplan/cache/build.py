"""From the declared layers of target and drafter to cache layers: backends, stages, block sizes, specs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import lcm
from typing import NamedTuple

from kvplan import layout
from kvplan.backends import mla_limits
from kvplan.backends.base import Backend, BackendEnv, Query, Rejection, is_quantized, kv_quant_mode
from kvplan.backends.registry import backend, wrapped
from kvplan.backends.selector import Selection, check_batch_invariance, customize_attention_spec, select
from kvplan.blocks import BlockSizes
from kvplan.cache import block_size, specs, stages
from kvplan.cache.block_size import Alignment, MixedDtypes
from kvplan.dtypes import cache_element
from kvplan.engine.args import EngineConfig
from kvplan.errors import Refused
from kvplan.layers import AttentionLayer, CustomLayer, Layer, MLALayer, StateLayer
from kvplan.model import TARGET, Model
from kvplan.spec import FULL_ATTENTION, MLA, AttentionSpec, CacheLayer, MultipleOf, Spec


class Side(NamedTuple):
    """One model with its declared layers and the environment in which they select a backend."""

    model: Model
    layers: Sequence[Layer]
    env: BackendEnv


class Placed(NamedTuple):
    """A declared layer with its backend and its pipeline stage."""

    model: Model
    layer: Layer
    backend: Backend
    stage: int
    passed_over: tuple[tuple[str, tuple[Rejection, ...]], ...] = ()
    """Better-ranked backends, and what each cannot do."""


class Stage(NamedTuple):
    """What one pipeline stage resolved: its worker's layers in the engine's order."""

    placed: tuple[Placed, ...]
    """Also the layers that have no cache of their own."""
    layers: tuple[CacheLayer, ...]
    sizes: BlockSizes
    layouts: tuple[str, ...]
    """KV cache layouts that all its backends support, most preferred first."""


def query(model: Model, layer: AttentionLayer | MLALayer, cache_dtype: str) -> Query:
    """The layer's question to the backend selector (vllm/v1/attention/selector.py, get_attn_backend)."""
    engine = model.engine
    base = Query(
        head_size=layer.head_size,
        dtype=model.dtype,
        kv_cache_dtype=cache_dtype,
        block_size=engine.block_size if engine.user_specified_block_size or model.owns_cache_dtype else None,
        use_non_causal=model.use_non_causal,
        use_batch_invariant=engine.args.env.get("VLLM_BATCH_INVARIANT") == "1",
        use_kv_connector=engine.use_kv_connector,
        use_pcp=engine.prefill_context_parallel_size > 1,
        use_dcp=engine.decode_context_parallel_size > 1 and not model.selects_without_dcp,
    )
    if isinstance(layer, MLALayer):
        return base._replace(
            use_mla=True,
            use_sparse=layer.use_sparse,
            num_heads=layer.num_heads,
            has_sliding_window=layer.sliding_window is not None,
        )
    if layer.attn_type == "encoder_decoder":
        return base._replace(attn_type=layer.attn_type)
    if layer.attention_chunk_size is not None:
        return base
    return base._replace(
        has_sink=layer.has_sink,
        use_mm_prefix=model.is_mm_prefix_lm,
        use_per_head_quant_scales=model.use_per_head_quant_scales,
        attn_type=layer.attn_type,
        has_sliding_window=layer.sliding_window is not None,
    )


def layer_cache_dtype(model: Model, layer: AttentionLayer | MLALayer) -> str:
    """The layer's KV cache dtype: the model's, or ``auto`` where --kv-cache-dtype-skip-layers names the layer."""
    skipped = model.engine.kv_cache_dtype_skip_layers
    if layer.cache_dtype is not None:
        return layer.cache_dtype
    if not skipped:
        return model.cache_dtype
    if layer.layer_index is None and sum(part.isdecimal() for part in layer.name.split(".")) > 1:
        raise Refused(
            f"--kv-cache-dtype-skip-layers: vLLM finds a layer by the one number in its name, and {layer.name} of "
            f"{model.architecture} has several; leave the flag out."
        )
    index = layer.layer_index if layer.layer_index is not None else stages.layer_index(layer.name)
    slides = isinstance(layer, AttentionLayer) and layer.sliding_window is not None
    if str(index) in skipped or (slides and "sliding_window" in skipped):
        return "auto"
    return model.cache_dtype


def kv_dtype(model: Model, cache_dtype: str) -> specs.KVDtype:
    """A KV cache dtype with its element type and quantisation mode."""
    return specs.KVDtype(cache_dtype, cache_element(cache_dtype, model.dtype), kv_quant_mode(cache_dtype))


def latent_format(chosen: Backend, cache_dtype: str) -> str:
    """The KV cache dtype of an MLA layer on its backend."""
    if not chosen.sparse:
        return cache_dtype
    from kvplan.backends.mla_sparse import canonical_cache_dtype

    return canonical_cache_dtype(chosen.name, cache_dtype)


def run_cache_dtype(placed: Iterable[Placed], cache_dtype: str) -> str:
    """`cache_config.cache_dtype` once the target's layers exist: a sparse MLA layer leaves its own format there."""
    for item in placed:
        if isinstance(item.layer, CustomLayer):
            cache_dtype = item.layer.run_cache_dtype or cache_dtype
        elif isinstance(item.layer, MLALayer) and item.layer.backend is None:
            cache_dtype = latent_format(item.backend, cache_dtype)
    return cache_dtype


def choose_backend(side: Side, layer: Layer) -> Selection:
    """The backend of one declared layer: what its class names itself, or what the selector picks."""
    model, _, env = side
    if isinstance(layer, (StateLayer, CustomLayer)):
        return Selection(backend(layer.backend))
    if layer.backend == DIFFKV and isinstance(layer, AttentionLayer):
        return Selection(_diffkv(model, layer, env))
    if layer.backend is not None:
        return Selection(backend(layer.backend))
    cache_dtype = layer_cache_dtype(model, layer)
    speculative = model.engine.speculative
    own = model.owner != TARGET and speculative is not None and speculative.attention_backend is not None
    flag = "--speculative-config.attention_backend" if own else "--attention-backend"
    asked = query(model, layer, cache_dtype)
    chosen = select(asked, env, model.attention_backend, model.engine.backend_per_kind, flag)
    if isinstance(layer, AttentionLayer):
        check_kernel(model, layer, chosen.backend.name, env, cache_dtype)
    else:
        return _latent_backend(model, layer, env, asked, chosen)
    wrapper = None
    if layer.attention_chunk_size is not None:
        wrapper = f"chunked_local_{layer.attention_chunk_size}"
    elif layer.attn_type in ("encoder_decoder", "encoder_only"):
        wrapper = {"encoder_decoder": "cross_attention", "encoder_only": "encoder_only"}[layer.attn_type]
    return chosen if wrapper is None else chosen._replace(backend=wrapped(chosen.backend, wrapper))


def _latent_backend(model: Model, layer: MLALayer, env: BackendEnv, asked: Query, chosen: Selection) -> Selection:
    """The backend of an MLA layer: one with sinks where the class wants them. Refused where its kernels do not run."""
    if layer.sink_backend is not None and not chosen.backend.supports_sink(env):
        with_sinks = backend(layer.sink_backend)
        if not with_sinks.rejections(asked._replace(has_sink=True), env):
            chosen = Selection(with_sinks)
    name = latent_format(chosen.backend, layer_cache_dtype(model, layer))
    mla_limits.check_kernel(chosen.backend.name, env, name)
    prefill = (model.engine.args.attention_config or {}).get("mla_prefill_backend")
    mla_limits.check_prefill(
        env, model.dtype, None if prefill is None else str(prefill).upper(), sparse=layer.use_sparse
    )
    return chosen


def check_kernel(model: Model, layer: AttentionLayer, name: str, env: BackendEnv, cache_dtype: str) -> None:
    """Refused where the backend's kernel lacks what the layer needs (`__init__` of the backend's impl class)."""
    why = None
    if name == "FLASH_ATTN" and layer.alibi and is_quantized(cache_dtype):
        why = f"ALiBi over a {cache_dtype} cache (--kv-cache-dtype)"
    elif name == "FLEX_ATTENTION":
        needs = (
            (layer.alibi, "ALiBi"),
            (env.has_logits_soft_cap, "attn_logit_softcapping"),
            (layer.kv_sharing_target is not None, "layers that share another layer's cache"),
        )
        why = next((what for needed, what in needs if needed), None)
    elif name.startswith("FLASH_ATTN") and is_quantized(cache_dtype) and not _reads_quantized(layer, env, cache_dtype):
        why = f"--kv-cache-dtype {cache_dtype} for heads of {layer.head_size} on {env.gpu.name}"
    elif name.startswith("TRITON_ATTN") and cache_dtype.startswith("fp8") and env.gpu.capability < (8, 9):
        why = f"an fp8 cache (--kv-cache-dtype {cache_dtype}; bfloat16 is supported) on {env.gpu.name}"
    elif name == "TRITON_ATTN_DIFFKV" and is_quantized(cache_dtype) and cache_dtype not in ("fp8", "fp8_e4m3"):
        why = f"--kv-cache-dtype {cache_dtype}"
    if why is not None:
        raise Refused(
            f"{name} does not support {why}, which {model.architecture} needs; leave the flag out or choose another "
            "--attention-backend."
        )


def _reads_quantized(layer: AttentionLayer, env: BackendEnv, cache_dtype: str) -> bool:
    """The constructor asks for fp8 alone and looks at no other format; the selector, where it ran, did so before."""
    from kvplan.backends.fa_version import takes_fp8_cache

    return takes_fp8_cache(env, cache_dtype, head_size=layer.head_size, has_sinks=layer.has_sink, supports_hd256=True)


DIFFKV = "DIFFKV"
"""A layer whose values have another head size: its class takes FlashAttention's variant or Triton's."""


def _diffkv(model: Model, layer: AttentionLayer, env: BackendEnv) -> Backend:
    """The variant that the layer's class takes; refused where its constructor refuses the KV cache dtype."""
    name = model.attention_backend
    if name is None or not name.endswith("_DIFFKV"):
        from kvplan.backends.flash_attn import runs_diffkv

        size_v = layer.head_size_v or layer.head_size
        runs = runs_diffkv(env, layer.head_size, size_v, layer.has_sink)
        name = "FLASH_ATTN_DIFFKV" if runs else "TRITON_ATTN_DIFFKV"
    check_kernel(model, layer, name, env, layer_cache_dtype(model, layer))
    return backend(name)


def _decoder_layer(layer: Layer) -> int | None:
    """The decoder layer that a layer belongs to, which decides its pipeline stage."""
    if isinstance(layer, StateLayer) and layer.stage_index is not None:
        return layer.stage_index
    return stages.layer_index(layer.name)


def _shape(model: Model, layer: Layer) -> Layer:
    """The layer without what tells it from others of its kind; with its name where KV dtypes differ by layer."""
    if model.engine.kv_cache_dtype_skip_layers:
        return layer
    if isinstance(layer, StateLayer):
        return layer._replace(name="", stage_index=None)
    return layer._replace(name="")


def place(side: Side, counts: Sequence[int]) -> list[Placed]:
    """Every declared layer with its backend and stage; a drafter runs on the last stage.

    ``counts``: decoder layers per pipeline stage. Layers that look alike share one selection.
    """
    last = len(counts) - 1
    known: dict[Layer, Selection] = {}
    out = []
    for layer in side.layers:
        index = None if last == 0 or side.model.owner != TARGET else _decoder_layer(layer)
        stage = last if index is None else stages.stage_of(index, counts)
        key = _shape(side.model, layer)
        chosen = known.get(key)
        if chosen is None:
            chosen = known[key] = choose_backend(side, layer)
        out.append(Placed(side.model, layer, chosen.backend, stage, chosen.passed_over))
    return out


def check_sharing(placed: Sequence[Placed]) -> None:
    """Refused where a layer reads the cache of a layer on another pipeline stage (`validate_kv_sharing_target`)."""
    stage_of = {item.layer.name: item.stage for item in placed}
    for item in placed:
        target = item.layer.kv_sharing_target if isinstance(item.layer, (AttentionLayer, CustomLayer)) else None
        if target is not None and stage_of.get(target) != item.stage:
            raise Refused(
                f"{item.layer.name} reads the cache of {target}, which lies on another pipeline stage; "
                "choose another --pipeline-parallel-size."
            )


def make_spec(placed: Placed, env: BackendEnv, sizes: BlockSizes, grid: int | None) -> Spec | None:
    """The spec of one placed layer, adjusted by its backend; None where it caches nothing."""
    model, layer = placed.model, placed.layer
    if isinstance(layer, StateLayer):
        if sizes.mamba_block_size is None:
            raise Refused(
                f"{model.root.where} does not count as a hybrid model (its layer_types name attention only), so vLLM "
                f"gives the state layer {layer.name} no block and does not start; correct layer_types."
            )
        return specs.state_spec(
            layer,
            sizes,
            mamba_cache_mode=model.engine.mamba_cache_mode,
            num_speculative_tokens=model.engine.num_speculative_tokens,
            checkpoint_grid=grid,
        )
    if isinstance(layer, CustomLayer):
        spec = layer.make_spec(sizes)
    else:
        name = layer_cache_dtype(model, layer)
        if isinstance(layer, MLALayer):
            name = latent_format(placed.backend, name)
        dtype = kv_dtype(model, name)
        if isinstance(layer, MLALayer):
            spec = specs.mla_spec(layer, dtype, sizes)
        else:
            spec = specs.attention_spec(layer, placed.backend, env, dtype, sizes)
    if not isinstance(spec, AttentionSpec):
        return spec
    spec = customize_attention_spec(placed.backend, env, spec)
    return spec._replace(dcp_sharded=False) if model.replicates_context else spec


def checkpoint_alignment(placed: Iterable[Placed]) -> int | None:
    """Common alignment of prefill checkpoints, in tokens; None unless every state layer exports them.

    (vllm/model_executor/layers/mamba/abstract.py, get_mamba_prefill_checkpoint_alignment.)
    """
    declared = [p.layer.shared_checkpoint_alignment for p in placed if isinstance(p.layer, StateLayer)]
    return None if None in declared else lcm(*(d or 1 for d in declared))


def cache_layers(placed: Sequence[Placed], env: BackendEnv, sizes: BlockSizes) -> tuple[CacheLayer, ...]:
    """The layers of one stage that have a cache of their own. Layers that look alike share one spec."""
    alignment = checkpoint_alignment(placed)
    unit = placed[0].model.engine.args.additional_flags.get("prefix_match_unit") if placed else None
    grid = sizes.mamba_block_size
    if alignment is not None and unit is not None:
        grid = lcm(unit, alignment)
    known: dict[tuple[str, Layer, str], tuple[Spec | None, tuple[int | MultipleOf, ...]]] = {}
    out = []
    for item in placed:
        key = (item.model.owner, _shape(item.model, item.layer), item.backend.key)
        found = known.get(key)
        if found is None:
            spec = make_spec(item, env, sizes, None if alignment is None else grid)
            found = known[key] = (spec, () if spec is None else item.backend.kernel_block_sizes(env, spec))
        spec, kernel = found
        if spec is not None:
            why, passed = item.layer.why, tuple((name, tuple(r.why for r in no)) for name, no in item.passed_over)
            name, owner = item.layer.name, item.model.owner
            out.append(CacheLayer(name, owner, spec, item.backend.name, kernel, why, item.stage, passed))
    return tuple(out)


def bytes_per_token(
    env: BackendEnv, engine: EngineConfig, packing: Backend | None, cache_dtype: str, *, latent: bool = False
) -> int:
    """Bytes of one token in one layer, from the model's own head counts, as the platform's alignment reckons it.

    ``packing``: the backend that packs the token; None: nothing does. ``latent``: a value-less latent, which mixed KV
    dtypes do not reckon with even for MLA.
    """
    spec = AttentionSpec(
        kind=MLA if latent else FULL_ATTENTION,
        block_size=1,
        num_kv_heads=env.num_kv_heads,
        head_size=env.head_size,
        head_size_v=0 if latent else env.head_size,
        dtype=cache_element(cache_dtype, engine.dtype),
        kv_quant_mode=kv_quant_mode(cache_dtype),
    )
    return spec.page_size_bytes if packing is None else packing.customize(env, spec).page_size_bytes


def hybrid_bytes_per_token(env: BackendEnv, engine: EngineConfig, first: Backend) -> int:
    """Bytes of one token in one attention layer of a hybrid; with packed and skipped layers, of both in common."""
    if engine.use_mla:
        return bytes_per_token(env, engine, None, env.cache_dtype, latent=True)
    if not env.cache_dtype.startswith("turboquant_"):
        return bytes_per_token(env, engine, first, env.cache_dtype)
    packed = bytes_per_token(env, engine, backend("TURBOQUANT"), env.cache_dtype)
    if not engine.kv_cache_dtype_skip_layers:
        return packed
    return lcm(packed, bytes_per_token(env, engine, None, "auto"))


def resolve_sizes(placed: Sequence[Placed], env: BackendEnv, engine: EngineConfig, largest_state: int) -> BlockSizes:
    """The block sizes of one stage. ``largest_state``: bytes of the target's largest state, on whatever stage."""
    start = BlockSizes(engine.block_size, engine.mamba_block_size)
    attention = list(dict.fromkeys(p.backend for p in placed if not p.backend.ssm))
    if not attention:
        return start
    hybrid = mixed = None
    if engine.is_hybrid:
        hybrid = Alignment(
            hybrid_bytes_per_token(env, engine, attention[0]),
            largest_state,
            engine.use_mla,
            engine.mamba_cache_mode == "align",
            checkpoint_alignment(placed) or 1,
        )
    if engine.kv_cache_dtype_skip_layers:
        mixed = MixedDtypes(
            bytes_per_token(env, engine, attention[0], env.cache_dtype),
            bytes_per_token(env, engine, attention[0], "auto"),
        )
    return block_size.resolve(
        start, attention, env, user_specified=engine.user_specified_block_size, hybrid=hybrid, mixed=mixed
    )


def _inheriting(side: Side, run_dtype: str) -> Side:
    """A drafter's side with the run's KV cache dtype, unless it has one of its own."""
    if side.model.owns_cache_dtype:
        return side
    return Side(side.model._replace(cache_dtype=run_dtype), side.layers, side.env._replace(cache_dtype=run_dtype))


def build(sides: Sequence[Side], engine: EngineConfig, counts: Sequence[int]) -> tuple[Stage, ...]:
    """The pipeline stages of a deployment: target first, then the drafter.

    ``counts``: decoder layers per stage. Refused where vLLM refuses a backend, a block size or a layout.
    """
    placed = place(sides[0], counts)
    check_sharing(placed)
    run_dtype = run_cache_dtype(placed, engine.cache_dtype)
    for side in sides[1:]:
        placed += place(_inheriting(side, run_dtype), counts)
    env = sides[0].env._replace(cache_dtype=run_dtype)
    if wide := [p.layer for p in placed if p.layer.backend == DIFFKV and isinstance(p.layer, AttentionLayer)]:
        env = env._replace(diffkv_head_size_v=wide[-1].head_size_v or wide[-1].head_size)
    check_batch_invariance(dict.fromkeys(item.backend for item in placed), env)
    states = [layer for layer in sides[0].layers if isinstance(layer, StateLayer)]
    largest_state = max((specs.state_bytes(layer) for layer in states), default=0)
    out = []
    for stage in range(len(counts)):
        own = tuple(item for item in placed if item.stage == stage)
        sizes = resolve_sizes(own, env, engine, largest_state)
        declared = layout.candidates(b.layouts(env) for b in dict.fromkeys(item.backend for item in own))
        out.append(Stage(own, cache_layers(own, env, sizes), sizes, declared))
    return tuple(out)
