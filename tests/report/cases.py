"""Known deployments as results: layers, groups and budgets as literals from vLLM 0.33.0's own planning."""

from __future__ import annotations

from build import attention, cached, deal, engine_config, group, limits_of, plan, result, speculative

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
