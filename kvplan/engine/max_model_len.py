"""The model's length: what the config derives, and what `--max-model-len` may ask for.

Source: vllm/config/model.py (`_get_and_verify_max_len`) and `derive_max_model_len_and_key` of
vllm/transformers_utils/model_arch_config_convertor.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from kvplan.engine.facts import model_type, rope_parameters
from kvplan.errors import Refused
from kvplan.hf.config import Config

AUTO = -1
"""`--max-model-len auto`: the longest length that fits."""
_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
_ALREADY_SCALED = frozenset(("su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling"))
"""RoPE types whose max_position_embeddings includes the scaling factor."""
_NO_KEY = 2048
"""The length of a model whose config names none."""


def derive(text: Config) -> tuple[float, str]:
    """The smallest length among the config's keys, and its key; infinity where there is none."""
    found = [(text.number(key, minimum=1), key) for key in _KEYS if text.get(key) is not None]
    length, key = min(found, default=(inf, ""))
    if text.get("model_max_length"):
        return text.number("model_max_length", minimum=1), "model_max_length"
    return length, key


def scale(text: Config, length: float) -> float:
    """The length after RoPE scaling, where max_position_embeddings does not include it yet."""
    ropes = rope_parameters(text)
    if not ropes or "gemma3" in model_type(text):
        return length
    factor = 1.0
    for rope in ropes:
        if rope["rope_type"] not in _ALREADY_SCALED:
            factor = rope.get("factor", factor)
    if factor is None:
        return length
    if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not 0 < factor < 2**20:
        raise text.error("rope_parameters: factor", f"must be a positive number, got {factor!r}")
    return length * factor


def derived_max_model_len(text: Config, *, disable_sliding_window: bool = False) -> tuple[float, str]:
    """The longest length that the config allows and the key that decides it, before `--max-model-len`."""
    length, key = derive(text)
    window = text.get("sliding_window")
    if disable_sliding_window and window and text.integer("sliding_window") < length:
        length, key = text.integer("sliding_window"), "sliding_window"
    return length, key


def resolve_max_model_len(
    text: Config,
    requested: int | None,
    *,
    env: Mapping[str, str],
    disable_sliding_window: bool = False,
    target_max_model_len: int | None = None,
    own_length: float | None = None,
    flag: str = "--max-model-len",
) -> int:
    """The length in tokens. Refused where more is asked for than the config allows.

    ``target_max_model_len`` is the target's length when ``text`` is a drafter's; ``own_length`` one that a file beside
    the config sets in place of what the config says.
    """
    length, key = derived_max_model_len(text, disable_sliding_window=disable_sliding_window)
    if length == inf:
        if requested == AUTO:
            raise Refused(f"{flag} auto: {text.where} names no length to start from; give a number of tokens.")
        if requested is not None:
            return requested
        if target_max_model_len is not None:
            return target_max_model_len
        length = _NO_KEY
    length, key = (scale(text, length), key) if own_length is None else (own_length, "max_seq_length beside it")
    if requested is None or requested == AUTO:
        if any(rope["rope_type"] == "longrope" for rope in rope_parameters(text)):
            return text.integer("original_max_position_embeddings", int(length))
        return int(length)
    if requested > length and not _allowed_beyond(text, requested, env):
        raise Refused(
            f"{flag} {requested} is more than the {int(length):,} tokens that {text.where} allows ({key}); "
            "ask for less, or set VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 if the model can take it."
        )
    return requested


def _allowed_beyond(text: Config, requested: int, env: Mapping[str, str]) -> bool:
    limit = text.get("model_max_length")
    if limit is not None and requested <= text.number("model_max_length"):
        return True
    return env.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0").strip().lower() in ("1", "true")
