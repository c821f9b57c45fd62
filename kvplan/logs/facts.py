"""The sentences of a vLLM start-up that kvplan reads, and the numbers in them.

One row a sentence: the words that must stand in a line before any pattern is tried, the name of the fact, and the
sentence with its numbers as {int}, {dec}, {word} or {rest}. Blanks match any white space or none, since a terminal that
wraps hard may drop them. Wording by release (vllm/v1/core/kv_cache_utils.py, v1/worker/gpu_worker.py,
platforms/interface.py, v1/attention/):

- tokens and concurrency are two messages up to 0.27.1 and one from 0.28.0; the device is named from 0.30.0;
- "Available KV cache memory" is new in 0.9.1; two decimals always up to 0.13.0, trailing zeros dropped from 0.14.0;
- "reserved 4.25GiB memory for KV Cache" has no blank before GiB up to 0.11.0;
- "Model loading took 5.2 GiB" is followed by "memory" from 0.11.1 on, on the V2 runner from 0.28.0;
- the number of blocks is printed at INFO up to 0.11.0, later only at DEBUG or with several API servers;
- the layout is HND or NHD up to 0.28.0, one of the six axis orders from 0.29.0;
- the split of memory ("Actual usage is") is INFO in 0.10.2, DEBUG up to 0.25.1, INFO from 0.26.0 on; from 0.27.0 on
  weights and non-torch memory are one number.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import compress
from operator import itemgetter
from typing import NamedTuple

from kvplan.logs.lines import Record, Row, Rows

_LONG = 2000
_INT = r"([0-9][0-9,]{0,24})"
_DEC = r"(-?[0-9][0-9,]{0,15}(?:\.[0-9]{1,12})?)"
_WORD = r"['\"]?([A-Za-z][\w.]{0,60})['\"]?"

SENTENCES: tuple[tuple[str, str, str], ...] = (
    ("KV cache size:", "tokens", "KV cache size: {int} tokens"),
    ("Maximum concurrency for", "concurrency", "Maximum concurrency for {int} tokens per request: {dec}x"),
    ("Maximum concurrency for", "request_length", "Maximum concurrency for {int} tokens"),
    ("KV cache memory", "available", "Available KV cache memory: {dec} GiB"),
    ("memory for KV Cache", "initial_free", "Initial free memory {dec} GiB, reserved"),
    ("memory for KV Cache", "reserved", "reserved {dec} GiB memory for KV Cache"),
    ("KV cache memory", "reduced", "KV cache memory reduced to {dec} GiB"),
    ("kv_cache_memory_bytes=", "kv_bytes", "startup plan.{0,80}kv_cache_memory_bytes={int}"),
    ("Model loading took", "weights", "Model loading took {dec} GiB"),
    ("num_gpu_blocks", "blocks", "num_gpu_blocks is: {int}"),
    ("num_gpu_blocks", "override", "Overriding num_gpu_blocks={int} with num_gpu_blocks_override={int}"),
    ("padding layers", "padding", "Add {int} padding layers, may waste at most {dec}%"),
    ("block size to", "attention_block_size", "Setting attention block size to {int} tokens"),
    ("mamba page size", "mamba_padding", "Padding mamba page size by {dec}%"),
    ("Hybrid KV cache manager is disabled", "no_hybrid_manager", "Hybrid KV cache manager is disabled for this"),
    ("block size to", "kv_cache_block_size", "(?:Setting|Forcing) kv cache block size to {int} for"),
    ("KV cache layout", "layout", "Using (?:FlashInfer backend with )?([A-Z]{3,5}) KV cache layout"),
    ("KV cache layout", "layout", "Using (?:default )?KV cache layout ([A-Z]{3,5})"),
    ("KV cache layout", "layout", "[Ss]etting KV cache layout to ([A-Z]{3,5})"),
    ("To serve at least", "needed", "max seq len \\({int}\\), \\({dec} GiB KV cache is needed"),
    ("To serve at least", "refused_length", "model'?s?'?s? max seq len \\({int}\\)"),
    ("To serve at least", "refused_available", "available KV cache memory \\({dec} GiB\\)"),
    ("To serve at least", "estimated_length", "estimated maximum model length is {int}\\."),
    ("No available memory for the cache", "no_memory", "No available memory for the cache blocks"),
    ("on startup is less than", "too_little_free", "on startup is less than (?:the engine's|desired)"),
    ("OutOfMemoryError", "out_of_memory", "OutOfMemoryError"),
    ("CUDA out of memory", "out_of_memory", "CUDA out of memory"),
    ("failed", "failed", "EngineCore failed to start"),
    ("failed", "failed", "ngine core initialization failed"),
    ("Using max model len", "max_model_len", "Using max model len {int}"),
    ("Auto-fit max_model_len", "fitted", "Auto-fit max_model_len: reduced from {int} to {int} to fit"),
    ("server version", "version", "(?:API|LM|gRPC) server version v?(\\w[\\w.+-]{1,80})"),
    ("server version", "banner_model", "server version \\S+, serving model (\\S{1,400})"),
    ("▀", "version", "█ version v?([0-9][\\w.+-]{2,80})"),
    ("▀", "banner_model", "█ model ([^\"\\s][^\"\\n]{0,400})"),
    ("LLM engine (v", "engine", "Initializing a (V[01]) LLM engine \\(v(\\w[\\w.+-]{0,80})\\) with config: {rest}"),
    ("non-default args", "arguments", "non-default args: {rest}"),
    ("Starting to load model", "loading", "Starting to load model (\\S{1,400}?)\\.\\.\\."),
    ("Resolved architecture", "architecture", "Resolved architecture: {word}"),
    ("Chunked prefill is enabled", "batched_tokens", "Chunked prefill is enabled with max_num_batched_tokens={int}"),
    ("Asynchronous scheduling", "async_scheduling", "Asynchronous scheduling is (enabled|disabled)"),
    ("Async scheduling", "no_async_scheduling", "Async scheduling (?:[^.]{0,160}? and )?(?:will be|is) disabled"),
    ("Mamba cache mode is set", "mamba_cache_mode", "Mamba cache mode is set to '(\\w{1,20})'"),
    ("falling back to 'align' mode", "mamba_cache_mode", "falling back to '(align)' mode"),
    ("mamba_ssm_cache_dtype to", "mamba_ssm_cache_dtype", "mamba_ssm_cache_dtype to '(\\w{1,20})'"),
    ("prefix caching", "no_prefix_caching", "support for prefix caching: disabling"),
    ("prefix caching", "no_prefix_caching", "model detected: disabling prefix caching"),
    ("data type to store kv cache", "kv_cache_dtype", "Using (\\w{1,30}) data type to store kv cache"),
    ("max_num_scheduled_tokens is set", "scheduled_tokens", "max_num_scheduled_tokens is set to {int} based"),
    ("ttention backend", "attention_backend", "Using {word} attention backend out of"),
    ("AttentionBackendEnum.", "attention_backend", "Using AttentionBackendEnum\\.(\\w{1,60}) backend"),
    ("ttention backend", "attention_backend", "Using ([\\w/\\x20]{3,40}?) [Aa]ttention backend(?: on V1 engine)?\\."),
    ("device_name=", "gpu", "device_name=(\\w[\\w-]{1,80})"),
    ("apability ", "gpu_capability", "(?:[Dd]evice capability|CUDA compute capability|with compute capability) "
     "([0-9]{1,2}\\.[0-9])"),
    ("detected platform", "platform", "Automatically detected platform {word}"),
    ("Platform plugin", "platform", "Platform plugin {word} is activated"),
    ("[rocm.py:", "platform", "\\[(rocm)\\.py:"),
    ("[xpu.py:", "platform", "\\[(xpu)\\.py:"),
    ("CUDA graph ", "graph_estimate", "Estimated CUDA graph memory: {dec} GiB"),
    ("CUDA graph ", "graph", "CUDA graph pool memory: {dec} GiB \\(actual\\)"),
    ("Graph capturing finished", "graph", "Graph capturing finished in [0-9]+ secs, took {dec} GiB"),
    ("Free memory on device", "free_total", "Free memory on device \\({dec}/{dec} GiB\\) on startup"),
    ("Free memory on device", "requested", "memory utilization is \\({dec}, {dec} GiB\\)"),
    ("Free memory on device", "actual", "Actual usage is {dec} GiB for weight, {dec} GiB for peak activation, "
     "{dec} GiB for non-torch memory, and {dec} GiB for CUDAGraph memory"),
    ("Free memory on device", "consumed", "Actual usage is {dec} GiB for consumed memory .{0,40}?, "
     "{dec} GiB for peak activation, and {dec} GiB for CUDAGraph memory"),
    ("Free memory on device", "kv_bytes", "kv cache memory in use is {int} bytes"),
    (" takes ", "profiled", "non KV cache memory: {dec} GiB; torch peak memory increase: {dec} GiB; "
     "(?:non-torch forward increase memory|total consumed \\(from mem_get_info\\)): {dec} GiB"),
    (" takes ", "profiled_v0", "weights take {dec} GiB; non_torch_memory takes {dec} GiB; "
     "PyTorch activation peak memory takes {dec} GiB"),
    ("CUDA graph ", "utilization", "current --gpu-memory-utilization={dec} is equivalent"),
    ("CUDA graph ", "utilization", "--gpu-memory-utilization from {dec} to"),
)  # fmt: skip


class Fact(NamedTuple):
    """A sentence found: its name and the texts of its numbers and words."""

    name: str
    values: tuple[str, ...]


def wanted(text: str) -> Rows:
    """The rows whose words stand in the text. Substrings only: this runs on every line of a log."""
    if " throughput: " in text or " HTTP/1." in text:  # what a running server prints all day
        return []
    if len(text) > _LONG and "\r" not in text[:-2]:  # an engine line: its words stand at the start
        text = text[:_LONG]
    words, rows = _table()
    return list(compress(rows, map(text.__contains__, words)))


def wanted_without_blanks(text: str) -> Rows:
    """The same for a text whose blanks were taken out."""
    return list(compress(_table()[1], map(text.__contains__, _bare_words())))


def facts_of(record: Record) -> list[Fact]:
    """The facts in a record, in the order of the text."""
    text = record.text
    joined = text.replace("\n", "") if "\n" in text else text
    found: list[tuple[int, Fact]] = []
    for row in record.rows:
        for name, pattern in row.patterns:
            whole = name in ("arguments", "engine")
            matches = list(pattern.finditer(joined if whole else text))
            if not matches and joined is not text and not whole:
                matches = list(pattern.finditer(joined))
            found += [(match.start(), Fact(name, match.groups())) for match in matches]
    if len(found) > 1:
        found.sort(key=itemgetter(0))
    return [fact for _, fact in found]


@lru_cache(1)
def _table() -> tuple[tuple[str, ...], Rows]:
    """The words to look for, and the row of each."""
    patterns: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for words, name, sentence in SENTENCES:
        patterns.setdefault(words, []).append((name, re.compile(_regex(sentence), re.DOTALL)))
    return tuple(patterns), [Row(words, tuple(found)) for words, found in patterns.items()]


@lru_cache(1)
def _bare_words() -> tuple[str, ...]:
    return tuple(words.replace(" ", "") for words in _table()[0])


def _regex(sentence: str) -> str:
    pattern = sentence.replace(" ", r"\s*")
    for mark, number in {"{int}": _INT, "{dec}": _DEC, "{word}": _WORD, "{rest}": "(.*)"}.items():
        pattern = pattern.replace(mark, number)
    return pattern


def integer(text: str) -> int:
    """``375,968`` is 375968; the patterns have bounded the digits."""
    return int(text.replace(",", ""))


def decimal(text: str) -> float:
    """``1,024.5`` is 1024.5."""
    return float(text.replace(",", ""))
