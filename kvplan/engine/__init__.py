"""From flags to resolved options: vLLM's defaults and refusals, without its side effects.

One entry point: `kvplan.engine.resolve.resolve(args, target, drafter, gpu)`.

- ``args`` (`EngineArgs`): the flags as given, under vLLM's names; rare ones in ``additional_flags``.
- ``target``, ``drafter`` (`ModelFacts`): the id or path as the user gave it and the config.json as
  `kvplan.hf` reads it, with its class's defaults. ``drafter`` is None where `--speculative-config` names no model
  (ngram, suffix, a built-in MTP or DSpark).
- The result (`EngineConfig`) has every option resolved, ``target`` (`ResolvedModel`: vLLM's class, the configs after
  `--hf-overrides` and vLLM's own rewrites, dtype, quantisation) and ``speculative`` (`Speculative`: method, tokens and
  ``draft``, the drafter's `ResolvedModel` after vLLM turned its config into that of a drafter).

A model in the speculators format names its own target. `kvplan.engine.speculators` tells one (`is_speculators`) and
gives the flags that serving it stands for (`redirect`); the caller then reads that target, with the model as drafter.

Modules, in the order of vLLM's own steps: overrides, architecture, facts, dtype, quantization, max_model_len, model
(one checkpoint); mtp, speculators, draft, speculative (the drafter); batching, kv_cache_dtype, hooks (architectures'
own defaults), parallel, scheduling, hybrid_manager, resolve. `registry` lists the model classes of vLLM, `unplanned`
the flags that are refused by name. Every refusal is a `kvplan.errors.Refused` with one sentence.
"""
