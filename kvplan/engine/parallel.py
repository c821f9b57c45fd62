"""Which parallel sizes go together, and with the model.

Source: vllm/config/parallel.py (`_validate_parallel_config`) and vllm/config/model.py (`verify_with_parallel_config`).
"""

from __future__ import annotations

from kvplan.engine.args import EngineArgs
from kvplan.engine.facts import num_attention_heads, num_experts, num_kv_heads
from kvplan.errors import Refused
from kvplan.hf.config import Config

_SIZES = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "decode_context_parallel_size",
    "prefill_context_parallel_size",
)


def check_sizes(args: EngineArgs) -> None:
    """Refused where the sizes contradict one another."""
    for name in _SIZES:
        value = getattr(args, name)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 4096:
            raise Refused(f"--{name.replace('_', '-')} {value!r} must be an integer between 1 and 4096.")
    tp, dcp, pcp = args.tensor_parallel_size, args.decode_context_parallel_size, args.prefill_context_parallel_size
    if pcp == 1 and tp % dcp:
        raise Refused(
            f"--decode-context-parallel-size {dcp} does not divide --tensor-parallel-size {tp}; use a divisor of it."
        )
    if pcp > 1 and dcp not in (1, pcp, tp * pcp):
        raise Refused(
            f"--decode-context-parallel-size {dcp} must be 1, {pcp} or {tp * pcp} with "
            f"--tensor-parallel-size {tp} and --prefill-context-parallel-size {pcp}."
        )


def check_model(
    root: Config,
    text: Config,
    flags: str,
    *,
    tensor_parallel_size: int,
    pipeline_parallel_size: int = 1,
    decode_context_parallel_size: int = 1,
    enable_expert_parallel: bool = False,
    use_mla: bool = False,
) -> None:
    """Refused where the model cannot be split over the ranks."""
    heads = num_attention_heads(text)
    if heads % tensor_parallel_size:
        raise Refused(
            f"{root.where}: {heads} attention heads cannot be split over --tensor-parallel-size "
            f"{tensor_parallel_size}; choose a size that divides them."
        )
    if enable_expert_parallel and not num_experts(text):
        raise Refused(f"--enable-expert-parallel: {root.where} has no experts; leave it out.")
    if pipeline_parallel_size > 1 and "p" in flags:
        raise Refused(f"--pipeline-parallel-size {pipeline_parallel_size}: vLLM cannot split this architecture; use 1.")
    if decode_context_parallel_size > 1 and not use_mla:
        _check_dcp(root, text, tensor_parallel_size, decode_context_parallel_size)


def _check_dcp(root: Config, text: Config, tp: int, dcp: int) -> None:
    kv_heads, heads = num_kv_heads(root, text), num_attention_heads(text)
    flag = f"--decode-context-parallel-size {dcp}"
    if tp <= kv_heads:
        raise Refused(f"{flag} needs more tensor-parallel ranks than {kv_heads} KV heads; {tp} are given.")
    if not kv_heads:
        raise Refused(f"{flag}: {root.where} has no KV heads.")
    if dcp > tp // kv_heads:
        raise Refused(f"{flag} is more than the {tp // kv_heads} ranks that share a KV head; use at most that.")
    if (heads // kv_heads) % dcp:
        raise Refused(f"{flag} does not divide the {heads // kv_heads} query heads per KV head; use a divisor of it.")
