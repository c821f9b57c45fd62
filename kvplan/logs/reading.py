"""What one start-up log says, as frozen values."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.logs.values import Value

DOCUMENT_KEYS = (
    "version",
    "model",
    "drafter",
    "options",
    "attention_block_size",
    "mamba_padding_pct",
    "padding_layers",
    "weights_gib",
    "available_kv_cache_gib",
    "kv_cache_size_tokens",
    "max_concurrency",
    "max_model_len",
    "num_gpu_blocks",
    "layout",
)


class MemoryReading(NamedTuple):
    """The memory that a start-up reported, in GiB as printed (two decimals, four for weights up to 0.13.0).

    ``weights_gib`` and ``available_gib`` are (rank, GiB) pairs, "" for a rank without a tag. ``total_gib``,
    ``free_gib`` (free at start), ``requested_gib`` (total x utilization), ``activation_gib``, ``non_torch_gib`` and
    ``consumed_gib`` (weights and non-torch memory in one, from 0.27.0) come from the "Free memory on device" message
    (INFO in 0.10.2 and from 0.26.0, else DEBUG) or from the profiler's. ``cuda_graph_estimate_gib`` is what was
    kept back before the capture (0.18.0 on), ``cuda_graph_gib`` what the capture took. ``kv_cache_bytes`` is exact
    where a log has it: --kv-cache-memory-bytes, a startup plan, or "kv cache memory in use is N bytes".
    ``reduced_kv_cache_gib`` is what is left where frontend decoding of videos takes a part (0.25.0 on).
    """

    weights_gib: tuple[tuple[str, float], ...] = ()
    available_gib: tuple[tuple[str, float], ...] = ()
    kv_cache_bytes: int | None = None
    reduced_kv_cache_gib: float | None = None
    total_gib: float | None = None
    free_gib: float | None = None
    requested_gib: float | None = None
    gpu_memory_utilization: float | None = None
    consumed_gib: float | None = None
    non_torch_gib: float | None = None
    activation_gib: float | None = None
    cuda_graph_estimate_gib: float | None = None
    cuda_graph_gib: float | None = None


class Refusal(NamedTuple):
    """Why vLLM did not start for want of KV memory: its own numbers, None where the log is cut.

    From 0.29.0 on ``available_gib`` is what is left after the null block.
    """

    max_model_len: int | None
    needed_gib: float | None
    available_gib: float | None
    estimated_max_model_len: int | None


class LogReading(NamedTuple):
    """A start-up as read: the fields of ``document()`` first, None where the log has nothing.

    ``available_from`` says which message gave the KV memory: "available", "reserved" (--kv-cache-memory-bytes) or
    "refusal" (the error's number). ``padding`` pairs the padding layers with their percentage. ``engine`` is V1 or V0,
    ``model_runner`` V1 or V2 (by the file that reports the loading). ``platform`` is cuda, rocm, xpu or a plug-in's
    name, ``gpu`` the device name that a message holds, ``gpu_capability`` its compute capability (``8.9``).
    ``counted_engines`` is how many engines ``num_gpu_blocks`` counts, where the log says so. ``missing`` names the
    document's keys without a value; ``notes`` are sentences on how contradictory or repeated messages were read.
    """

    version: str | None = None
    model: str | None = None
    drafter: str | None = None
    options: dict[str, Value] | None = None
    attention_block_size: int | None = None
    mamba_padding_pct: float | None = None
    padding_layers: tuple[int, ...] = ()
    weights_gib: float | None = None
    available_kv_cache_gib: float | None = None
    kv_cache_size_tokens: int | None = None
    max_concurrency: float | None = None
    max_model_len: int | None = None
    num_gpu_blocks: int | None = None
    layout: str | None = None
    memory: MemoryReading = MemoryReading()
    available_from: str | None = None
    padding: tuple[tuple[int, float], ...] = ()
    refusal: Refusal | None = None
    failure: str | None = None
    engine: str | None = None
    model_runner: str | None = None
    architecture: str | None = None
    drafter_architecture: str | None = None
    attention_backend: str | None = None
    kv_cache_block_size: int | None = None
    max_num_scheduled_tokens: int | None = None
    arguments: dict[str, Value] | None = None
    engine_config: dict[str, Value] | None = None
    counted_engines: int = 1
    platform: str | None = None
    gpu: str | None = None
    gpu_capability: str | None = None
    startups: int = 0
    notes: tuple[str, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """The document's keys for which the log has no value, in the document's order."""
        return tuple(key for key, value in self.document().items() if value is None)

    def document(self) -> dict[str, Value]:
        """The ``read`` part of ``kvplan verify --format json``: exactly DOCUMENT_KEYS."""
        found: dict[str, Value] = {key: getattr(self, key) for key in DOCUMENT_KEYS}
        found["padding_layers"] = list(self.padding_layers)
        return found
