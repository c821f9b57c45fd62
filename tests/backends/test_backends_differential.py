"""kvplan's backends, layouts and kernel blocks against those of an installed vLLM, on random questions."""

from __future__ import annotations

import os
import random
from collections import Counter
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
import vllm_adapter as vllm

from kvplan import connectors, kernel_blocks, layout
from kvplan.backends import BackendEnv, Query, backend, customize_attention_spec, preferred_block_size, select
from kvplan.backends.registry import SELECTABLE, keys
from kvplan.backends.selector import priorities
from kvplan.errors import Refused
from kvplan.gpus import Gpu
from kvplan.result import Group
from kvplan.spec import AttentionSpec, CacheLayer, MultipleOf, Spec, StateSpec

pytestmark = pytest.mark.filterwarnings("ignore")

CAPABILITIES = ((8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (11, 0), (12, 0), (12, 1))
CACHE_DTYPES = ("auto", "auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2", "nvfp4", "nvfp4_4over6")
CACHE_DTYPES += ("fp8_ds_mla", "nvfp4_ds_mla", "int8_per_token_head", "int4_per_token_head", "fp8_per_token_head")
CACHE_DTYPES += ("turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc")
MODES = ("none", "fp8_per_tensor", "nvfp4", "int4_per_token_head", "int8_per_token_head", "turboquant_k3v4_nc")

# Classes that vLLM's two registries do not name.
OTHER_CLASSES = {
    "HY_V4_FLASHMLA_SPARSE": "vllm.models.hy_v4.nvidia.flashmla_sparse.HYV4FlashMLASparseBackend",
    "DOTS3_NOTE_PADDED_MLA_SPARSE": "vllm.models.dots3_note.nvidia.attention.Dots3NotePaddedSparseBackend",
    "DOTS3_NOTE_TRITON_MLA": "vllm.models.dots3_note.nvidia.attention.Dots3NoteTritonMLABackend",
    "DEEPSEEK_V32_INDEXER": "vllm.v1.attention.backends.mla.indexer.DeepseekV32IndexerBackend",
    "GLM5_NEXT_INDEXER": "vllm.v1.attention.backends.mla.indexer.Glm5NextIndexerBackend",
    "KPOOL_TAIL": "vllm.v1.attention.backends.mla.indexer.KpoolTailBackend",
    "DEEPSEEK_V4_INDEXER": "vllm.v1.attention.backends.mla.indexer.DeepseekV4IndexerBackend",
    "DEEPSEEK_V41_INDEXER": "vllm.v1.attention.backends.mla.indexer.DeepseekV41IndexerBackend",
    "DEEPSEEK_V41_SPARSE_INDEXER": "vllm.v1.attention.backends.mla.sparse_indexer.DeepseekV41SparseIndexerBackend",
    "DEEPSEEK_SPARSE_SWA": "vllm.v1.attention.backends.mla.sparse_swa.DeepseekSparseSWABackend",
    "CompressorBackend": "vllm.models.deepseek_v4.compressor.CompressorBackend",
    "MINIMAX_M3_SPARSE_NVFP4": "vllm.models.minimax_m3.nvidia.sparse_attention_msa.MiniMaxM3SparseMSANvfp4Backend",
    "MINIMAX_M3_SPARSE_INDEXER": "vllm.models.minimax_m3.common.indexer.MiniMaxM3IndexerBackend",
    "STEP5_SPLIT_KV_FLASH_ATTN": "vllm.models.step5.nvidia.sparse_attention.Step5SplitKVFlashAttentionBackend",
    "STEP5_CSA_SUMMARY": "vllm.models.step5.nvidia.sparse_summary_cache.Step5SparseSummaryBackend",
    "STEP5_CSA_TAIL_RING": "vllm.models.step5.nvidia.csa_tail_ring.Step5CSATailRingBackend",
    "QWEN4_EXP_QSA_TRITON": "vllm.models.qwen4_exp.nvidia.qsa.Qwen4ExpQSAFlashAttentionBackend",
    "QWEN4_EXP_EXP_QSA_STATE": "vllm.models.qwen4_exp.common.qsa_cache.QSAStateBackend",
    "INKLING_SCONV_SWA": "vllm.models.inkling.nvidia.sconv_swa_attn.InklingSconvBackend",
    "CACHE_ONLY_ATTN": "vllm.model_executor.models.extract_hidden_states.CacheOnlyAttentionBackend",
    "KIMI_K3_KDA": "vllm.models.kimi_k3.nvidia.kda_metadata.KimiK3KDAAttentionBackend",
    "BAILING_LINEAR_ATTN": "vllm.v1.attention.backends.linear_attn.BailingLinearAttentionBackend",
    "PLE_SHORT_CONV_ATTN": "vllm.v1.attention.backends.short_conv_attn.PleShortConvAttentionBackend",
}
STATES = {"MAMBA1_ATTN": "MAMBA1", "MAMBA2_ATTN": "MAMBA2", "SHORT_CONV_ATTN": "SHORT_CONV", "LINEAR_ATTN": "LINEAR"}

FACTS = {
    "head_size not": "head_size",
    "dtype not": "dtype",
    "kv_cache_dtype not": "kv_cache_dtype",
    "block_size not": "block_size",
    "partial multimodal": "mm_prefix",
    "MLA not": "mla",
    "non-MLA not": "mla",
    "attention sinks": "sink",
    "sparse not": "sparse",
    "non-sparse not": "sparse",
    "per-head quant": "scales",
    "compute capability not": "capability",
    "attention type": "attn_type",
    "sliding window not": "sliding_window",
    "R-SWA not": "rswa",
    "non-causal attention": "non_causal",
    "non-causal MLA": "non_causal_dcp",
    "batch invariance": "batch_invariance",
    "KV connector not": "kv_connector",
    "PCP not": "pcp",
    "DCP not": "dcp",
    "device-cpu": "verify",
}


@pytest.fixture(scope="module")
def platform() -> Any:
    return vllm.install()


@pytest.fixture(scope="module")
def classes(platform: Any) -> dict[str, Any]:
    """vLLM's class of each of kvplan's keys."""
    from vllm.v1.attention.backends import registry

    vllm.load(
        "vllm.models.qwen4_exp.nvidia.model.Qwen4ExpQSAAttention"
    )  # its modules import each other: this one first
    found = {}
    for key in keys():
        path = OTHER_CLASSES.get(key)
        if (path is None and key in STATES) or key == "GDN_ATTN":
            path = registry.MambaAttentionBackendEnum[STATES.get(key, key)].value
        found[key] = vllm.load(path or registry.AttentionBackendEnum[key].value)
    return found


def random_env(rng: random.Random) -> BackendEnv:
    gpu = Gpu("any", rng.choice(CAPABILITIES), 80 * 10**9, "GPU")
    kv_heads = rng.choice((1, 2, 4, 8))
    mla = rng.random() < 0.4
    rope = rng.choice((0, 32, 64, 64, 64))
    rank = rng.choice((256, 512, 512, 512))
    return BackendEnv(
        gpu=gpu,
        num_attention_heads=kv_heads * rng.choice((1, 1, 2, 4, 5, 8, 16)),
        num_kv_heads=kv_heads,
        head_size=rank + rope if mla else rng.choice((64, 80, 96, 128, 192, 256, 256, 512)),
        cache_dtype=rng.choice(CACHE_DTYPES),
        decode_context_parallel_size=rng.choice((1, 1, 1, 2)),
        prefill_context_parallel_size=rng.choice((1, 1, 1, 2)),
        flash_attn_version=rng.choice((None, None, None, 2, 3, 4)),
        use_trtllm_attention=rng.choice((None, None, True, False)),
        batch_invariant=rng.random() < 0.1,
        is_diffusion=rng.random() < 0.1,
        has_logits_soft_cap=rng.random() < 0.1,
        is_mm_prefix_lm=rng.random() < 0.15,
        has_rswa=rng.random() < 0.1,
        use_replayssm=rng.random() < 0.1,
        qk_nope_head_dim=rng.choice((64, 128, 128, 192, 256)) if mla else None,
        qk_rope_head_dim=rope if mla else None,
        v_head_dim=rng.choice((128, 192)) if mla else None,
        kv_lora_rank=rank if mla else None,
        index_topk=rng.choice((None, 64, 512, 2048, 2048)) if mla else None,
        index_kpool=4,
        diffkv_head_size_v=rng.choice((64, 128, 256)),
    )


def random_query(rng: random.Random, env: BackendEnv) -> Query:
    mla = env.kv_lora_rank is not None and rng.random() < 0.9
    rare = lambda share=0.1: rng.random() < share  # noqa: E731
    return Query(
        head_size=rng.choice((env.head_size, env.head_size, 512, 576, 72, 16)) if mla or rare(0.2) else env.head_size,
        dtype=rng.choice(("bfloat16", "bfloat16", "bfloat16", "float16", "float32")),
        kv_cache_dtype=rng.choice((env.cache_dtype, env.cache_dtype, "auto", None)),
        block_size=rng.choice((None, None, None, 8, 16, 32, 64, 96, 128, 256, 528)),
        use_mla=mla,
        has_sink=rare(),
        use_sparse=mla and env.index_topk is not None and rare(0.8),
        use_mm_prefix=env.is_mm_prefix_lm,
        use_per_head_quant_scales=rare(0.05),
        attn_type=rng.choice(("decoder",) * 8 + ("encoder_only", "encoder_decoder", "encoder")),
        has_sliding_window=rare(0.3),
        use_non_causal=rare(0.15),
        use_batch_invariant=env.batch_invariant,
        use_kv_connector=rare(0.2),
        use_pcp=env.prefill_context_parallel_size > 1,
        use_adaptive_verification=rare(0.05),
        use_dcp=env.decode_context_parallel_size > 1,
        use_rswa=env.has_rswa,
        num_heads=env.num_attention_heads if mla else None,
    )


def random_spec(rng: random.Random, env: BackendEnv) -> AttentionSpec:
    kind = rng.choice(("full_attention", "sliding_window", "mla"))
    mode = rng.choice(MODES)
    head_size = rng.choice((env.head_size, 64, 128, 256, 512))
    return AttentionSpec(
        kind=kind,
        block_size=rng.choice((16, 64, 128, 256, 640)),
        num_kv_heads=1 if kind == "mla" else env.num_kv_heads,
        head_size=head_size,
        head_size_v=0 if kind == "mla" else head_size,
        dtype="bfloat16" if mode == "none" else "uint8",
        kv_quant_mode=mode,
        state_content_bytes=rng.choice((None, None, None, 656)),
        tokens_per_state=rng.choice((1, 1, 4)),
        sliding_window=128 if kind == "sliding_window" else None,
    )


def ask(env: BackendEnv) -> Any:
    """Tell vLLM of the environment; its config."""
    from vllm.v1.attention.backends.flash_attn_diffkv import FlashAttentionDiffKVBackend

    vllm.gpu.capability = env.gpu.capability
    os.environ["VLLM_BATCH_INVARIANT"] = str(int(env.batch_invariant))
    FlashAttentionDiffKVBackend.set_head_size_v(env.diffkv_head_size_v)
    vllm.clear_caches()
    config = vllm.config_of(env)
    vllm.set_config(config)
    return config


def fact(reason: str) -> str:
    return next((name for start, name in FACTS.items() if reason.startswith(start)), "combination")


def same_reasons(theirs: list[str], ours: tuple[Any, ...]) -> bool:
    """The same facts; a combination may be one of the general facts in vLLM's words."""
    told, found = Counter(map(fact, theirs)), Counter(r.fact for r in ours)
    combination = found.pop("combination", 0)
    told.subtract(found)
    return min(told.values(), default=0) >= 0 and sum(told.values()) == combination


def selector_config(query: Query) -> Any:
    import torch
    from vllm.v1.attention.selector import AttentionSelectorConfig

    fields = {name: value for name, value in query._asdict().items() if name != "num_heads"}
    fields["dtype"] = getattr(torch, query.dtype)
    return AttentionSelectorConfig(**fields)


def test_every_backend_declares_what_vllm_declares(classes: dict[str, Any]) -> None:
    rng = random.Random(1)
    for _ in range(150):
        env, cases = random_env(rng), 0
        ask(env)
        spec = random_spec(rng, env)
        for key, theirs in classes.items():
            ours = backend(key)
            given = None if rng.random() < 0.4 else spec
            their_spec = None if given is None else vllm.spec_of(given)
            where = (key, env, given)
            assert ours.name == theirs.get_name()
            sizes = theirs.get_supported_kernel_block_sizes(their_spec)
            assert vllm.plain(ours.kernel_block_sizes(env, given)) == vllm.plain(sizes), where
            assert ours.layouts(env) == vllm.plain(theirs.supported_kv_cache_layouts()), where
            for block_size in (None, 16, 48, 64, 128, 640):
                assert ours.supports_block_size(env, block_size) == theirs.supports_block_size(block_size), where
            assert ours.preferred_block_size(env, 16) == theirs.get_preferred_block_size(16), where
            assert ours.ssm == theirs.is_ssm(), where
            cases += 1
        assert cases == len(keys())


def test_every_backend_packs_specs_as_vllm_does(classes: dict[str, Any]) -> None:
    from vllm.v1.worker.utils import customize_attention_spec as customize

    rng = random.Random(2)
    for _ in range(150):
        env = random_env(rng)
        ask(env)
        spec = random_spec(rng, env)
        for key, theirs in classes.items():
            if key == "B12X":  # cannot be selected without its package
                continue
            try:
                packed = customize(theirs, vllm.spec_of(spec))
            except (AssertionError, ValueError):
                packed = None
            try:
                ours = vllm.spec_of(customize_attention_spec(backend(key), env, spec))
            except Refused:
                ours = None
            assert ours == packed, (key, env, spec)


def test_selection_and_its_reasons(platform: Any, classes: dict[str, Any]) -> None:
    from vllm.platforms.interface import DeviceCapability

    rng = random.Random(3)
    chosen = Counter()
    for _ in range(12_000):
        env = random_env(rng)
        query = random_query(rng, env)
        ask(env)
        capability = DeviceCapability(*env.gpu.capability)
        valid, invalid = platform.get_valid_backends(capability, selector_config(query), query.num_heads)
        ranked = {c.priority: c.backend.name for c in valid} | {p: b.name for b, (p, _) in invalid.items()}
        assert tuple(ranked[i] for i in range(len(ranked))) == priorities(query, env)
        for b, (_, reasons) in invalid.items():
            assert same_reasons(reasons, backend(b.name).rejections(query, env)), (b.name, reasons, query, env)
        for candidate in valid:
            assert not backend(candidate.backend.name).rejections(query, env), (candidate, query, env)
        if valid:
            best = min(valid, key=lambda c: c.priority).backend.name
            selection = select(query, env)
            assert selection.backend.key == best
            chosen[best] += 1
        else:
            with pytest.raises(Refused):
                select(query, env)
            chosen["none"] += 1
    assert len(chosen) > 15, chosen


def test_a_requested_backend_is_refused_where_vllm_refuses(platform: Any, classes: dict[str, Any]) -> None:
    from vllm.platforms.interface import DeviceCapability

    rng = random.Random(4)
    verdicts = Counter()
    for _ in range(4_000):
        env = random_env(rng)
        query = random_query(rng, env)
        name = rng.choice(sorted(SELECTABLE))
        ask(env)
        try:
            reasons = classes[name].validate_configuration(
                device_capability=DeviceCapability(*env.gpu.capability), **selector_config(query)._asdict()
            )
        except AttributeError:  # an MLA backend looks for a field that the model has not
            reasons = ["crash"]
        try:
            assert select(query, env, name).backend.key == name
            ours = True
        except Refused:
            ours = False
        assert ours == (not reasons), (name, query, env, reasons)
        verdicts[ours] += 1
    assert verdicts[True] > 50, verdicts


def test_preferred_block_size_of_several_backends(platform: Any, classes: dict[str, Any]) -> None:
    rng = random.Random(5)
    attention = [key for key in keys() if not backend(key).ssm and key != "B12X"]
    for _ in range(3_000):
        env = random_env(rng)
        config = ask(env)
        chosen = rng.sample(attention, rng.choice((1, 2, 2, 3)))
        try:
            theirs = platform._preferred_block_size_for_backends([classes[key] for key in chosen], 16, config)
        except ValueError:
            theirs = None
        ask(env)
        try:
            ours = preferred_block_size([backend(key) for key in chosen], env)
        except Refused:
            ours = None
        assert ours == theirs, (chosen, env)


def random_cache_spec(rng: random.Random) -> Spec:
    """A spec of the shapes that layouts and kernel blocks tell apart."""
    block_size = rng.choice((16, 32, 64, 128, 256, 640, 1088))
    if rng.random() < 0.15:
        size = rng.choice((4096, 8192, 10240))
        padded = rng.choice((None, size, size + 6144))
        return StateSpec(((size // 2,),), ("bfloat16",), block_size, page_size_padded=padded)
    kind = rng.choice(("full_attention", "full_attention", "sliding_window", "mla", "mla", "circular_buffer"))
    heads = 1 if kind in ("mla", "circular_buffer") else rng.choice((1, 2, 4))
    head_size = rng.choice((64, 128))
    spec = AttentionSpec(
        kind=kind,
        block_size=block_size,
        num_kv_heads=heads,
        head_size=head_size,
        head_size_v=0 if kind == "mla" else head_size,
        dtype=rng.choice(("bfloat16", "uint8")),
        num_head_slots=rng.choice((None, None, None, 2 * heads)),
        state_content_bytes=rng.choice((None, None, 132)),
        tokens_per_state=rng.choice((1, 4)) if kind == "mla" else rng.choice((1, 1, 1, 1, Fraction(1, 2))),
        block_stride_alignment=rng.choice((None, None, MultipleOf(64), MultipleOf(128), 512)),
        dcp_sharded=rng.random() < 0.8,
        sliding_window=128 if kind == "sliding_window" else None,
    )
    extra = rng.choice((None, None, None, 0, 1024))
    return spec if extra is None else spec._replace(page_size_padded=spec.unpadded_page_size_bytes + extra)


def test_layout_candidates_and_resolution(platform: Any, classes: dict[str, Any], monkeypatch: Any) -> None:
    from vllm.v1.attention.backends.utils import get_supported_kv_cache_layouts, resolve_kv_cache_layout

    rng = random.Random(6)
    outcomes = Counter()
    wanted = [key for key in keys() if backend(key).layouts(random_env(rng)) is not None] + ["FLASHINFER"] * 6
    for _ in range(6_000):
        env = random_env(rng)
        config = ask(env)
        chosen = rng.sample(keys(), rng.choice((1, 2, 3))) + rng.sample(wanted, rng.choice((0, 0, 1, 2)))
        chosen = list(dict.fromkeys(chosen))
        try:
            theirs = tuple(x.name for x in get_supported_kv_cache_layouts([classes[key] for key in chosen]))
        except ValueError:
            theirs = None
        try:
            ours = layout.candidates([backend(key).layouts(env) for key in chosen])
        except Refused:
            ours = None
        assert ours == theirs, (chosen, env)
        names = ours or tuple(rng.sample(layout.LAYOUTS, 2))
        specs = [random_cache_spec(rng) for _ in range(rng.choice((1, 1, 2, 3)))]
        requested = rng.choice((None, None, None, *layout.LAYOUTS, "NHD", "HND"))
        connector = random_connector(rng)
        if requested is None:
            monkeypatch.delenv("VLLM_KV_CACHE_LAYOUT", raising=False)
        else:
            monkeypatch.setenv("VLLM_KV_CACHE_LAYOUT", requested)
        config.cache_config.kv_cache_layout = None
        config.kv_transfer_config = None if connector is None else transfer_config(connector)
        try:
            resolved = resolve_kv_cache_layout(config, [list(names)], [vllm.spec_of(s) for s in specs]).name
        except ValueError:
            resolved = None
        try:
            # vLLM asks the connector only where the environment does not decide.
            use_mla = config.model_config.use_mla
            want = None if requested else connectors.preferred_layout(connector, use_mla=use_mla)
            found = layout.resolve(names, specs, requested=requested, connector=want)
            assert (found.warning is not None) == (want is not None and layout.ALIASES.get(want, want) != found.layout)
            mine = found.layout
        except Refused:
            mine = None
        assert mine == resolved, (names, specs, requested, connector)
        outcomes[mine] += 1
    assert len(outcomes) == 7, outcomes


CONNECTORS = (
    "NixlConnector",
    "NixlPushConnector",
    "MooncakeConnector",
    "OffloadingConnector",
    "MooncakeStoreConnector",
)
CONNECTORS += ("SimpleCPUOffloadConnector", "ExampleConnector", "ExampleHiddenStatesConnector", "DecodeBenchConnector")
CONNECTORS += ("LMCacheConnectorV1",)


def random_connector(rng: random.Random) -> dict[str, Any] | None:
    if rng.random() < 0.5:
        return None
    if rng.random() < 0.3:
        parts = [{"kv_connector": name, "kv_role": "kv_both"} for name in rng.sample(CONNECTORS, 2)]
        extra = {"connectors": parts}
        return {"kv_connector": "MultiConnector", "kv_role": "kv_both", "kv_connector_extra_config": extra}
    return {"kv_connector": rng.choice(CONNECTORS), "kv_role": "kv_both"}


def transfer_config(connector: dict[str, Any]) -> Any:
    from vllm.config.kv_transfer import KVTransferConfig

    return KVTransferConfig(**connector, engine_id="any", kv_buffer_device="cuda")


def declared(rng: random.Random) -> tuple[int | MultipleOf, ...]:
    return rng.choice(
        (
            (MultipleOf(16),),
            (MultipleOf(64),),
            (MultipleOf(1),),
            (16, 32, 64),
            (16, 32, 64, 128, 256, 512, 1024),
            (32, 64),
            (64,),
            (128,),
            (128, 256),
            (32, MultipleOf(48)),
        )
    )


def backend_class(name: str, sizes: tuple[int | MultipleOf, ...]) -> Any:
    from vllm.v1.attention.backend import AttentionBackend
    from vllm.v1.attention.backend import MultipleOf as TheirMultipleOf

    theirs = [TheirMultipleOf(s.base) if isinstance(s, MultipleOf) else s for s in sizes]
    members = {
        "get_name": staticmethod(lambda: name),
        "get_supported_kernel_block_sizes": staticmethod(lambda spec=None: theirs),
        "get_impl_cls": staticmethod(lambda: None),
        "get_builder_cls": staticmethod(lambda: None),
    }
    return type(name, (AttentionBackend,), members)


def test_common_kernel_block(platform: Any) -> None:
    from vllm.v1.worker.utils import select_common_block_size

    rng = random.Random(7)
    for _ in range(6_000):
        block_size = rng.choice((16, 32, 48, 64, 96, 128, 256, 528, 640, 1088, 2048))
        sets = [declared(rng) for _ in range(rng.choice((1, 1, 2, 3)))]
        try:
            theirs = select_common_block_size(block_size, [backend_class(f"B{i}", s) for i, s in enumerate(sets)])
        except ValueError:
            theirs = None
        try:
            ours = kernel_blocks.select_common_block_size(block_size, [(f"B{i}", s) for i, s in enumerate(sets)])
        except Refused:
            ours = None
        assert ours == theirs, (block_size, sets)


class Case:
    """Random groups in a random layout, as kvplan and as vLLM hold them."""

    def __init__(self, rng: random.Random) -> None:
        self.layout = rng.choice(layout.LAYOUTS)
        self.num_blocks = rng.choice((2, 3, 5))
        self.groups: list[Group] = []
        self.layers: dict[str, CacheLayer] = {}
        compressed = rng.random() < 0.3
        page_for_all = None if rng.random() < 0.5 else random_cache_spec(rng)
        for index in range(rng.choice((1, 1, 2, 3))):
            spec = page_for_all or random_cache_spec(rng)
            if compressed and isinstance(spec, AttentionSpec):
                spec = spec._replace(kind="mla", num_kv_heads=1, num_head_slots=None, tokens_per_state=4, head_size_v=0)
            self._add_group(rng, index, spec)

    def _add_group(self, rng: random.Random, index: int, spec: Spec) -> None:
        names = [f"g{index}.l{i}" for i in range(rng.choice((1, 2, 3)))]
        specs: list[Spec] = [spec] * len(names)
        uniform = isinstance(spec, AttentionSpec) and len(names) > 1 and rng.random() < 0.3
        if uniform and isinstance(spec, AttentionSpec):
            specs[-1] = spec._replace(head_size=2 * spec.head_size, page_size_padded=None)
        for name, own in zip(names, specs, strict=True):
            sizes = declared(rng) if isinstance(own, AttentionSpec) else ()
            self.layers[name] = CacheLayer(name, "target", own, f"B{len(self.layers)}", sizes)
        page = sum(s.page_size_bytes for s in specs) if uniform else spec.page_size_bytes
        fields = (tuple(names), spec, tuple(specs), spec.kind, "target", spec.block_size, page, 1)
        self.groups.append(Group(*fields, uniform_type=uniform))

    def their_groups(self) -> list[Any]:
        from vllm.v1 import kv_cache_interface as kv

        found = []
        for group in self.groups:
            specs = [vllm.spec_of(s) for s in group.layer_specs]
            whole = specs[0]
            if group.uniform_type:
                by_layer = dict(zip(group.layers, specs, strict=True))
                whole = kv.UniformTypeKVCacheSpecs(block_size=group.block_size, kv_cache_specs=by_layer)
            found.append(kv.KVCacheGroupSpec(list(group.layers), whole))
        return found

    def their_attention_groups(self, groups: list[Any]) -> list[list[Any]]:
        from vllm.v1.worker.utils import AttentionGroup

        classes = {name: backend_class(layer.backend, layer.kernel_block_sizes) for name, layer in self.layers.items()}
        return [
            [
                AttentionGroup(classes[name], [name], getattr(whole, "kv_cache_specs", {}).get(name, whole), index)
                for name in group.layer_names
                for whole in [group.kv_cache_spec]
            ]
            for index, group in enumerate(groups)
        ]


def their_binding(case: Case, config: Any) -> tuple[list[int], dict[str, tuple[Any, ...]]]:
    """What vLLM's worker makes of the case: kernel block sizes per group, and per layer its kernel block, stride and
    the kernel table of blocks 0 and 1. Raises as the worker does."""
    import torch
    from vllm.v1.core import kv_cache_planning as planning
    from vllm.v1.kv_cache_interface import AttentionSpec as TheirAttentionSpec
    from vllm.v1.kv_cache_interface import KVCacheLayout
    from vllm.v1.worker import utils

    groups = case.their_groups()
    order = KVCacheLayout[case.layout]
    config.cache_config.get_resolved_kv_cache_layout = lambda: order
    per_block = planning._get_kv_cache_bytes_per_block(groups, order)
    cache = planning.get_kv_cache_config_from_groups(config, groups, per_block * case.num_blocks)
    members = case.their_attention_groups(groups)
    sizes = utils.prepare_kernel_block_sizes(cache, members)
    caches = utils.allocate_kv_cache(cache, torch.device("meta"), order, sizes)
    found = {}
    attention = [g for part in members for g in part if isinstance(g.kv_cache_spec, TheirAttentionSpec)]
    for group in attention:
        spec, backends = group.kv_cache_spec, [group.backend]
        size = utils.select_common_block_size(sizes[group.kv_cache_group_id], backends, [spec])
        if size != spec.block_size:
            group.kernel_block_size = size
            group.kernel_block_offsets = torch.arange(spec.block_size // size, dtype=torch.int32)
            group.kernel_block_table = torch.zeros(1, 1, 2 * spec.block_size // size, dtype=torch.int32)
    utils.map_kv_caches_to_kernel_blocks(caches, attention)
    for group in attention:
        table = group.map_to_kernel_block_table(torch.tensor([[0, 1]], dtype=torch.int32))
        size = group.kernel_block_size or group.kv_cache_spec.block_size
        found[group.layer_names[0]] = (size, tuple(table[0].tolist()))
    return sizes, found


def test_binding_of_kernel_blocks(platform: Any) -> None:
    from vllm.v1.core import kv_cache_planning as planning
    from vllm.v1.kv_cache_interface import KVCacheLayout

    rng = random.Random(8)
    env = random_env(rng)
    config = ask(env)
    cache_config = SimpleNamespace(num_gpu_blocks_override=None, prefix_cache_retention_interval=None)
    config.cache_config = cache_config
    modes = Counter()
    for _ in range(6_000):
        case = Case(rng)
        order = KVCacheLayout[case.layout]
        pages = [spec.page_size_bytes for group in case.groups for spec in group.layer_specs]
        try:
            planning.validate_kv_cache_layout(order, case.their_groups())
            fits = True
        except ValueError:
            fits = False
        try:
            layout.validate(case.layout, pages, len(case.groups))
            assert fits
        except Refused:
            assert not fits
            modes["invalid"] += 1
            continue
        try:
            theirs = their_binding(case, config)
        except (ValueError, AssertionError, RuntimeError) as error:
            theirs = error
        ours = our_binding(case, planning._get_kv_cache_bytes_per_block(case.their_groups(), order))
        where = (case.layout, case.groups, case.layers, theirs, ours)
        if isinstance(theirs, Exception):
            assert ours.error is not None, where
            modes["error"] += 1
            continue
        assert ours.error is None, where
        assert list(ours.group_sizes) == theirs[0], where
        tables = {n: (g.kernel_block_size, g.table((0, 1))) for g in ours.attention_groups for n in g.layers}
        assert tables == theirs[1], where
        modes.update(g.mode for g in ours.attention_groups)
    assert min(modes[m] for m in ("whole", "dense", "packed", "error", "invalid")) > 50, modes


def our_binding(case: Case, bytes_per_block: int) -> kernel_blocks.KernelBlocks:
    try:
        placed = kernel_blocks.placements(case.groups, case.layout, case.num_blocks, bytes_per_block)
    except Refused as refusal:
        return kernel_blocks.KernelBlocks((), (), (), str(refusal))
    return kernel_blocks.bind(case.groups, case.layers, placed, case.layout)
