"""Backends: which one a layer gets on each GPU, why not a better one, and what it asks of the cache."""

import subprocess
import sys

import pytest

from kvplan.backends import (
    BackendEnv,
    Query,
    backend,
    check_batch_invariance,
    customize_attention_spec,
    kv_quant_mode,
    preferred_block_size,
    select,
    wrapped,
)
from kvplan.backends.flash_attn import runs_diffkv
from kvplan.backends.mla_sparse import canonical_cache_dtype
from kvplan.backends.registry import keys
from kvplan.errors import Refused
from kvplan.gpus import find
from kvplan.spec import AttentionSpec, MultipleOf

GQA = Query(head_size=128, dtype="bfloat16", kv_cache_dtype="auto")
MLA = Query(head_size=576, dtype="bfloat16", kv_cache_dtype="auto", use_mla=True, num_heads=128)
SPARSE = MLA._replace(use_sparse=True)
DEEPSEEK = {"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "kv_lora_rank": 512}


def dense(gpu: str) -> BackendEnv:
    return BackendEnv(find(gpu), num_attention_heads=32, num_kv_heads=8, head_size=128)


def deepseek(gpu: str, index_topk: int | None = None) -> BackendEnv:
    return BackendEnv(find(gpu), 128, 1, 576, index_topk=index_topk, **DEEPSEEK)


@pytest.mark.parametrize(
    ("gpu", "query", "env", "name"),
    [
        ("A100 80GB", GQA, dense, "FLASH_ATTN"),
        ("RTX 4090", GQA, dense, "FLASH_ATTN"),
        ("H100", GQA, dense, "FLASH_ATTN"),
        ("B200", GQA, dense, "FLASHINFER"),
        ("B300", GQA, dense, "FLASHINFER"),
        ("Thor", GQA, dense, "FLASH_ATTN"),
        ("RTX 5090", GQA, dense, "FLASH_ATTN"),
        ("GB10", GQA, dense, "FLASH_ATTN"),
        ("RTX 5090", GQA._replace(kv_cache_dtype="fp8"), dense, "FLASHINFER"),
        ("B200", GQA._replace(use_non_causal=True), dense, "FLASH_ATTN"),
        ("A100 80GB", MLA, deepseek, "TRITON_MLA"),
        ("H200", MLA, deepseek, "FLASH_ATTN_MLA"),
        ("H200", MLA._replace(kv_cache_dtype="fp8"), deepseek, "FLASHMLA"),
        ("B200", MLA, deepseek, "FLASHINFER_MLA"),
        ("GB10", MLA, deepseek, "TRITON_MLA"),
    ],
)
def test_the_backend_of_each_gpu(gpu: str, query: Query, env: object, name: str) -> None:
    assert callable(env)
    assert select(query, env(gpu)).backend.name == name


@pytest.mark.parametrize(
    ("gpu", "heads", "cache_dtype", "name"),
    [
        ("H200", 128, "auto", "FLASH_ATTN_MLA_SPARSE"),
        ("H200", 128, "fp8", "FLASHMLA_SPARSE"),
        ("B200", 128, "auto", "FLASHMLA_SPARSE"),
        ("B200", 16, "auto", "FLASH_ATTN_MLA_SPARSE_FA4"),
        ("B200", 128, "fp8", "FLASHINFER_MLA_SPARSE"),
        ("GB10", 128, "fp8", "FLASHINFER_MLA_SPARSE_SM120"),
    ],
)
def test_the_backend_of_sparse_mla(gpu: str, heads: int, cache_dtype: str, name: str) -> None:
    env = deepseek(gpu, index_topk=2048)._replace(num_attention_heads=heads, cache_dtype=cache_dtype)
    query = SPARSE._replace(num_heads=heads, kv_cache_dtype=cache_dtype)
    assert select(query, env).backend.name == name


def test_every_better_ranked_backend_is_passed_over_with_its_reasons() -> None:
    selection = select(GQA._replace(head_size=80, use_mm_prefix=True), dense("B200"))
    assert selection.backend.name == "FLASH_ATTN"
    assert [(name, [r.why for r in why]) for name, why in selection.passed_over] == [
        ("TRITON_FLASHINFER", ["does not take head size 80"]),
        ("FLASHINFER", ["does not take head size 80", "cannot mask image tokens both ways"]),
    ]


def test_better_backends_that_only_the_block_size_costs_are_told() -> None:
    chosen = select(MLA._replace(block_size=48), deepseek("B200"))
    assert chosen.backend.name == "TRITON_MLA"
    assert chosen.lost_to_block_size == ("FLASHINFER_MLA", "CUTLASS_MLA")


def test_a_requested_backend_that_cannot_serve_is_refused_in_one_sentence() -> None:
    with pytest.raises(Refused) as error:
        select(GQA._replace(kv_cache_dtype="fp8"), dense("RTX 5090"), "FLASH_ATTN")
    assert str(error.value) == (
        "--attention-backend FLASH_ATTN cannot serve this deployment on RTX 5090: it does not take KV cache dtype fp8 "
        "and reads an FP8 cache with FA3 on Hopper, FA4 at head size 512 there, or FA4 on Blackwell; leave the flag "
        "out to let vLLM choose."
    )


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("ROCM_ATTN", "--attention-backend ROCM_ATTN is not for NVIDIA GPUs; use "),
        ("TORCH_SDPA", "--attention-backend TORCH_SDPA is for vision encoders only; use FLASH_ATTN, FLASHINFER, "),
        ("XFORMERS", "--attention-backend XFORMERS is no attention backend of vLLM; use FLASH_ATTN, FLASHINFER, "),
        ("FLASHMLA_SPARS", "--attention-backend FLASHMLA_SPARS is no attention backend of vLLM; use FLASHMLA_SPARSE, "),
    ],
)
def test_names_that_are_no_backend_here(name: str, start: str) -> None:
    with pytest.raises(Refused) as error:
        select(GQA, dense("H100"), name)
    assert str(error.value).startswith(start)


def test_a_kind_overrides_the_run_and_is_named_when_refused() -> None:
    window = GQA._replace(has_sliding_window=True)
    per_kind = {"sliding_window": "TRITON_ATTN"}
    assert select(window, dense("H100"), "FLASH_ATTN", per_kind).backend.name == "TRITON_ATTN"
    assert select(GQA, dense("H100"), "FLASH_ATTN", per_kind).backend.name == "FLASH_ATTN"
    with pytest.raises(Refused, match=r"^--attention-config.backend_per_kind.sliding_window TURBOQUANT cannot serve"):
        select(window, dense("H100"), None, {"sliding_window": "TURBOQUANT"})


def test_a_kind_that_does_not_exist_is_refused() -> None:
    with pytest.raises(Refused, match="names 'mla', which is no kind of KV cache; use full_attention, mla_attention, "):
        select(GQA, dense("H100"), None, {"mla": "TRITON_MLA"})


def test_batch_invariance_needs_it_of_every_layer() -> None:
    env = dense("H100")._replace(batch_invariant=True)
    check_batch_invariance([backend("FLASH_ATTN"), backend("TRITON_MLA")], env)
    check_batch_invariance([backend("GDN_ATTN")], dense("H100"))
    with pytest.raises(Refused, match="VLLM_BATCH_INVARIANT=1: GDN_ATTN is not batch invariant; unset it"):
        check_batch_invariance([backend("FLASH_ATTN"), backend("GDN_ATTN")], env)


def test_nothing_fits_names_the_gpu_and_every_reason() -> None:
    with pytest.raises(Refused) as error:
        select(GQA._replace(kv_cache_dtype="fp8_ds_mla"), dense("H100"))
    sentence = str(error.value)
    assert sentence.startswith("no attention backend of vLLM on H100 SXM takes layers of head size 128 in bfloat16 ")
    assert "TURBOQUANT does not take KV cache dtype fp8_ds_mla" in sentence


@pytest.mark.parametrize(
    ("query", "env", "remedy"),
    [
        (GQA._replace(block_size=7), dense("H100"), "change --block-size 7."),
        (GQA._replace(kv_cache_dtype="fp8_ds_mla"), dense("H100"), "change --kv-cache-dtype fp8_ds_mla."),
        (
            GQA._replace(block_size=7, kv_cache_dtype="nvfp4", has_sink=True),
            dense("H100"),
            "change --block-size 7 and --kv-cache-dtype nvfp4.",
        ),
        (
            GQA._replace(use_pcp=True),
            dense("H100")._replace(prefill_context_parallel_size=2),
            "change --prefill-context-parallel-size 2.",
        ),
        (SPARSE, deepseek("L4", 2048), "the GPU is in the way: choose one of another compute capability than 8.9."),
        (MLA._replace(has_sink=True), deepseek("L4"), "no flag changes that: vLLM cannot serve the model"),
    ],
)
def test_nothing_fits_ends_with_what_to_change(query: Query, env: BackendEnv, remedy: str) -> None:
    with pytest.raises(Refused) as error:
        select(query, env)
    assert str(error.value).rpartition("; ")[2].startswith(remedy)


def test_flashinfer_takes_large_pages_for_grouped_queries_on_blackwell_only() -> None:
    flashinfer = backend("FLASHINFER")
    large = (16, 32, 64, 128, 256, 512, 1024)
    assert flashinfer.kernel_block_sizes(dense("B200")) == large
    assert flashinfer.kernel_block_sizes(dense("B200")._replace(num_kv_heads=32)) == (16, 32, 64)
    assert flashinfer.kernel_block_sizes(dense("B200")._replace(use_trtllm_attention=False)) == (16, 32, 64)
    assert flashinfer.kernel_block_sizes(dense("H200")) == (16, 32, 64)
    assert (flashinfer.layouts(dense("B300")), flashinfer.layouts(dense("H200"))) == (("LBHNC", "BLHNC"), None)


def test_flash_attention_reads_128_token_pages_at_head_size_256_on_blackwell() -> None:
    flash = backend("FLASH_ATTN")
    wide = dense("B300")._replace(head_size=256)
    assert flash.kernel_block_sizes(wide) == (128,)
    assert flash.preferred_block_size(wide, 16) == 128
    assert flash.kernel_block_sizes(wide._replace(cache_dtype="fp8")) == (MultipleOf(16),)
    assert flash.kernel_block_sizes(dense("H200")._replace(head_size=256)) == (MultipleOf(16),)


def test_diffkv_runs_where_fa3_or_fa4_does() -> None:
    assert runs_diffkv(dense("H200"), 192, 128, has_sinks=True)
    assert runs_diffkv(dense("B200"), 192, 128, has_sinks=True)
    assert not runs_diffkv(dense("B200"), 256, 128, has_sinks=False)
    assert not runs_diffkv(dense("GB10"), 192, 128, has_sinks=False)


def test_fixed_kernel_blocks_ask_for_whole_ones_between_blocks() -> None:
    spec = AttentionSpec("full_attention", 640, 2, 256, 256, "bfloat16")
    packed = customize_attention_spec(backend("FLASHINFER"), dense("H200"), spec)
    assert packed.block_stride_alignment == MultipleOf(64)
    assert customize_attention_spec(backend("TRITON_ATTN"), dense("H200"), spec) is spec


@pytest.mark.parametrize(
    ("key", "mode", "content"),
    [
        ("FLASHINFER", "nvfp4", 72),  # 128 / 2 codes + 128 / 16 scales
        ("TRITON_ATTN", "int8_per_token_head", 264),  # 2 x (128 + 4)
        ("TRITON_ATTN", "int4_per_token_head", 136),  # 2 x (64 + 4)
        ("TURBOQUANT", "turboquant_k8v4", 196),  # 128 + 64 + 4
        ("TURBOQUANT", "turboquant_4bit_nc", 134),  # 64 + 2 + 64 + 4
        ("TURBOQUANT", "turboquant_k3v4_nc", 118),  # 48 + 2 + 64 + 4
        ("TURBOQUANT", "turboquant_3bit_nc", 102),  # 48 + 2 + 48 + 4
    ],
)
def test_packed_formats(key: str, mode: str, content: int) -> None:
    spec = AttentionSpec("full_attention", 16, 8, 128, 128, "uint8", kv_quant_mode=mode)
    packed = backend(key).customize(dense("B200"), spec)
    assert packed.state_content_bytes == content
    assert packed.num_heads == (16 if mode == "nvfp4" else 8)


def test_block_size_of_backends_that_differ() -> None:
    env = dense("H200")._replace(index_kpool=4)
    indexer, tail, sparse = (backend(k) for k in ("GLM5_NEXT_INDEXER", "KPOOL_TAIL", "FLASHINFER_MLA_SPARSE_SM90"))
    assert preferred_block_size([sparse, indexer, tail], env) == 128
    assert preferred_block_size([backend("FLASH_ATTN"), backend("TRITON_ATTN")], env) == 16
    assert preferred_block_size([backend("FLASHINFER_MLA")], env) == 32
    assert preferred_block_size([backend("DEEPSEEK_SPARSE_SWA")], env) == 256


def test_a_wrapped_backend_is_another_backend_with_the_same_declarations() -> None:
    chunked = wrapped(backend("FLASH_ATTN"), "chunked_local_8192")
    assert (chunked.key, chunked.name) == ("FLASH_ATTN@chunked_local_8192", "FLASH_ATTN")
    assert backend("FLASH_ATTN@chunked_local_8192").key == chunked.key
    assert chunked.kernel_block_sizes(dense("H100")) == (MultipleOf(16),)


def test_an_unknown_key_is_no_backend() -> None:
    with pytest.raises(KeyError):
        backend("FLASH_ATTENTION")


def test_sparse_mla_stores_fp8_in_its_own_format() -> None:
    assert canonical_cache_dtype("FLASHMLA_SPARSE", "fp8") == "fp8_ds_mla"
    assert canonical_cache_dtype("FLASHMLA_SPARSE", "auto") == "auto"
    assert canonical_cache_dtype("FLASHMLA_SPARSE", "nvfp4_ds_mla") == "nvfp4_ds_mla"
    assert canonical_cache_dtype("FLASHINFER_MLA_SPARSE", "fp8") == "fp8"
    assert canonical_cache_dtype("FLASHINFER_MLA_SPARSE_SM120", "auto") == "fp8_ds_mla"


def test_quantisation_modes_of_cache_dtypes() -> None:
    modes = {name: kv_quant_mode(name) for name in ("auto", "bfloat16", "fp8", "fp8_ds_mla", "nvfp4_4over6")}
    assert modes == {
        "auto": "none",
        "bfloat16": "none",
        "fp8": "fp8_per_tensor",
        "fp8_ds_mla": "fp8_per_tensor",
        "nvfp4_4over6": "nvfp4",
    }
    assert kv_quant_mode("nvfp4_ds_mla") == "nvfp4_ds_mla"
    assert kv_quant_mode("fp8_per_token_head") == "fp8_per_token_head"


def test_every_key_loads_under_its_own_name() -> None:
    assert {key: backend(key).key for key in keys()} == {key: key for key in keys()}


def test_selecting_the_common_backends_loads_no_other() -> None:
    script = (
        "import sys; from kvplan.backends import *; from kvplan.gpus import find\n"
        "for gpu in ('H100', 'B200'):\n"
        "    select(Query(128, 'bfloat16', 'auto'), BackendEnv(find(gpu), 32, 8, 128))\n"
        "print(*sorted(m.rpartition('.')[2] for m in sys.modules if m.startswith('kvplan.backends.')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["base", "fa_version", "flash_attn", "flashinfer", "registry", "selector"]
