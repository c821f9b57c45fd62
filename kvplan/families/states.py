"""Shapes and dtypes of recurrent states per rank (vllm/model_executor/layers/mamba/mamba_utils.py).

Each function returns (shapes, dtypes) in vLLM's axis order. A convolution state has one more column per drafted token,
so a drafter widens it.
"""

from __future__ import annotations

from kvplan.errors import Refused
from kvplan.layers import StateLayer, Why
from kvplan.model import Model

Shapes = tuple[tuple[int, ...], ...]
Dtypes = tuple[str, ...]

_FLASHKDA_CHECKPOINT_ALIGNMENT = 16


def divide(model: Model, value: int, what: str) -> int:
    """``value`` per tensor-parallel rank; refused where it does not divide."""
    tp = model.tensor_parallel_size
    if value % tp:
        raise Refused(
            f"{model.root.where}: {what} ({value}) cannot be split over --tensor-parallel-size {tp}; "
            "choose a size that divides it."
        )
    return value // tp


def oriented(model: Model, dim: int, state_len: int) -> tuple[int, int]:
    """A convolution state's shape: (length, channels), or the reverse under VLLM_SSM_CONV_STATE_LAYOUT=DS."""
    if model.engine.args.env.get("VLLM_SSM_CONV_STATE_LAYOUT") == "DS":
        return (dim, state_len)
    return (state_len, dim)


def cache_dtype(model: Model, option: str) -> str:
    """A mamba cache dtype option as an element type: ``auto`` is the model dtype."""
    return model.dtype if option == "auto" else option


def conv_and_ssm_dtypes(model: Model) -> Dtypes:
    """--mamba-cache-dtype for the convolution; --mamba-ssm-cache-dtype, or the same, for the recurrent state."""
    conv = cache_dtype(model, model.engine.mamba_cache_dtype)
    ssm = model.engine.mamba_ssm_cache_dtype
    return (conv, conv if ssm == "auto" else ssm)


def gated_delta_net(
    model: Model, *, num_k_heads: int, num_v_heads: int, head_k_dim: int, head_v_dim: int, conv_kernel: int
) -> tuple[Shapes, Dtypes]:
    """Gated delta net: a convolution over q, k and v, and one head_v x head_k matrix per value head."""
    conv_dim = 2 * num_k_heads * head_k_dim + num_v_heads * head_v_dim
    length = conv_kernel - 1 + model.engine.num_speculative_tokens
    conv = oriented(model, divide(model, conv_dim, "the convolution's channels"), length)
    recurrent = (divide(model, num_v_heads, "linear_num_value_heads"), head_v_dim, head_k_dim)
    return (conv, recurrent), conv_and_ssm_dtypes(model)


def kda_dtypes(model: Model) -> Dtypes:
    """Convolution and recurrent state of Kimi delta attention: the latter is float32 unless the user sets it."""
    ssm = model.engine.mamba_ssm_cache_dtype
    if ssm not in ("auto", "float32", "bfloat16"):
        raise Refused(f"--mamba-ssm-cache-dtype {ssm}: Kimi delta attention takes float32 or bfloat16 only.")
    return (cache_dtype(model, model.engine.mamba_cache_dtype), "float32" if ssm == "auto" else ssm)


def kda(model: Model, *, num_heads: int, head_dim: int, conv_kernel: int) -> tuple[Shapes, Dtypes]:
    """Kimi delta attention: a convolution over q, k and v, and one head_dim x head_dim matrix per head."""
    heads = divide(model, num_heads, "the number of linear attention heads")
    length = conv_kernel - 1 + model.engine.num_speculative_tokens
    conv = oriented(model, 3 * heads * head_dim, length)
    return (conv, (heads, head_dim, head_dim)), kda_dtypes(model)


def kda_prefill_alignment(
    model: Model, head_dim: int, *, bounded_gate: bool, takes_flashinfer: bool = False
) -> int | None:
    """Token alignment of the prefill checkpoints that FlashKDA exports; None where another kernel prefills.

    ``takes_flashinfer``: the class also knows FlashInfer's kernel, which no default chooses.
    (vllm/model_executor/layers/mamba/kda_checkpoint.py, and `resolve_kda_prefill_backend` of the models.)
    """
    engine = model.engine
    requested = engine.args.additional_flags.get("kda_prefill_backend") or "auto"
    fits = head_dim == 128 and model.dtype == "bfloat16" and bounded_gate
    supported = fits and engine.gpu.capability[0] in (9, 10, 12)
    if requested not in ("auto", "triton", "flashkda", *(("flashinfer",) if takes_flashinfer else ())):
        raise Refused(f"--kda-prefill-backend {requested!r} is not one that {model.architecture} takes; use auto.")
    if requested == "flashkda" and not supported:
        raise Refused(
            "--kda-prefill-backend flashkda needs compute capability 9.x, 10.x or 12.x, bfloat16, heads of 128 and a "
            "bounded gate; use auto."
        )
    if requested == "flashinfer" and not (
        fits and engine.gpu.capability in ((10, 0), (10, 3)) and engine.mamba_ssm_cache_dtype == "bfloat16"
    ):
        raise Refused(
            "--kda-prefill-backend flashinfer needs compute capability 10.0 or 10.3, bfloat16, "
            "--mamba-ssm-cache-dtype bfloat16, heads of 128 and a bounded gate; use auto."
        )
    return _FLASHKDA_CHECKPOINT_ALIGNMENT if supported and requested in ("auto", "flashkda") else None


def mamba1(model: Model, *, intermediate_size: int, state_size: int, conv_kernel: int) -> tuple[Shapes, Dtypes]:
    """Mamba-1: a convolution and one state per channel. It does not draft, so the convolution keeps its length."""
    channels = divide(model, intermediate_size, "the state's channels")
    return (oriented(model, channels, conv_kernel - 1), (channels, state_size)), conv_and_ssm_dtypes(model)


def mamba2(
    model: Model,
    *,
    intermediate_size: int,
    num_groups: int,
    num_heads: int,
    head_dim: int,
    state_size: int,
    conv_kernel: int,
) -> tuple[Shapes, Dtypes]:
    """Mamba-2: a convolution over x, B and C, and one head_dim x state_size matrix per head.

    Where there are fewer groups than ranks, one group is repeated on each.
    """
    tp = model.tensor_parallel_size
    heads = divide(model, num_heads, "the number of Mamba heads")
    if num_groups % tp:
        if num_groups != 1:
            raise Refused(
                f"{model.root.where}: {num_groups} Mamba groups cannot be split over --tensor-parallel-size {tp}; "
                "choose a size that divides them."
            )
        num_groups = tp
    conv_dim = intermediate_size + 2 * num_groups * state_size
    length = conv_kernel - 1 + model.engine.num_speculative_tokens
    conv = oriented(model, divide(model, conv_dim, "the convolution's channels"), length)
    return (conv, (heads, head_dim, state_size)), conv_and_ssm_dtypes(model)


def short_conv(model: Model, *, channels: int, conv_kernel: int) -> tuple[Shapes, Dtypes]:
    """A short convolution alone."""
    length = conv_kernel - 1 + model.engine.num_speculative_tokens
    shape = oriented(model, divide(model, channels, "the convolution's channels"), length)
    return (shape,), (cache_dtype(model, model.engine.mamba_cache_dtype),)


def mamba2_layer(model: Model, name: str, why: Why, **sizes: int) -> StateLayer:
    """A layer of vLLM's MambaMixer2, which exports prefill checkpoints at any token."""
    shapes, dtypes = mamba2(model, **sizes)
    return StateLayer(name, "mamba2", shapes, dtypes, why, "MAMBA2_ATTN", prefill_checkpoint_alignment=1)


def mamba1_layer(model: Model, name: str, why: Why, **sizes: int) -> StateLayer:
    """A layer of vLLM's MambaMixer."""
    shapes, dtypes = mamba1(model, **sizes)
    return StateLayer(name, "mamba1", shapes, dtypes, why, "MAMBA1_ATTN")
