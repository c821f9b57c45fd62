"""What vLLM refuses as it builds a quantised model: seen by deriving its weights."""

from __future__ import annotations

from kvplan.engine.args import EngineConfig
from kvplan.engine.quantization import quantization_config
from kvplan.errors import DoesNotStart, KvplanError
from kvplan.sources import Source


def check(config: EngineConfig, target: Source, drafter: Source | None) -> None:
    """Raises DoesNotStart where blocks of a scheme do not divide what a rank gets.

    Only block-wise FP8 over several ranks can fail so. Weights that kvplan does not know decide nothing here.
    """
    if config.tensor_parallel_size == 1 or config.quantization != "fp8":
        return
    from kvplan.weights.derive import deployment

    draft = None if config.speculative is None else config.speculative.draft
    try:
        own = quantization_config(config.target.root, target.file("hf_quant_config.json"))
        drafted = None
        if draft is not None and drafter is not None:
            drafted = quantization_config(draft.root, drafter.file("hf_quant_config.json"))
        deployment(config, own, drafted)
    except DoesNotStart:
        raise
    except KvplanError:
        return
