"""`--speculative-config`: the method, the number of tokens, and the drafter's options.

Source: vllm/config/speculative.py (`SpeculativeConfig`), `create_speculative_config` of vllm/engine/arg_utils.py and
`num_lookahead_tokens`, `num_prefill_lookahead_tokens` of vllm/config/vllm.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.engine import draft
from kvplan.engine.args import EngineArgs, ModelFacts, ResolvedModel, Speculative
from kvplan.engine.attention import named_backend
from kvplan.engine.draft_options import check_for_method, check_options, check_sampling, speculative_options
from kvplan.engine.dtype import check_model_dtype
from kvplan.engine.facts import count, is_deepseek_mla, model_type
from kvplan.engine.max_model_len import resolve_max_model_len
from kvplan.engine.model import describe
from kvplan.engine.mtp import MTP_MODEL_TYPES
from kvplan.engine.parallel import check_model
from kvplan.errors import Refused
from kvplan.hf.config import Config

_METHODS = frozenset(
    (
        "ngram",
        "draft_model",
        "suffix",
        "custom_class",
        "eagle",
        "eagle3",
        "extract_hidden_states",
        "dflash",
        "ngram_gpu",
        "dspark",
        "mtp",
    )
)
_WITHOUT_MODEL = frozenset(("ngram", "ngram_gpu", "suffix", "extract_hidden_states"))
_SUFFIX_DEPTH = 24


def requested_method(options: Mapping[str, Any]) -> str:
    """The method as given; `draft_model` where none is and a model is named."""
    method, model = options.get("method"), options.get("model")
    if method is None:
        if model in ("ngram", "[ngram]"):
            return "ngram"
        return "custom_class" if _is_python_path(model) else "draft_model"
    if method in MTP_MODEL_TYPES:
        return "mtp"
    if method not in _METHODS:
        raise Refused(f"--speculative-config method {method!r} is not one that vLLM 0.33.0 knows.")
    return str(method)


def _is_python_path(model: Any) -> bool:
    if not isinstance(model, str) or "/" in model or model.endswith(".json"):  # kvplan also takes a config's file
        return False
    parts = model.split(".")
    return len(parts) >= 2 and all(part.isidentifier() for part in parts)


def resolve_speculative(
    args: EngineArgs, target_facts: ModelFacts, target: ResolvedModel, drafter: ModelFacts | None
) -> Speculative | None:
    """The resolved drafter, or None without `--speculative-config`.

    ``drafter``: what was read of the model that it names; None where it names none, as for a built-in MTP.
    """
    options = speculative_options(args)
    if not options:
        return None
    check_options(options)
    method = requested_method(options)
    check_for_method(options, method)
    if method == "custom_class":
        raise Refused("--speculative-config: kvplan does not run drafters of your own (method custom_class).")
    if method in _WITHOUT_MODEL:
        return _without_model(method, options, target, args)
    if options.get("model") is None:
        if options.get("num_speculative_tokens") is None:
            raise Refused(
                f"--speculative-config names method {method} without num_speculative_tokens; add how many to draft."
            )
        if method not in ("mtp", "dspark"):
            raise Refused(f"--speculative-config method {method} needs a model; add the drafter's.")
    return _with_model(method, options, args, target, drafter or target_facts)


def _tokens(options: Mapping[str, Any], default: int | None) -> int:
    value = options.get("num_speculative_tokens", default)
    if value is None:
        raise Refused("--speculative-config names no num_speculative_tokens, and the drafter's config has no default.")
    return int(value)


def _without_model(method: str, options: Mapping[str, Any], target: ResolvedModel, args: EngineArgs) -> Speculative:
    if method in ("ngram", "ngram_gpu"):
        _check_lookup(options)
    depth = options.get("suffix_decoding_max_tree_depth", _SUFFIX_DEPTH)
    tokens = _tokens(options, depth if method == "suffix" else None)
    model = None
    if method == "extract_hidden_states":
        if tokens != 1:
            raise Refused(
                f"--speculative-config num_speculative_tokens {tokens}: extract_hidden_states takes exactly 1."
            )
        root = _hidden_states_root(target, options)
        model = target._replace(architecture="ExtractHiddenStatesModel", root=root, flags="p")
    return Speculative(
        method=method,
        num_speculative_tokens=tokens,
        model=None,
        architecture=None if model is None else model.architecture,
        draft_tensor_parallel_size=args.tensor_parallel_size,
        kv_cache_dtype=options.get("kv_cache_dtype"),
        draft=model,
    )


def _hidden_states_root(target: ResolvedModel, options: Mapping[str, Any]) -> Config:
    given = options.get("draft_model_config")
    fields = given.get("hf_config") if isinstance(given, Mapping) else None
    extra = dict(fields) if isinstance(fields, Mapping) else {}
    return target.root.replace(**{**extra, "architectures": ["ExtractHiddenStatesModel"]})


def _check_lookup(options: Mapping[str, Any]) -> None:
    low, high = options.get("prompt_lookup_min"), options.get("prompt_lookup_max")
    low, high = (low or high or 5), (high or low or 5)
    if low > high:
        raise Refused(f"--speculative-config prompt_lookup_min {low} is more than prompt_lookup_max {high}; lower it.")


def _with_model(
    given: str,
    options: Mapping[str, Any],
    args: EngineArgs,
    target: ResolvedModel,
    facts: ModelFacts,
) -> Speculative:
    model = _draft_model(options, args, target, facts)
    method = draft.detect_method(given, model)
    if method == "mtp" and model_type(target.root) == "deepseek_v41":
        raise Refused("--speculative-config method mtp: DeepSeek-V4.1 has no MTP drafter; use method dspark.")
    check_for_method(options, method)
    model = draft.as_method(method, model, target, facts)
    if options.get("index_share_for_mtp_iteration") is not None:
        shared = {"index_share_for_mtp_iteration": options["index_share_for_mtp_iteration"]}
        model = model._replace(root=model.root.replace(**shared))
    tokens = _num_speculative_tokens(method, options, model)
    tp = _draft_tensor_parallel_size(options, args.tensor_parallel_size)
    model = model._replace(max_model_len=_draft_length(options, model.max_model_len, target.max_model_len))
    check_model(model.root, model.text, model.flags, tensor_parallel_size=tp, use_mla=is_deepseek_mla(model.text))
    if method == "draft_model" and not options.get("use_heterogeneous_vocab"):
        _check_vocabulary(target, model)
    check_sampling(options, tokens)
    chain = method == "mtp" and min(_mtp_layers(model.root), tokens) > 1
    return Speculative(
        method=method,
        num_speculative_tokens=tokens,
        model=None if options.get("model") is None else str(options["model"]),
        architecture=model.architecture,
        draft_tensor_parallel_size=tp,
        attention_backend=None if (own := options.get("attention_backend")) is None else named_backend(own),
        kv_cache_dtype=options.get("kv_cache_dtype"),
        parallel_drafting=method in ("dflash", "dspark") or bool(options.get("parallel_drafting")),
        num_prefill_lookahead_tokens=0 if method == "draft_model" else tokens if chain else 1,
        use_eagle_block_drop=method in ("eagle", "eagle3", "mtp") and not options.get("disable_eagle_block_drop"),
        num_lookahead_tokens=_num_lookahead_tokens(method, tokens, model.root),
        use_multi_module_mtp=chain,
        use_non_causal=method in ("dflash", "dspark") and draft.has_non_causal_layer(model.text),
        draft=model,
    )


def _draft_model(
    options: Mapping[str, Any], args: EngineArgs, target: ResolvedModel, facts: ModelFacts
) -> ResolvedModel:
    """The drafter's checkpoint with its own length, before its method is known."""
    quantization = options.get("quantization")
    if quantization is None and options.get("model") is None:
        quantization = target.quantization
    model = describe(facts, draft.drafter_config(facts), dtype=target.dtype, quantization=quantization)
    check_model_dtype(model.root, target.dtype)
    length = resolve_max_model_len(
        model.text,
        options.get("max_model_len"),
        env=args.env,
        disable_sliding_window=model.text.get("sliding_window") == 0,
        target_max_model_len=target.max_model_len,
        flag="--speculative-config max_model_len",
    )
    return model._replace(max_model_len=length)


def _num_speculative_tokens(method: str, options: Mapping[str, Any], model: ResolvedModel) -> int:
    """The given count, else the drafter's own. Refused where MTP modules cannot be reused evenly."""
    root = model.root
    if method == "dspark":
        key = "block_size" if root.get("block_size") is not None else "dspark_block_size"
        return _tokens(options, root.optional_integer(key))
    n_predict = root.optional_integer("n_predict", minimum=0)
    if method == "mtp" and options.get("num_speculative_tokens") is None:
        raise Refused(
            "--speculative-config without num_speculative_tokens: vLLM 0.33.0 fails on an MTP drafter without a count; "
            f"add it ({root.where} predicts {n_predict})."
        )
    tokens = _tokens(options, n_predict)
    if n_predict is not None and tokens > n_predict and (not n_predict or tokens % n_predict):
        raise Refused(
            f"--speculative-config num_speculative_tokens {tokens} is not a multiple of the {n_predict} tokens that "
            f"{root.where} predicts; use a multiple of it."
        )
    if tokens < 1:
        raise Refused(f"{root.where}: n_predict is {tokens}, so there is nothing to draft.")
    return tokens


def _mtp_layers(root: Config) -> int:
    return root.integer("num_nextn_predict_layers", minimum=0) if "num_nextn_predict_layers" in root else 1


def _num_lookahead_tokens(method: str, tokens: int, root: Config) -> int:
    fill_in = method == "dspark" and not root.truthy("sample_from_anchor", True)
    return tokens + 1 if method == "dflash" or fill_in else tokens


def _draft_tensor_parallel_size(options: Mapping[str, Any], tp: int) -> int:
    size = options.get("draft_tensor_parallel_size")
    if size is None:
        return tp
    if size not in (1, tp):
        raise Refused(f"--speculative-config draft_tensor_parallel_size {size} must be 1 or the target's size {tp}.")
    return int(size)


def _draft_length(options: Mapping[str, Any], drafter: int, target: int) -> int:
    asked = options.get("max_model_len")
    if asked is not None and asked > target:
        raise Refused(f"--speculative-config max_model_len {asked} is more than the target's {target}; lower it.")
    return min(drafter, target)


def _check_vocabulary(target: ResolvedModel, drafter: ResolvedModel) -> None:
    own, other = count(drafter.text, "vocab_size"), count(target.text, "vocab_size")
    if own != other:
        raise Refused(
            f"{drafter.root.where}: vocab_size {own} is not the target's {other}, as a plain draft model needs."
        )
