"""Backends by name, loaded when first asked for (vllm/v1/attention/backends/registry.py and the model packages)."""

from __future__ import annotations

from importlib import import_module

from kvplan.backends.base import Backend
from kvplan.errors import Refused

# Key -> module of kvplan.backends and class. Keys are vLLM's get_name(), but where two classes share a name the
# rarer one has a key of its own.
_CLASSES = {
    "FLASH_ATTN": ("flash_attn", "FlashAttn"),
    "FLASH_ATTN_DIFFKV": ("flash_attn", "FlashAttnDiffKV"),
    "FLASHINFER": ("flashinfer", "FlashInfer"),
    "TRITON_ATTN": ("triton_attn", "TritonAttn"),
    "TRITON_ATTN_DIFFKV": ("triton_attn", "TritonAttnDiffKV"),
    "TRITON_FLASHINFER": ("composite", "TritonFlashInfer"),
    "TRITON_FLASH_ATTN": ("composite", "TritonFlashAttn"),
    "FLEX_ATTENTION": ("flex_attention", "FlexAttention"),
    "TURBOQUANT": ("turboquant", "TurboQuant"),
    "FLASHINFER_MLA": ("mla", "FlashInferMLA"),
    "TOKENSPEED_MLA": ("mla", "TokenspeedMLA"),
    "CUTLASS_MLA": ("mla", "CutlassMLA"),
    "FLASH_ATTN_MLA": ("mla", "FlashAttnMLA"),
    "FLASHMLA": ("mla", "FlashMLA"),
    "TRITON_MLA": ("mla", "TritonMLA"),
    "DOTS3_NOTE_TRITON_MLA": ("mla", "Dots3NoteTritonMLA"),
    "FLASHINFER_MLA_SPARSE": ("mla_sparse", "FlashInferMLASparse"),
    "FLASHINFER_MLA_SPARSE_SM90": ("mla_sparse", "FlashInferMLASparseSM90"),
    "FLASHINFER_MLA_SPARSE_SM120": ("mla_sparse", "FlashInferMLASparseSM120"),
    "FLASHMLA_SPARSE": ("mla_sparse", "FlashMLASparse"),
    "HY_V4_FLASHMLA_SPARSE": ("mla_sparse", "HYV4FlashMLASparse"),
    "FLASH_ATTN_MLA_SPARSE": ("mla_sparse", "FlashAttnMLASparse"),
    "FLASH_ATTN_MLA_SPARSE_FA4": ("mla_sparse", "FlashAttnMLASparseFA4"),
    "DOTS3_NOTE_PADDED_MLA_SPARSE": ("mla_sparse", "Dots3NotePaddedSparse"),
    "DEEPSEEK_V32_INDEXER": ("indexer", "DeepseekV32Indexer"),
    "GLM5_NEXT_INDEXER": ("indexer", "Glm5NextIndexer"),
    "KPOOL_TAIL": ("indexer", "KpoolTail"),
    "DEEPSEEK_V4_INDEXER": ("indexer", "DeepseekV4Indexer"),
    "DEEPSEEK_V41_INDEXER": ("indexer", "DeepseekV41Indexer"),
    "DEEPSEEK_V41_SPARSE_INDEXER": ("indexer", "DeepseekV41SparseIndexer"),
    "FLASHMLA_SPARSE_DSV4": ("deepseek_v4", "FlashMLASparseDSV4"),
    "FLASHINFER_MLA_SPARSE_DSV4": ("deepseek_v4", "FlashInferMLASparseDSV4"),
    "FLASHMLA_SPARSE_DSV41": ("deepseek_v4", "FlashMLASparseDSV41"),
    "FLASHINFER_MLA_SPARSE_DSV41": ("deepseek_v4", "FlashInferMLASparseDSV41"),
    "FLASHMLA_MEGA_ATTN_DSV41": ("deepseek_v4", "FlashMLAMegaAttnDSV41"),
    "DEEPSEEK_SPARSE_SWA": ("deepseek_v4", "DeepseekSparseSWA"),
    "CompressorBackend": ("deepseek_v4", "Compressor"),
    "MINIMAX_M3_SPARSE": ("minimax_m3", "MiniMaxM3Sparse"),
    "MINIMAX_M3_SPARSE_NVFP4": ("minimax_m3", "MiniMaxM3SparseNvfp4"),
    "CUTLASS_MSA": ("minimax_m3", "CutlassMSA"),
    "TRITON_MSA": ("minimax_m3", "TritonMSA"),
    "MINIMAX_M3_SPARSE_INDEXER": ("minimax_m3", "MiniMaxM3Indexer"),
    "STEP5_DSA": ("step5", "Step5DSA"),
    "STEP5_SPLIT_KV_FLASH_ATTN": ("step5", "Step5SplitKV"),
    "STEP5_CSA_SUMMARY": ("step5", "Step5Summary"),
    "STEP5_CSA_TAIL_RING": ("step5", "Step5TailRing"),
    "QWEN4_EXP_QSA_TRITON": ("qwen4_qsa", "QSATriton"),
    "QWEN4_EXP_EXP_QSA_STATE": ("side_caches", "QSAState"),
    "INKLING_SCONV_SWA": ("side_caches", "InklingSconv"),
    "CACHE_ONLY_ATTN": ("side_caches", "CacheOnly"),
    "B12X": ("optional_packages", "B12x"),
    "HPC_ATTN": ("optional_packages", "HpcAttn"),
    "MAMBA1_ATTN": ("state", "Mamba1Attn"),
    "MAMBA2_ATTN": ("state", "Mamba2Attn"),
    "GDN_ATTN": ("state", "GDNAttn"),
    "KIMI_K3_KDA": ("state", "KimiK3KDA"),
    "LINEAR_ATTN": ("state", "LinearAttn"),
    "BAILING_LINEAR_ATTN": ("state", "BailingLinearAttn"),
    "SHORT_CONV_ATTN": ("state", "ShortConvAttn"),
    "PLE_SHORT_CONV_ATTN": ("state", "PleShortConvAttn"),
}

SELECTABLE = frozenset(
    {
        "FLASH_ATTN",
        "FLASH_ATTN_DIFFKV",
        "FLASHINFER",
        "TRITON_ATTN",
        "TRITON_ATTN_DIFFKV",
        "TRITON_FLASHINFER",
        "TRITON_FLASH_ATTN",
        "FLEX_ATTENTION",
        "TURBOQUANT",
        "FLASHINFER_MLA",
        "TOKENSPEED_MLA",
        "CUTLASS_MLA",
        "FLASH_ATTN_MLA",
        "FLASHMLA",
        "TRITON_MLA",
        "FLASHINFER_MLA_SPARSE",
        "FLASHINFER_MLA_SPARSE_SM90",
        "FLASHINFER_MLA_SPARSE_SM120",
        "FLASHMLA_SPARSE",
        "FLASH_ATTN_MLA_SPARSE",
        "FLASH_ATTN_MLA_SPARSE_FA4",
        "FLASHMLA_SPARSE_DSV4",
        "FLASHINFER_MLA_SPARSE_DSV4",
        "FLASHMLA_SPARSE_DSV41",
        "FLASHINFER_MLA_SPARSE_DSV41",
        "FLASHMLA_MEGA_ATTN_DSV41",
        "MINIMAX_M3_SPARSE",
        "CUTLASS_MSA",
        "TRITON_MSA",
        "STEP5_DSA",
        "B12X",
        "HPC_ATTN",
    }
)
"""Names that `--attention-backend` takes on CUDA (`AttentionBackendEnum`)."""

# AttentionBackendEnum's other names, and why they cannot serve a model on CUDA.
_UNSELECTABLE = {
    "TORCH_SDPA": "is for vision encoders only",
    "NO_ATTENTION": "has no implementation in this release",
    "CUSTOM": "stands for a plug-in that has to register itself",
}

_loaded: dict[str, Backend] = {}


def backend(key: str) -> Backend:
    """The backend under this key, loading its file when first asked for.

    A key ``BASE@wrapper`` is BASE as a layer class wraps it (`wrapped`). KeyError for an unknown key.
    """
    found = _loaded.get(key)
    if found is None:
        base, _, wrapper = key.partition("@")
        found = _loaded[key] = wrapped(backend(base), wrapper) if wrapper else _load(key)
    return found


def _load(key: str) -> Backend:
    module, class_name = _CLASSES[key]
    loaded: Backend = getattr(import_module(f"kvplan.backends.{module}"), class_name)()
    return loaded


def keys() -> tuple[str, ...]:
    """Keys of all backends, wrapped ones left out."""
    return tuple(_CLASSES)


def wrapped(base: Backend, wrapper: str) -> Backend:
    """``base`` as a layer class subclasses it for its metadata: same sizes and layouts, an identity of its own.

    vLLM tells backends apart by class: a wrapped one counts beside its base for the preferred block size and forms
    its own attention group. ``wrapper`` names the layer class: ``chunked_local_<tokens>``, ``cross_attention``,
    ``encoder_only``, ``static_sink``, ``fast_prefill``, ``whisper_block_pooling_<size>``. Source:
    `subclass_attention_backend` of vllm/v1/attention/backend.py and its callers.
    """
    child: Backend = object.__new__(type(base))
    child.__dict__.update(base.__dict__, key=f"{base.key}@{wrapper}")
    return child


def requested(name: str, flag: str = "--attention-backend") -> Backend:
    """The backend that a user names (vLLM's names, upper case). Refused, naming ``flag``, for any other."""
    if name in SELECTABLE:
        return backend(name)
    if name.startswith(("ROCM_", "XPU_", "CPU_", "AMX_")) or name == "ULTRAQUANT":
        why = "is not for NVIDIA GPUs"
    else:
        why = _UNSELECTABLE.get(name, "is no attention backend of vLLM")
    raise Refused(f"{flag} {name[:60]} {why}; use {_alternatives(name)}, or leave it out to let vLLM choose.")


def _alternatives(name: str) -> str:
    """Names close to a wrong one; the common ones where none is."""
    from difflib import get_close_matches

    common = ["FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "FLASH_ATTN_MLA", "FLASHINFER_MLA", "TRITON_MLA"]
    names = get_close_matches(name, sorted(SELECTABLE), 3, 0.7) or common
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
