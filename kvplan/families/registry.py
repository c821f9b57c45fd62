"""Finding the family file of an architecture without importing all of them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from kvplan.errors import Refused

_FOLDERS = ("families", "drafters")


class Traits(NamedTuple):
    """How vLLM treats an architecture: interfaces of its model class and its entry in vLLM's model config map."""

    is_hybrid: bool = False
    """Attention and state layers in one model (`IsHybrid`)."""
    is_attention_free: bool = False
    """State layers only (`IsAttentionFree`)."""
    supports_mamba_prefix_caching: bool = False
    supports_pp: bool = True
    is_multimodal: bool = False
    is_encoder_decoder: bool = False
    multimodal_prefix_lm: bool = False
    """Images attend bidirectionally (`is_mm_prefix_lm`)."""
    text_config: str | None = None
    """Key of the text model's config inside config.json; None: found as Transformers finds it."""


def _files(package: str) -> list[Path]:
    return sorted(
        p for p in (Path(__file__).parent.parent / package).glob("*.py") if p.stem not in ("__init__", "registry")
    )


def _declares(path: Path, architecture: str) -> bool:
    """Whether the file's ARCHITECTURES holds the name: a text search, so that nothing is imported in vain."""
    text = path.read_text(encoding="utf-8")
    start = text.find("ARCHITECTURES")
    return (
        start >= 0
        and f'"{architecture}"'
        in text[start : text.find("\n)", start) if "(\n" in text[start : start + 60] else text.find("\n", start)]
    )


def find(architecture: str, package: str = "families") -> ModuleType:
    """The module that plans ``architecture``. Refused by name where there is none."""
    for path in _files(package):
        if _declares(path, architecture):
            return import_module(f"kvplan.{package}.{path.stem}")
    what = "drafter architecture" if package == "drafters" else "architecture"
    raise Refused(
        f"{what} {architecture} is not one that kvplan plans exactly; `kvplan models` lists those that it does."
    )


def architectures(package: str = "families") -> dict[str, str]:
    """Every architecture that has a file, with the file's module name."""
    found: dict[str, str] = {}
    for path in _files(package):
        module = import_module(f"kvplan.{package}.{path.stem}")
        found.update(dict.fromkeys(module.ARCHITECTURES, module.__name__))
    return found
