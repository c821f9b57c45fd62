"""What a checkpoint's files say of its weights, without reading any: safetensors headers, the index, a recorded total.

A safetensors file begins with eight bytes, the length of its header (little-endian), and the header: a JSON object of
tensors with ``dtype``, ``shape`` and ``data_offsets``. On the hub only these bytes are read, by range.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any, NamedTuple

from kvplan.errors import KvplanError
from kvplan.files import open_read
from kvplan.sources import Source
from kvplan.sources.source import HUB

INDEX = "model.safetensors.index.json"
_LARGEST_HEADER = 100_000_000
"""The bound of the format's own library."""
_LARGEST_TOTAL = 2**60
_BITS = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
    "F4": 4,
}

_PLAIN = ("F16", "BF16", "F32")
_CACHE_SCALES = (".q_scale", ".k_scale", ".v_scale", ".prob_scale")
_LAYERS = {"auto_awq": "modules_to_not_convert", "auto_gptq": "modules_in_block_to_quantize"}


class Entry(NamedTuple):
    """A tensor of a checkpoint."""

    dtype: str
    """As safetensors has it: BF16, F8_E4M3, U8."""
    shape: tuple[int, ...]
    bytes: int


class Checkpoint(NamedTuple):
    """All tensors of a checkpoint."""

    total_bytes: int
    where: str
    """What says so."""
    entries: Mapping[str, Entry] = {}
    """By name; empty where only the total is known."""


def checkpoint_of(source: Source) -> Checkpoint | None:
    """What the model's files say; None where none of them lies here and none is recorded.

    KvplanError for files that are there and are no safetensors.
    """
    if source.folder is not None:
        found = _local(source.folder)
        if found is not None:
            return found
    recorded = source.facts.get("tensor_bytes")
    if isinstance(recorded, int) and recorded > 0:
        return Checkpoint(recorded, "the recorded size of the checkpoint")
    return _on_hub(source.id) if source.source == HUB else None


def with_layers(
    method: str | None, settings: Mapping[str, Any] | None, checkpoint: Checkpoint
) -> Mapping[str, Any] | None:
    """AWQ's and GPTQ's settings with the layers that the checkpoint has quantised, where they do not name them.

    (`maybe_update_config` of auto_awq.py and auto_gptq.py, which read the same headers.)
    """
    key = _LAYERS.get(method or "")
    if settings is None or key is None or settings.get(key) or not checkpoint.entries:
        return settings
    every = {name.rpartition(".")[0] for name in checkpoint.entries}
    packed = {name.rpartition(".")[0] for name, e in checkpoint.entries.items() if e.dtype not in _PLAIN}
    return {**settings, key: sorted(packed if method == "auto_gptq" else every - packed)}


def loaded_bytes(method: str | None, checkpoint: Checkpoint) -> int:
    """Bytes of the checkpoint without those that vLLM keeps in another form, or not at all.

    These are scales of the KV cache, which each attention layer has with or without them (`BaseKVCacheMethod`), and the
    order of inputs that GPTQ writes and vLLM reads with desc_act alone.
    """
    other = (*_CACHE_SCALES, ".g_idx") if method == "auto_gptq" else _CACHE_SCALES
    return checkpoint.total_bytes - sum(e.bytes for name, e in checkpoint.entries.items() if name.endswith(other))


def _local(folder: str) -> Checkpoint | None:
    path = os.path.join(folder, INDEX)
    index = None
    if os.path.isfile(path):
        from kvplan.sources.jsonfile import read_object

        index = read_object(path)
    files = _files(folder, index)
    if files and all(os.path.isfile(os.path.join(folder, name)) for name in files):
        entries: dict[str, Entry] = {}
        for name in files:
            entries.update(header(os.path.join(folder, name)))
        return Checkpoint(sum(entry.bytes for entry in entries.values()), "the safetensors headers", entries)
    total = (index or {}).get("metadata")
    size = total.get("total_size") if isinstance(total, Mapping) else None
    if not isinstance(size, (int, float)) or isinstance(size, bool) or not 0 < size < _LARGEST_TOTAL:
        return None
    return Checkpoint(int(size), INDEX)


def _files(folder: str, index: Mapping[str, Any] | None) -> list[str]:
    """The names of the files that hold the weights: the index's, else all but a second copy in Mistral's format."""
    mapped = (index or {}).get("weight_map")
    if isinstance(mapped, Mapping):
        names = {name for name in mapped.values() if isinstance(name, str) and os.path.basename(name) == name}
        return sorted(names)
    names = {name for name in _listed(folder) if name.endswith(".safetensors")}
    return sorted({name for name in names if not name.startswith("consolidated")} or names)


def _listed(folder: str) -> Iterable[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return ()


def header(path: str) -> dict[str, Entry]:
    """The tensors of one safetensors file. KvplanError, in one sentence, where it is none."""
    from kvplan.sources.jsonfile import parse_object

    try:
        with open_read(path) as file:
            start = file.read(8)
            length = int.from_bytes(start, "little")
            if len(start) < 8 or not 2 <= length <= _LARGEST_HEADER:
                raise KvplanError(f"{path}: its first eight bytes are no length of a safetensors header.")
            data = file.read(length)
            size = file.seek(0, 2) - 8 - length
    except OSError as error:
        raise KvplanError(f"{path}: cannot be read ({(error.strerror or str(error)).lower()}).") from None
    if size < 0:
        raise KvplanError(f"{path}: ends inside its header; the download is not complete.")
    found = parse_object(data, path, _LARGEST_HEADER)
    found.pop("__metadata__", None)
    entries = {name: _entry(path, name, value) for name, value in found.items()}
    taken = sum(entry.bytes for entry in entries.values())
    if taken != size:
        raise KvplanError(f"{path}: its header names {taken} bytes of tensors, but {size} follow; it is not complete.")
    _check_places(path, [(_place(path, name, found[name]), name, entry) for name, entry in entries.items()])
    return entries


def _place(path: str, name: str, value: Mapping[str, Any]) -> tuple[int, int]:
    """Where a tensor begins and ends among the file's data."""
    place = value.get("data_offsets")
    if isinstance(place, list) and len(place) == 2 and all(type(x) is int for x in place):
        return place[0], place[1]
    raise KvplanError(f"{path}: the header's entry {name[:100]!r} must have two whole numbers as data_offsets.")


def _check_places(path: str, places: list[tuple[tuple[int, int], str, Entry]]) -> None:
    """Each tensor follows the one before and is as long as its shape says, as the format wants it."""
    last = 0
    for (start, end), name, entry in sorted(places, key=lambda each: each[0]):
        if start != last or end - start != entry.bytes:
            raise KvplanError(
                f"{path}: the header's entry {name[:100]!r} lies at {start} to {end}, where {entry.bytes} bytes at "
                f"{last} are expected; it is no safetensors file."
            )
        last = end


def _entry(path: str, name: str, value: Any) -> Entry:
    dtype = value.get("dtype") if isinstance(value, Mapping) else None
    shape = value.get("shape") if isinstance(value, Mapping) else None
    bits = _BITS.get(dtype) if isinstance(dtype, str) else None
    sizes = shape if isinstance(shape, list) and all(type(x) is int and 0 <= x < 2**48 for x in shape) else None
    if bits is None or sizes is None or len(sizes) > 16:
        raise KvplanError(f"{path}: the header's entry {name[:100]!r} is no tensor that kvplan knows.")
    elements = prod(sizes)
    if elements > _LARGEST_TOTAL:
        raise KvplanError(f"{path}: the header's entry {name[:100]!r} is larger than any tensor.")
    return Entry(str(dtype), tuple(sizes), -(-elements * bits // 8))


def _on_hub(name: str) -> Checkpoint | None:
    """The headers of a repository, read by range; None where it has none or cannot be reached."""
    try:
        from huggingface_hub import get_safetensors_metadata

        files = get_safetensors_metadata(name).files_metadata.values()
    except Exception:  # huggingface_hub raises its own, httpx's and the system's errors
        return None
    entries = {
        tensor: _entry(name, tensor, {"dtype": info.dtype, "shape": list(info.shape)})
        for file in files
        for tensor, info in file.tensors.items()
    }
    return Checkpoint(sum(entry.bytes for entry in entries.values()), "the safetensors headers", entries)
