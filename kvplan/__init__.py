"""kvplan: what vLLM will do with its KV cache, exact and before the boot."""

__version__ = "0.1.0"
