"""The differential tests need an installed vLLM; without one they are not collected."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("vllm") else ["test_backends_differential.py"]
