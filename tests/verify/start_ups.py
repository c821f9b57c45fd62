"""Made-up start-ups: the lines that bear on the KV cache, in the wording of recent releases."""

from __future__ import annotations

from typing import Any

from kvplan.logs import LogReading, read_log

_HEAD = "(EngineCore pid=7) INFO 06-02 11:10:12 "


def start_up(
    version: str,
    model: str,
    *,
    length: int,
    gib: float | None = None,
    tokens: int | None = None,
    concurrency: str | None = None,
    blocks: int | None = None,
    further: tuple[str, ...] = (),
    engine: str = "",
    **options: Any,
) -> str:
    """A log. ``options``: what was asked for; ``engine``: what the engine line says beside the model and length."""
    asked = {"model": model, "max_model_len": length, **options}
    lines = [
        f"(APIServer pid=1) INFO 06-02 11:09:38 [api_server.py:1] vLLM API server version {version}",
        f"(APIServer pid=1) INFO 06-02 11:09:38 [utils.py:1] non-default args: {asked!r}",
        f"{_HEAD}[core.py:1] Initializing a V1 LLM engine (v{version}) with config: model={model!r}, "
        f"max_seq_len={length}, {engine}",
        *(f"{_HEAD}[x.py:1] {line}" for line in further),
    ]
    if gib is not None:
        lines.append(f"{_HEAD}[gpu_worker.py:1] Available KV cache memory: {gib} GiB")
    if blocks is not None:
        lines.append(f"{_HEAD}[core.py:1] vllm cache_config_info with initialization after num_gpu_blocks is: {blocks}")
    if tokens is not None:
        lines.append(f"{_HEAD}[kv_cache_utils.py:1] GPU KV cache size: {tokens:,} tokens")
    if concurrency is not None:
        lines.append(
            f"{_HEAD}[kv_cache_utils.py:1] Maximum concurrency for {length:,} tokens per request: {concurrency}x"
        )
    return "\n".join(lines) + "\n"


def read(text: str) -> LogReading:
    return read_log(text.encode().splitlines(keepends=True))


def attention_block(tokens: int, percent: str | None = None) -> tuple[str, ...]:
    """What a hybrid's start-up says of its block."""
    lines = [
        f"Setting attention block size to {tokens} tokens to ensure that attention page size is >= mamba page size."
    ]
    if percent is not None:
        lines.append(f"Padding mamba page size by {percent}% to ensure that the pages are exactly equal.")
    return tuple(lines)


def padding(layers: int, percent: str) -> str:
    return f"Add {layers} padding layers, may waste at most {percent}% KV cache memory"
