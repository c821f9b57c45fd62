"""The tables of cosines and sines that rotary positions keep: one per set of parameters, shared by all layers.

Source: `get_rope` and the classes of vllm/model_executor/layers/rotary_embedding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kvplan.errors import Refused

_FLASHINFER_HEADS = frozenset((64, 128, 256, 512))


class Rotary(NamedTuple):
    """Rotary positions of a layer: `get_rope`'s arguments."""

    head_size: int
    max_position: int
    parameters: Mapping[str, Any]
    dtype: str
    is_neox_style: bool = True
    positions_factor: int = 4
    """Times that a table for images and videos (mrope) is longer than the text's."""

    @property
    def rotary_dim(self) -> int:
        """Elements of a head that are rotated."""
        given = self.parameters.get("rope_dim")
        if given:
            return int(given)
        factor = self.parameters.get("partial_rotary_factor", 1.0)
        if not 0 < factor <= 1:
            raise Refused(f"partial_rotary_factor {factor} must be between 0 and 1.")
        return int(self.head_size * factor)

    @property
    def key(self) -> tuple[Any, ...]:
        """What vLLM finds an existing table by."""
        parameters = tuple((k, _frozen(v)) for k, v in self.parameters.items())
        return (self.rotary_dim, *self._replace(parameters={})[:2], *self[3:], parameters)


class Table(NamedTuple):
    """A table of cosines and sines."""

    name: str
    rows: int
    columns: int
    dtype: str


def table(rotary: Rotary) -> Table:
    """The table. Refused for a scaling that kvplan does not know."""
    kind = str(rotary.parameters.get("rope_type", "default"))
    if kind == "longrope":
        rows = _integer(rotary, "original_max_position_embeddings") + rotary.max_position
        return Table("long_short_cos_sin_cache", rows, rotary.rotary_dim, rotary.dtype)
    rows_of = _ROWS.get(kind)
    if rows_of is None:
        raise Refused(f"rotary positions of type {kind} have a table that kvplan does not know; give --weights-bytes.")
    columns = rotary.head_size if kind == "proportional" else rotary.rotary_dim
    return Table("cos_sin_cache", rows_of(rotary), columns, _dtype(rotary, kind))


def _frozen(value: Any) -> Any:
    """A value of an untrusted config that can be compared as a dictionary's key: 10000 and 10000.0 are the same."""
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, Mapping):
        return tuple((key, _frozen(item)) for key, item in value.items())
    return value


def _dtype(rotary: Rotary, kind: str) -> str:
    """FlashInfer's kernel, which the DeepSeek scaling takes, and DeepSeek-V4 keep float32."""
    if not kind.startswith("deepseek_"):
        return rotary.dtype
    kept = bool(rotary.parameters.get("is_deepseek_v4")) or rotary.head_size in _FLASHINFER_HEADS
    return "float32" if kept else rotary.dtype


def _plain(rotary: Rotary) -> int:
    return rotary.max_position * (rotary.positions_factor if "mrope_section" in rotary.parameters else 1)


def _unscaled(rotary: Rotary) -> int:
    return rotary.max_position


def _linear(rotary: Rotary) -> int:
    return _steps(rotary.max_position * _factor(rotary))


def _original(rotary: Rotary) -> int:
    return _steps(_integer(rotary, "original_max_position_embeddings") * _factor(rotary))


def _yarn(rotary: Rotary) -> int:
    original = _integer(rotary, "original_max_position_embeddings")
    return _steps(original * _factor(rotary) * (rotary.positions_factor if "mrope_section" in rotary.parameters else 1))


_ROWS: dict[str, Callable[[Rotary], int]] = {
    "default": _plain,
    "llama3": _unscaled,
    "proportional": _unscaled,
    "dynamic": _unscaled,
    "linear": _linear,
    "yarn": _yarn,
    "deepseek_yarn": _original,
    "deepseek_llama_scaling": _original,
}


def _steps(length: float) -> int:
    """Entries of ``arange(length)``."""
    return -int(-length // 1)


def _factor(rotary: Rotary) -> float:
    value = rotary.parameters.get("factor")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e6:
        raise Refused(f"rope_parameters: factor must be a positive number, got {value!r}.")
    return value


def _integer(rotary: Rotary, key: str) -> int:
    value = rotary.parameters.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 2**40:
        raise Refused(f"rope_parameters: {key} must be a positive integer, got {value!r}.")
    return int(value)
