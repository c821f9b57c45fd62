"""From flags to resolved options: vLLM's defaults and refusals, without its side effects."""
