"""What DeepSeek-V4 and V4.1 share: windows of latents, compressed latents, and the indexer's keys beside them.

vLLM: models/deepseek_v4/attention.py and models/deepseek_v41/attention.py (DeepseekV4Attention in both),
v1/attention/backends/mla/sparse_swa.py (DeepseekV4SWACache). Latents are the same on every rank.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kvplan.errors import Refused
from kvplan.hf import Config
from kvplan.layers import CustomLayer
from kvplan.model import TARGET, Model
from kvplan.spec import SLIDING_WINDOW_MLA, AttentionSpec

if TYPE_CHECKING:
    from kvplan.blocks import BlockSizes

PLAIN_PAGE = 512
_MAX_HEADS = 128
_MAJORS = (9, 10, 12)
_WINDOW = ("sliding_window", "v1/attention/backends/mla/sparse_swa.py, DeepseekV4SWACache")
_QUANT_MODES = {"nvfp4_ds_mla": "nvfp4_ds_mla", "auto": "none", "bfloat16": "none"}


class Latents(NamedTuple):
    """How a model stores its latents on its backend. Sizes are bytes; None: as the element type has it."""

    backend: str
    dtype_name: str
    """The KV cache dtype that the layers' class makes of the deployment's."""
    element: str
    page: int = PLAIN_PAGE
    """Pages of all caches beside the latents are padded to a multiple of it."""
    window_row: int | None = None
    """A packed latent of the window."""
    compressed_row: int | None = None
    """A packed compressed latent."""
    window_stride: int | None = None
    """What the stride between blocks must be a multiple of where the windows lie in them."""

    @property
    def quant_mode(self) -> str:
        return _QUANT_MODES.get(self.dtype_name, "fp8_per_tensor")


def plain(backend: str, dtype_name: str) -> Latents:
    """Latents in rows of their element type: bf16, or fp8 with one scale per tensor."""
    return Latents(backend, dtype_name, "float8_e4m3fn" if dtype_name.startswith("fp8") else "bfloat16")


def unstored(model: Model, backend: str, name: str) -> Refused:
    """The refusal of a KV cache dtype that the backend's kernels do not read."""
    flag = "--kv-cache-dtype" if model.owner == TARGET else "--speculative-config kv_cache_dtype"
    return Refused(
        f"{flag} {name} is not one that {backend} stores for {model.architecture} on {model.engine.gpu.name}; "
        "use fp8 or auto."
    )


def drafter_latents(model: Model, latents: Callable[[Model], Latents]) -> Latents:
    """The storage of a drafter's latents. Refused where it has another backend than the target.

    vLLM writes the format of each layer it builds into the run's cache config, and the target's caches would follow.
    """
    stored = latents(model)
    if model.target is not None and latents(model.target).backend != stored.backend:
        raise Refused(
            f"--speculative-config attention_backend: {stored.backend} is not the target's backend, and kvplan does "
            "not judge two formats of latents in one run; leave it out."
        )
    return stored


def latent_spec(stored: Latents, size: int, row: int | None, block_size: int, **fields: Any) -> AttentionSpec:
    """One latent of ``size`` elements, or ``row`` bytes, per state."""
    return AttentionSpec(
        block_size=block_size,
        num_kv_heads=1,
        head_size=size,
        head_size_v=0,
        dtype=stored.element,
        cache_dtype_str=stored.dtype_name,
        kv_quant_mode=stored.quant_mode,
        state_content_bytes=row,
        alignment=stored.page,
        model_version="deepseek_v4",
        **fields,
    )


def window_cache(config: Config, stored: Latents, block_size: int, *, bounded_replay: bool = False) -> CustomLayer:
    """The latents of the window, in blocks of their own size."""
    size, window = config.integer("head_dim"), config.integer("sliding_window")

    def make_spec(sizes: BlockSizes) -> AttentionSpec:
        return latent_spec(
            stored,
            size,
            stored.window_row,
            block_size,
            kind=SLIDING_WINDOW_MLA,
            sliding_window=window,
            max_tp_shards=1,
            bounded_replay=bounded_replay,
            block_stride_alignment=stored.window_stride,
        )

    return CustomLayer("", "DEEPSEEK_SPARSE_SWA", make_spec, _WINDOW)


def indexer_row(model: Model) -> int:
    """Bytes of one key of the indexer: fp8 with a float scale per 128 elements, or MXFP4 where the flag says so.

    (`dsa_indexer_uses_fp4` of v1/attention/backends/mla/indexer.py.)
    """
    size = model.config.integer("index_head_dim")
    flag = (model.engine.args.attention_config or {}).get("indexer_kv_dtype") or "auto"
    if flag in ("auto", "fp8"):
        return size + size // 128 * 4
    if flag == "mxfp4" and model.engine.gpu.capability[0] == 10:
        return size // 2 + size // 32
    raise Refused(
        f"--attention-config indexer_kv_dtype {flag!r} is not one that DeepSeek's indexer takes on "
        f"{model.engine.gpu.name}; use fp8, or mxfp4 on compute capability 10.x."
    )


def check_heads(model: Model) -> int:
    """Query heads on a rank. Refused where vLLM's kernels do not take them."""
    config, tp, gpu = model.config, model.tensor_parallel_size, model.engine.gpu
    if gpu.capability[0] not in _MAJORS:
        raise Refused(
            f"{gpu.name} has compute capability {gpu.capability[0]}.{gpu.capability[1]}, and the sparse kernels of "
            f"{model.architecture} run on 9.x, 10.x and 12.x only; choose another GPU."
        )
    heads = model.heads_per_rank(config.integer("num_attention_heads"))
    if heads > _MAX_HEADS:
        raise Refused(
            f"{config.where}: {heads} attention heads on a rank are more than the {_MAX_HEADS} that vLLM's kernels "
            "take; raise --tensor-parallel-size."
        )
    if config.integer("o_groups") % tp:
        raise Refused(
            f"{config.where}: o_groups ({config.integer('o_groups')}) cannot be split over --tensor-parallel-size "
            f"{tp}; choose a size that divides it."
        )
    return heads


def check_size(config: Config, key: str, size: int) -> None:
    """KvplanError where a head size is not the one that vLLM's compressor kernels take."""
    if config.integer(key) != size:
        raise config.error(key, f"must be {size}, which vLLM's compressor kernels take, got {config.integer(key)}")
