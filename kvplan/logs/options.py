"""Engine options under vLLM's own names, from the two lines in which a log prints them.

"non-default args" (entrypoints/utils.py, openai/cli_args.py, common/startup.py by release) is what was asked for;
"Initializing a V1 LLM engine" (config/vllm.py, VllmConfig.__str__) is what the engine resolved it to. The second wins
where both speak, since vLLM switches options off (prefix caching of hybrid models, for one).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kvplan.logs.values import Value, read_dict, read_pairs

# The engine line's names that are not vLLM's option names.
_RENAMED = {
    "max_seq_len": "max_model_len",
    "chunked_prefill_enabled": "enable_chunked_prefill",
    "device_config": "device",
}
# What the engine line says and a plan may need; the rest is kept out of the options.
_RESOLVED = (
    "dtype",
    "max_model_len",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "decode_context_parallel_size",
    "quantization",
    "load_format",
    "kv_cache_dtype",
    "enforce_eager",
    "enable_prefix_caching",
    "enable_chunked_prefill",
    "disable_custom_all_reduce",
    "trust_remote_code",
    "revision",
)
_SECRETS = ("api_key", "hf_token", "watermark_config", "ssl_keyfile", "ssl_keyfile_password")


class Settings(NamedTuple):
    """What the two lines and single messages say; ``options`` is None when the log holds none of them."""

    model: str | None
    drafter: str | None
    arguments: dict[str, Value] | None
    engine_config: dict[str, Value] | None
    options: dict[str, Value] | None


def read_settings(
    arguments: str | None, engine: str | None, weak: dict[str, Value], strong: dict[str, Value]
) -> Settings:
    """Settings from the text after "non-default args: ", after "with config: ", and from options told by messages.

    Precedence, weakest first: ``weak`` messages, what was asked, ``strong`` messages, what the engine resolved.
    """
    asked = _arguments(arguments) if arguments is not None else None
    resolved = _engine_config(engine) if engine is not None else None
    options: dict[str, Value] = dict(weak)
    options.update({key: value for key, value in (asked or {}).items() if key not in ("model", "model_tag")})
    options.update(strong)
    options.update({key: value for key, value in (resolved or {}).items() if key in _RESOLVED and value is not None})
    speculative = _speculative(asked, resolved)
    if speculative:
        options["speculative_config"] = speculative
    model = _model(asked, resolved)
    return Settings(model, _drafter(speculative, resolved, model), asked, resolved, options or None)


def hub_id(model: str) -> str:
    """The hub id inside a cache path (``.../models--org--name/snapshots/rev``), else the text itself."""
    found = re.search(r"(?:^|[/\\])models--([^/\\]{1,100}?)--([^/\\]{1,200})(?:[/\\]|$)", model)
    return f"{found.group(1)}/{found.group(2)}" if found else model


def _arguments(text: str) -> dict[str, Value]:
    return {key: value for key, value in read_dict(text).items() if key not in _SECRETS}


def _engine_config(text: str) -> dict[str, Value]:
    found = {_RENAMED.get(key, key): value for key, value in read_pairs(text).items()}
    dtype, load_format = found.get("dtype"), found.get("load_format")
    if isinstance(dtype, str):
        found["dtype"] = dtype.removeprefix("torch.")
    if isinstance(load_format, str):
        found["load_format"] = load_format.removeprefix("LoadFormat.").lower()
    if isinstance(spec := found.get("speculative_config"), dict):
        found["speculative_config"] = {_SPEC_NAMES.get(key, key): value for key, value in spec.items()}
    return found


_SPEC_NAMES = {"num_spec_tokens": "num_speculative_tokens"}


def _speculative(asked: dict[str, Value] | None, resolved: dict[str, Value] | None) -> dict[str, Value]:
    """The drafter's settings: as asked, completed by what the engine resolved (method, number of tokens)."""
    asked_part, resolved_part = ((source or {}).get("speculative_config") for source in (asked, resolved))
    merged: dict[str, Value] = {}
    for part in (resolved_part, asked_part):
        if isinstance(part, dict):
            merged.update({key: value for key, value in part.items() if value is not None})
    own = isinstance(asked_part, dict) and "model" in asked_part
    if not own and merged.get("model") == (resolved or {}).get("model"):
        merged.pop("model", None)  # a drafter inside the target: the engine line repeats the target's own path
    return merged


def _model(asked: dict[str, Value] | None, resolved: dict[str, Value] | None) -> str | None:
    for source, key in ((asked, "model"), (asked, "model_tag"), (resolved, "model")):
        if isinstance(name := (source or {}).get(key), str) and name:
            return name
    return None


def _drafter(speculative: dict[str, Value], resolved: dict[str, Value] | None, model: str | None) -> str | None:
    """The drafter's model, or the method of one that has no model of its own (``mtp``, ``ngram``)."""
    name, method = speculative.get("model"), speculative.get("method")
    if isinstance(name, str) and name not in (model, (resolved or {}).get("model")):
        return name
    return method if isinstance(method, str) else None
