"""The weights of a deployment from its untrusted configs, and what vLLM refuses as it builds a quantised model."""

from __future__ import annotations

from kvplan.engine.args import EngineConfig
from kvplan.engine.quantization import quantization_config
from kvplan.errors import DoesNotStart, KvplanError, Refused
from kvplan.sources import Source
from kvplan.weights.derive import Stage, deployment

_MALFORMED = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError)


def stages(config: EngineConfig, target: Source, drafter: Source | None) -> tuple[Stage, ...]:
    """Every stage's tensors. Refused where the quantisation, the class or a field of a config is not known.

    A field that no plan reads may hold anything, so that arithmetic on it may fail: that too is a refusal.
    """
    draft = None if config.speculative is None else config.speculative.draft
    try:
        own = quantization_config(config.target.root, target.file("hf_quant_config.json"))
        drafted = None
        if draft is not None and drafter is not None:
            drafted = quantization_config(draft.root, drafter.file("hf_quant_config.json"))
        return deployment(config, own, drafted)
    except _MALFORMED as error:
        raise Refused(
            f"{target.where}: the weights cannot be derived from this config ({type(error).__name__}: "
            f"{' '.join(str(error).split())[:80]}); give --weights-bytes."
        ) from None


def check(config: EngineConfig, target: Source, drafter: Source | None) -> None:
    """Raises DoesNotStart where blocks of a scheme do not divide what a rank gets.

    Weights that kvplan does not know decide nothing here.
    """
    try:
        stages(config, target, drafter)
    except DoesNotStart:
        raise
    except KvplanError:
        return
