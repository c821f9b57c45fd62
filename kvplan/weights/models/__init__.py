"""One file per group of model classes: which layers hold weights, under vLLM's names."""
