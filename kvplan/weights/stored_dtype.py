"""The dtype of a checkpoint whose config names none: what its safetensors headers say.

Source: vllm/transformers_utils/model_arch_config_convertor.py (`get_torch_dtype`), vllm/transformers_utils/config.py
(`get_safetensors_params_metadata`) and vllm/utils/torch_utils.py (`common_broadcastable_dtype`, `is_lossless_cast`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from kvplan.sources import Source
from kvplan.sources.source import CACHE, HUB
from kvplan.weights.checkpoint import checkpoint_of, header

_OTHER_WEIGHTS = (".bin", ".pt", ".pth")


class _Kind(NamedTuple):
    level: int
    """0 for booleans, 1 for integers, 2 for numbers with a point, 4 for complex ones."""
    smallest: float
    largest: float
    resolution: float


_KINDS = {
    "BOOL": _Kind(0, 0, 1, 0),
    "U8": _Kind(1, 0, 2**8 - 1, 0),
    "U16": _Kind(1, 0, 2**16 - 1, 0),
    "U32": _Kind(1, 0, 2**32 - 1, 0),
    "U64": _Kind(1, 0, 2**64 - 1, 0),
    "I8": _Kind(1, -(2**7), 2**7 - 1, 0),
    "I16": _Kind(1, -(2**15), 2**15 - 1, 0),
    "I32": _Kind(1, -(2**31), 2**31 - 1, 0),
    "I64": _Kind(1, -(2**63), 2**63 - 1, 0),
    "F8_E4M3": _Kind(2, -448.0, 448.0, 1.0),
    "F8_E5M2": _Kind(2, -57344.0, 57344.0, 1.0),
    "F16": _Kind(2, -65504.0, 65504.0, 1e-3),
    "BF16": _Kind(2, -3.3895e38, 3.3895e38, 1e-2),
    "F32": _Kind(2, -3.4028e38, 3.4028e38, 1e-6),
    "F64": _Kind(2, -1.79e308, 1.79e308, 1e-15),
    "C64": _Kind(4, 0, 0, 0),
}
"""The dtypes that vLLM counts; the others of the format it passes over."""
_NAMES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32"}


def stored_dtypes(source: Source) -> tuple[str, ...]:
    """The dtype that vLLM takes from the checkpoint's tensors; several where it takes either; none where unknown.

    A checkpoint without safetensors counts as float32. KvplanError for files that are there and are no safetensors.
    """
    if source.source == HUB:
        checkpoint = checkpoint_of(source)
        return () if checkpoint is None else common(entry.dtype for entry in checkpoint.entries.values())
    if source.folder is None or (source.source == CACHE and not _complete(source)):
        return ()
    try:
        names = sorted(os.listdir(source.folder))
    except OSError:
        return ()
    files = [os.path.join(source.folder, name) for name in names if name.endswith(".safetensors")]
    found = {entry.dtype for file in files if os.path.isfile(file) for entry in header(file).values()}
    if found & _KINDS.keys():
        return common(found)
    return ("float32",) if found or any(name.endswith(_OTHER_WEIGHTS) for name in names) else ()


def _complete(source: Source) -> bool:
    """Whether the cached files are the whole checkpoint: vLLM asks the hub for the headers of all of them."""
    checkpoint = checkpoint_of(source)
    return checkpoint is not None and bool(checkpoint.entries)


def common(dtypes: Iterable[str]) -> tuple[str, ...]:
    """The dtype that most of the others can be cast to without loss; several where that is a draw."""
    found = sorted(set(dtypes) & _KINDS.keys())
    counts = {target: sum(_lossless(_KINDS[each], _KINDS[target]) for each in found) for target in found}
    most = max(counts.values(), default=0)
    return tuple(_NAMES.get(dtype, dtype) for dtype, count in counts.items() if count == most)


def _lossless(source: _Kind, target: _Kind) -> bool:
    if source.level != target.level:
        return source.level < target.level
    within = source.smallest >= target.smallest and source.largest <= target.largest
    return within and source.resolution >= target.resolution
