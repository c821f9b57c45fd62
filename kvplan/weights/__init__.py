"""Bytes of the weights, per rank and pipeline stage, as vLLM 0.33.0 creates them."""
