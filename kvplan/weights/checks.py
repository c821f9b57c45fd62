"""The weights of a deployment from its untrusted configs, and what vLLM refuses as it builds a quantised model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kvplan.engine.args import EngineConfig
from kvplan.engine.quantization import quantization_config
from kvplan.errors import DoesNotStart, KvplanError, Refused
from kvplan.hf.config import Config
from kvplan.sources import Source
from kvplan.weights.builder import VOCABULARY_PADDING
from kvplan.weights.derive import Settings, Stage, deployment, stored_bytes

if TYPE_CHECKING:
    from kvplan.weights.checkpoint import Checkpoint

_WIDTHS = ("hidden_size", "intermediate_size", "vocab_size", "ffn", "heads", "groups", "d_inner", "d_ssm")
"""Parts of the names of fields whose values are split over the ranks."""
_MALFORMED = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError)


class Derived(NamedTuple):
    """Every stage's tensors, and how sure they are."""

    stages: tuple[Stage, ...]
    confirmed_by: str | None
    """What of the checkpoint's own files has the same size; None: nothing, or another size."""
    contradiction: str = ""
    """What of them has another size, and by how much; empty where none has, or where it cannot be said."""


def derived(config: EngineConfig, target: Source, drafter: Source | None) -> Derived:
    """The weights with what the checkpoint's files say of them, where they are at hand.

    Refused as `stages` refuses, and where a bundled config does not say how its checkpoint is quantised.
    """
    from kvplan.weights.checkpoint import checkpoint_of, loaded_bytes

    _check_scheme_known(config, target, drafter)
    checkpoint = checkpoint_of(target)
    config = _untied(config, checkpoint)
    found = stages(config, target, drafter, checkpoint)
    if checkpoint is None:
        return Derived(found, None)
    try:
        stored = stored_bytes(config, _settings(config.target.root, config.quantization, target, checkpoint))
    except (KvplanError, *_MALFORMED):
        stored = 0
    more = loaded_bytes(config.quantization, checkpoint) - stored
    if not more:
        return Derived(found, checkpoint.where)
    size = f"{abs(more):,} bytes {'more' if more > 0 else 'less'}"
    difference = f"by {checkpoint.where}, the checkpoint has {size} than these load"
    return Derived(found, None, difference if stored else "")


def _check_scheme_known(config: EngineConfig, target: Source, drafter: Source | None) -> None:
    draft = None if config.speculative is None else config.speculative.draft
    for source, model in ((target, config.target), (drafter, draft)):
        if source is None or model is None or not source.lacks_quantization:
            continue
        if model.root.get("quantization_config") is None:
            raise Refused(
                f"{source.where}: this copy of the config lacks the checkpoint's quantisation, so its weights cannot "
                "be derived; give --weights-bytes, or a local directory with the model's files."
            )


def _untied(config: EngineConfig, checkpoint: Checkpoint | None) -> EngineConfig:
    """With an output head of its own where the checkpoint brings one though the config ties it.

    (`maybe_untie_word_embeddings`, vllm/config/model.py; once loaded, equal ones are tied again.)
    """
    target, key = config.target, "tie_word_embeddings"
    if checkpoint is None or not target.root.truthy(key):
        return config
    if not any(name.endswith("lm_head.weight") for name in checkpoint.entries):
        return config
    root = target.root.replace(**{key: False})
    text = root if target.text is target.root else target.text.replace(**{key: False})
    return config._replace(target=target._replace(root=root, text=text))


def stages(
    config: EngineConfig, target: Source, drafter: Source | None, checkpoint: Checkpoint | None = None
) -> tuple[Stage, ...]:
    """Every stage's tensors. Refused where the quantisation, the class or a field of a config is not known.

    A field that no plan reads may hold anything, so that arithmetic on it may fail: that too is a refusal.
    """
    draft = None if config.speculative is None else config.speculative.draft
    try:
        own = _settings(config.target.root, config.quantization, target, checkpoint)
        drafted = None
        if draft is not None and drafter is not None:
            drafted = _settings(draft.root, draft.quantization, drafter, None)
        return deployment(config, own, drafted)
    except _MALFORMED as error:
        raise Refused(
            f"{target.where}: the weights cannot be derived from this config ({type(error).__name__}: "
            f"{' '.join(str(error).split())[:80]}); give --weights-bytes."
        ) from None


def _settings(root: Config, method: str | None, source: Source, checkpoint: Checkpoint | None) -> Settings:
    """The checkpoint's scheme."""
    settings = quantization_config(root, source.file("hf_quant_config.json"))
    if checkpoint is None:
        return settings
    from kvplan.weights.checkpoint import with_layers

    return with_layers(method, settings, checkpoint)


_SCALED = frozenset(
    ("auto_awq", "auto_gptq", "compressed-tensors", "fp8", "modelopt_fp4", "modelopt_mixed", "modelopt_mxfp8", "quark")
)
"""Methods with a scale for a block or group of weights, of which a rank needs whole ones."""


_SPLITS_ALIKE = frozenset(("enable_lora", "cpu_offload_gb", "offload_group_size", "enable_eplb", "limit_mm_per_prompt"))
"""Flags that add tensors, move them, or drop encoders once they are built: what is built must divide all the same."""


def check(config: EngineConfig, target: Source, drafter: Source | None) -> None:
    """Raises DoesNotStart where a size does not divide over the ranks, or a scheme's blocks do not divide a rank's.

    Weights that kvplan does not know decide nothing here; those of a scheme that it does not know are split as without.
    """
    scaled = config.quantization in _SCALED
    if not scaled and not _may_not_divide(config):
        return
    flags = {name: value for name, value in config.args.additional_flags.items() if name not in _SPLITS_ALIKE}
    config = config._replace(args=config.args._replace(additional_flags=flags, language_model_only=False))
    for each in (config, config._replace(quantization=None))[not scaled :]:
        try:
            stages(each, target, drafter)
            return
        except DoesNotStart:
            raise
        except KvplanError:
            continue


def _may_not_divide(config: EngineConfig) -> bool:
    """Whether any size in the configs does not divide over the ranks: only then is it worth to derive the weights."""
    draft = None if config.speculative is None else config.speculative.draft
    found = [config.target.root, *([] if draft is None else [draft.root])]
    tensors = config.tensor_parallel_size
    experts = tensors * config.data_parallel_size * config.prefill_context_parallel_size
    fields = [fields for each in found for fields in (each.data, each.defaults)]
    return any(_uneven(each, ranks) for each in fields for ranks in {tensors, experts})


def _uneven(fields: Mapping[str, Any], ranks: int) -> bool:
    for key, value in fields.items():
        if isinstance(value, Mapping):
            if _uneven(value, ranks):
                return True
        elif isinstance(value, int) and any(part in key for part in _WIDTHS) and "key_value" not in key:
            size = -(-value // VOCABULARY_PADDING) * VOCABULARY_PADDING if "vocab" in key else value
            if size % ranks:
                return True
    return False
