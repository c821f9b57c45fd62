"""Known deployments as results: layers, groups and budgets as literals from vLLM 0.33.0's own planning."""

from __future__ import annotations

from report_build import attention, cached, deal, engine_config, group, limits_of, plan, result, speculative

from kvplan.engine.args import EngineArgs
from kvplan.gpus import Gpu
from kvplan.result import DrafterInfo, Layout, Reason, Result
from kvplan.spec import CacheLayer, MultipleOf, StateSpec

GIB = 2**30
QWEN = "Qwen/Qwen3.6-35B-A3B-FP8"
DFLASH = "z-lab/Qwen3.6-35B-A3B-DFlash"
FULL = [i for i in range(40) if i % 4 == 3]
STATES = [i for i in range(40) if i % 4 != 3]


def _qwen_config(**changed):
    args = EngineArgs(
        model=QWEN, block_size=128, mamba_cache_dtype="bfloat16", mamba_ssm_cache_dtype="bfloat16", max_num_seqs=32
    )
    return engine_config(
        args=args,
        quantization="fp8",
        is_hybrid=True,
        max_model_len=262144,
        max_num_seqs=32,
        block_size=640,
        mamba_block_size=262144,
        mamba_cache_dtype="bfloat16",
        mamba_ssm_cache_dtype="bfloat16",
        attention_backend="TRITON_ATTN",
        **changed,
    )


def _state(drafted: int) -> StateSpec:
    return StateSpec(
        shapes=((3 + drafted, 8192), (32, 128, 128)),
        dtypes=("bfloat16", "bfloat16"),
        block_size=262144,
        page_size_padded=1310720,
        mamba_type="gdn_attention",
        num_speculative_blocks=drafted,
    )


def _target(drafted: int) -> list[CacheLayer]:
    state = cached(
        "language_model.model.layers.{}.linear_attn",
        STATES,
        _state(drafted),
        "GDN_ATTN",
        kernel=(MultipleOf(1),),
        why=("layer_types: linear_attention", "model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py"),
    )
    full = cached(
        "language_model.model.layers.{}.self_attn.attn",
        FULL,
        attention("full_attention", 640, 2, 256),
        why=("layer_types: full_attention", "model_executor/models/qwen3_next.py, Qwen3NextAttention"),
    )
    return sorted(state + full, key=lambda layer: int(layer.name.split(".")[3]))


def _split(layers: list[CacheLayer]) -> dict[str, list[CacheLayer]]:
    return {
        "M": [x for x in layers if x.spec.kind == "mamba"],
        "F": [x for x in layers if x.spec.kind == "full_attention" and x.owner == "target"],
        "s": [x for x in layers if x.spec.kind == "sliding_window"],
        "f": [x for x in layers if x.spec.kind == "full_attention" and x.owner == "drafter"],
    }


def qwen(budget: int | None = 200 * GIB) -> Result:
    """The hybrid target alone: 4 groups of 10 equal pages under every grouping."""
    config, layers = _qwen_config(), _target(0)
    limits, owners = limits_of(config), dict.fromkeys((x.name for x in layers), "target")
    sets = _split(layers)
    groups = [group(g, limits) for g in [*deal(sets["M"], 10), sets["F"]]]
    one = plan(groups, limits, owners, budget, group_size=10)
    plans = {"main": one, "uniform": one, "packed": one._replace(layout="BLNHC")}
    return result(config, layers, plans, model=QWEN, architecture="Qwen3_5MoeForConditionalGeneration", budget=budget)


def qwen_mtp(budget: int | None = 200 * GIB) -> Result:
    """The built-in MTP module, 1 token: one more full attention layer of the target's own shape."""
    config, layers = _qwen_config(speculative=speculative("mtp", 1)), _target(1)
    layers += cached("mtp.layers.{}.self_attn.attn", [0], attention("full_attention", 640, 2, 256), owner="drafter")
    limits, owners = limits_of(config), {x.name: x.owner for x in layers}
    sets = _split(layers)
    groups = [group(g, limits) for g in [*deal(sets["M"], 11), sets["F"] + sets["f"]]]
    one = plan(groups, limits, owners, budget, group_size=11)
    plans = {"main": one, "uniform": one, "packed": one._replace(layout="BLNHC")}
    drafter = DrafterInfo(QWEN, "bundled", "Qwen3_5MoeMTP", "mtp", 1)
    return result(
        config,
        layers,
        plans,
        model=QWEN,
        architecture="Qwen3_5MoeForConditionalGeneration",
        drafter=drafter,
        budget=budget,
    )


def qwen_dflash(budget: int | None = 200 * GIB, engine: str = "vllm-0.33.0") -> Result:
    """The DFlash drafter, 7 tokens, Triton for both: 46, 17 and 5 groups."""
    config, layers = _qwen_config(speculative=speculative("dflash", 7, DFLASH)), _target(7)
    layers += cached(
        "model.layers.{}.self_attn.attn",
        range(40, 45),
        attention("sliding_window", 640, 8, 128, sliding_window=4096),
        owner="drafter",
    )
    layers += cached("model.layers.{}.self_attn.attn", [45], attention("full_attention", 640, 8, 128), owner="drafter")
    limits, owners = limits_of(config), {x.name: x.owner for x in layers}
    sets, page = _split(layers), 2621440

    def uniform(size: int):
        groups = [group(g, limits, page) for key in "MFsf" for g in deal(sets[key], size)]
        return plan(groups, limits, owners, budget, group_size=size)

    packed = [*deal(sets["M"], 10), sets["F"] + sets["f"], sets["s"]]
    plans = {
        "main": uniform(1),
        "uniform": uniform(3),
        "packed": plan([group(g, limits) for g in packed], limits, owners, budget, layout="BLNHC"),
    }
    reasons = (
        Reason("mixed page sizes", True, "pages of 1,310,720 bytes (M) to 2,621,440 bytes (s)"),
        Reason("blocks run whole", True, "TRITON_ATTN runs blocks of 640 tokens unsplit"),
        Reason(
            "packing costs less", True, "without packing, the full attention groups are padded (5 groups against 17)"
        ),
    )
    next_engine = engine == "vllm-next"
    candidates = (
        ("BLNHC", "BLHNC", "BHLNC", "LBNHC", "LBHNC", "LHBNC")
        if next_engine
        else ("LBNHC", "LBHNC", "BLNHC", "BLHNC", "BHLNC", "LHBNC")
    )
    return result(
        config,
        layers,
        plans,
        model=QWEN,
        architecture="Qwen3_5MoeForConditionalGeneration",
        drafter=DrafterInfo(DFLASH, "bundled", "DFlashDraftModel", "dflash", 7),
        budget=budget,
        engine=engine,
        selected="packed" if next_engine else "main",
        layout=Layout(candidates[0], candidates, reasons),
    )


def dense(budget: int | None = 100 * GIB, error: str | None = None, longest: int | None = None) -> Result:
    """Qwen3-8B on one H200: one group of 36 equal layers. A result that nothing but a budget can spoil."""
    config = engine_config(
        args=EngineArgs(model="Qwen/Qwen3-8B"),
        gpu=Gpu("H200", (9, 0), 150_754_820_096, "NVIDIA H200"),
        max_model_len=40960,
        max_num_batched_tokens=8192,
        max_in_flight_tokens=16384,
        enable_prefix_caching=True,
    )
    layers = cached(
        "model.layers.{}.self_attn.attn",
        range(36),
        attention("full_attention", 16, 8, 128),
        "FLASH_ATTN",
        why=("num_hidden_layers", "model_executor/models/qwen3.py, Qwen3Attention"),
    )
    limits, owners = limits_of(config), dict.fromkeys((x.name for x in layers), "target")
    one = plan([group(layers, limits)], limits, owners, budget, error=error, longest=longest)
    if error:
        one = one._replace(num_blocks=None, kv_cache_size_tokens=None, max_concurrency=None)
    plans = {"main": one, "uniform": one, "packed": one._replace(layout="BLNHC")}
    return result(
        config,
        layers,
        plans,
        model="Qwen/Qwen3-8B",
        architecture="Qwen3ForCausalLM",
        budget=budget,
        assumed=("GPU H200, as none was given",),
    )


def refused() -> Result:
    """The same with 2 GiB, too little for one request of 40,960 tokens."""
    error = (
        "vLLM does not start: one request of max_model_len 40960 needs 5.62 GiB of KV cache and 2.0 GiB are "
        "available, which hold at most 14544 tokens; lower --max-model-len."
    )
    return dense(2 * GIB, error, 14544)


def gemma(budget: int = 100 * GIB) -> Result:
    """Gemma 3 27B on one B200: 52 window and 10 full attention layers of one page size."""
    config = engine_config(
        args=EngineArgs(model="google/gemma-3-27b-it"),
        gpu=Gpu("B200", (10, 0), 192 * 10**9, "NVIDIA B200"),
        max_model_len=131072,
        enable_prefix_caching=True,
    )
    kernel = (16, 32, 64, 128, 256, 512, 1024)
    name = "language_model.model.layers.{}.self_attn.attn"
    full = [i for i in range(62) if i % 6 == 5]
    window = attention("sliding_window", 16, 16, 128, sliding_window=1024)
    layers = cached(name, [i for i in range(62) if i % 6 != 5], window, "FLASHINFER", kernel=kernel)
    layers += cached(name, full, attention("full_attention", 16, 16, 128), "FLASHINFER", kernel=kernel)
    limits, owners = limits_of(config), dict.fromkeys((x.name for x in layers), "target")

    def uniform(size: int):
        groups = [group(g, limits) for part in (layers[:52], layers[52:]) for g in deal(part, size)]
        return plan(groups, limits, owners, budget, layout="LBHNC", group_size=size)

    plans = {"main": uniform(10), "uniform": uniform(11), "packed": uniform(10)._replace(layout="BLHNC")}
    return result(
        config,
        layers,
        plans,
        model="google/gemma-3-27b-it",
        architecture="Gemma3ForConditionalGeneration",
        candidates=("LBHNC", "BLHNC"),
        budget=budget,
    )


def sparse_mla(budget: int = 1000 * GIB) -> Result:
    """DeepSeek-V3.2 with an fp8 cache on one H200: 61 latents and 61 indexers in one group of two page sizes."""
    config = engine_config(
        args=EngineArgs(model="deepseek-ai/DeepSeek-V3.2", kv_cache_dtype="fp8"),
        gpu=Gpu("H200", (9, 0), 150_754_820_096, "NVIDIA H200"),
        cache_dtype="fp8",
        use_mla=True,
        max_model_len=163840,
        max_num_batched_tokens=8192,
        max_in_flight_tokens=16384,
        enable_prefix_caching=True,
        block_size=64,
    )
    index = attention("mla", 64, 1, 132, dtype="uint8", cache_role="indexer")
    latent = attention("mla", 64, 1, 576, dtype="uint8", state_content_bytes=656)
    indexers = cached(
        "model.layers.{}.self_attn.indexer.k_cache", range(61), index, "DEEPSEEK_V32_INDEXER", kernel=(64,)
    )
    latents = cached("model.layers.{}.self_attn.attn", range(61), latent, "FLASHMLA_SPARSE", kernel=(MultipleOf(64),))
    layers = [layer for pair in zip(indexers, latents, strict=True) for layer in pair]
    limits, owners = limits_of(config), dict.fromkeys((x.name for x in layers), "target")
    one = plan([group(layers, limits)], limits, owners, budget)
    plans = {"main": one, "uniform": one, "packed": one._replace(layout="BLNHC")}
    return result(
        config,
        layers,
        plans,
        model="deepseek-ai/DeepSeek-V3.2",
        architecture="DeepseekV32ForCausalLM",
        candidates=("LBNHC", "BLNHC"),
        budget=budget,
    )
