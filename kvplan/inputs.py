"""The configs of a deployment: found, read with the defaults of their classes, and what lies beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvplan import hf, sources
from kvplan.engine import speculators
from kvplan.engine.args import EngineArgs, ModelFacts
from kvplan.engine.dtype import config_dtype
from kvplan.errors import KvplanError
from kvplan.sources import Source


class Inputs(NamedTuple):
    """The configs of a deployment, read: what several plans of the same models share."""

    target: Source
    reading: hf.Reading
    drafter: Source | None
    drafter_facts: ModelFacts | None
    weight_dtypes: tuple[str, ...] = ()
    """`ModelFacts.weight_dtypes` of the target."""

    @property
    def target_facts(self) -> ModelFacts:
        """What the engine's options are resolved from."""
        return _facts(self.target, self.reading)._replace(weight_dtypes=self.weight_dtypes)


def read(args: EngineArgs, *, offline: bool) -> tuple[EngineArgs, Inputs]:
    """The deployment's configs, and the options; a speculators drafter stands for its target with it as the drafter.

    KvplanError for a config that cannot be found or read.
    """
    target = _source(args, args.model, offline)
    if target.config.get("speculators_config") is not None:
        args = speculators.redirect(args, hf.read_drafter(target).root)
        target = _source(args, args.model, offline)
    return args, inputs_of(target, _drafter_source(args, offline))


def _source(args: EngineArgs, name: str, offline: bool) -> Source:
    """A model's config, as vLLM reads it: its params.json where that lies beside weights of its format."""
    source = sources.resolve(name, offline=offline)
    if args.additional_flags.get("config_format") == "hf" or not source.has_mistral_format:
        return source
    from kvplan.hf.mistral_format import as_vllm_reads

    return as_vllm_reads(source)


def inputs_of(target: Source, drafter: Source | None) -> Inputs:
    """The configs, read with the defaults of their classes. KvplanError for a field that cannot be used."""
    reading = hf.read(target)
    return Inputs(target, reading, drafter, _drafter_facts(drafter), _weight_dtypes(target, reading))


def _facts(source: Source, reading: hf.Reading) -> ModelFacts:
    files = source.beside
    outside = None if source.config.get("quantization_config") is not None else files.get("hf_quant_config.json")
    return ModelFacts(source.id, reading.root, hf_quant_config=outside, files=files)


def _weight_dtypes(source: Source, reading: hf.Reading) -> tuple[str, ...]:
    """What the checkpoint's headers say; they are read only where the config names no dtype."""
    if config_dtype(reading.root, reading.text) is not None:
        return ()
    from kvplan.weights.stored_dtype import stored_dtypes

    return stored_dtypes(source)


def _drafter_source(args: EngineArgs, offline: bool) -> Source | None:
    """The drafter that --speculative-config names; None for a method that needs no model of its own."""
    named: Mapping[str, object] = args.speculative_config or {}
    name = named.get("model")
    if name is None or name in ("ngram", "[ngram]", "suffix", "ngram_gpu"):
        return None
    if not isinstance(name, str):
        raise KvplanError(f"--speculative-config: model must be a string, got {name!r}.")
    from kvplan.engine.speculative import requested_method

    if requested_method(named) == "custom_class":  # refused when the options are resolved
        return None
    return _source(args, name, offline)


def _drafter_facts(source: Source | None) -> ModelFacts | None:
    return None if source is None else _facts(source, hf.read_drafter(source))
