"""Untrusted JSON: bounded in size and depth, one meaning per key, one clear sentence where it is something else."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from kvplan.errors import KvplanError
from kvplan.files import open_read

MAXIMUM_BYTES = 8 * 1024 * 1024
MAXIMUM_DEPTH = 64
LARGER = {"model.safetensors.index.json": 128 * 1024 * 1024, "tokenizer_config.json": 32 * 1024 * 1024}
"""Files that are larger than a config by nature: bounds in bytes."""


def read_object(path: str, where: str | None = None) -> dict[str, Any]:
    """The JSON object in the file at ``path``. KvplanError when it cannot be read or is not one."""
    return _object(read_value(path, where), where or path)


def read_value(path: str, where: str | None = None) -> Any:
    """Whatever JSON the file at ``path`` holds. KvplanError when it cannot be read or is none."""
    where = where or path
    limit = LARGER.get(os.path.basename(path), MAXIMUM_BYTES)
    try:
        with open_read(path) as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise KvplanError(f"{where}: cannot be read ({(error.strerror or str(error)).lower()}).") from None
    return _value(data, where, limit)


def parse_object(data: bytes, where: str, limit: int = MAXIMUM_BYTES) -> dict[str, Any]:
    """The JSON object that ``data`` holds. KvplanError where it is too large, not UTF-8, not JSON or no object."""
    return _object(_value(data, where, limit), where)


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise KvplanError(f"{where}: must hold a JSON object, but holds {_kind(value)}.")
    return value


def _value(data: bytes, where: str, limit: int) -> Any:
    if len(data) > limit:
        raise KvplanError(f"{where}: larger than {limit // 2**20} MiB, which no such file of a model is.")
    if data[:4] == b"GGUF":
        raise KvplanError(f"{where}: a GGUF checkpoint, which kvplan does not read; give the model's config.json.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise KvplanError(f"{where}: not UTF-8 text (byte {error.start}), so it is no config.json.") from None
    value = _parse(text, where)
    _check_depth(value, where)
    return value


def _advice(where: str) -> str:
    """What to do with a file that describes a deployment and no model."""
    manifest = where.lower().endswith((".yaml", ".yml", ".sh", ".service", ".env"))
    reads = "; `kvplan args` reads the serve line of such a file and shows its model and options"
    return f"{reads}; write the command itself after --, as in `kvplan plan -- vllm serve MODEL`" if manifest else ""


def _parse(text: str, where: str) -> Any:
    """The value of the text. A duplicate key is refused: readers disagree on which one counts."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise KvplanError(f"{where}: the key {twice!r} appears twice in one object; remove one of them.")
        return found

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise KvplanError(
            f"{where}: not valid JSON (line {error.lineno}, column {error.colno}: {error.msg.lower()}){_advice(where)}."
        ) from None
    except RecursionError:
        raise KvplanError(f"{where}: nested deeper than {MAXIMUM_DEPTH} levels, so it is no model config.") from None
    except ValueError:  # an integer of thousands of digits
        raise KvplanError(f"{where}: holds a number with too many digits, so it is no model config.") from None


def _check_depth(value: Any, where: str) -> None:
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAXIMUM_DEPTH):
        inner: list[Any] = []
        for item in level:
            inner.extend(v for v in (item.values() if isinstance(item, dict) else item) if isinstance(v, (dict, list)))
        if not inner:
            return
        level = inner
    raise KvplanError(f"{where}: nested deeper than {MAXIMUM_DEPTH} levels, so it is no model config.")


def _kind(value: Any) -> str:
    kinds = {list: "a list", str: "a string", bool: "true or false", int: "a number", float: "a number"}
    return kinds.get(type(value), "null")


_OTHER_KINDS = (
    ("weight_map", "an index of weight files (model.safetensors.index.json)"),
    ("peft_type", "the config of a PEFT adapter; give the base model's config"),
    ("tokenizer_class", "a tokenizer config"),
    ("added_tokens", "a tokenizer"),
    ("image_processor_type", "an image processor config"),
    ("processor_class", "a processor config"),
    ("_diffusers_version", "a diffusion pipeline's config"),
    ("n_kv_heads", "a params.json in Mistral format, which kvplan does not read; give the config.json"),
    ("quantization", "a quantization config (hf_quant_config.json)"),
    ("temperature", "a generation config"),
    ("do_sample", "a generation config"),
    ("plans", "a kvplan document"),
)


def check_is_config(config: Mapping[str, Any], where: str) -> None:
    """KvplanError where the object is evidently not a model config: it names neither a model type nor architectures."""
    named = any(key in config for key in ("model_type", "architectures", "speculators_config", "medusa_num_heads"))
    if named and "weight_map" not in config:
        return
    for key, kind in _OTHER_KINDS:
        if key in config:
            raise KvplanError(f"{where}: not a model's config.json but {kind}.")
    raise KvplanError(f"{where}: not a model's config.json: it has neither model_type nor architectures.")


def split_facts(config: dict[str, Any]) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """A bundled file's config without kvplan's own key, and what that key says."""
    facts = config.pop("kvplan", None)
    return config, facts if isinstance(facts, dict) else {}
