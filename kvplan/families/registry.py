"""Finding the family file of an architecture without importing all of them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from kvplan.errors import Refused


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


@cache
def _files(package: str) -> list[Path]:
    folder = Path(__file__).parent.parent / package
    return sorted(path for path in folder.glob("*.py") if path.stem != "__init__")


def _declares(text: str, architecture: str) -> bool:
    """Whether the tuple ARCHITECTURES in a file's text holds the name: nothing is imported in vain."""
    start = text.find("\nARCHITECTURES = (")
    return start >= 0 and f'"{architecture}"' in text[start : text.index(")", start)]


@cache
def find(architecture: str, package: str = "families") -> ModuleType:
    """The module that plans ``architecture``. Refused by name where there is none."""
    path = _file(architecture, package)
    if path is not None:
        return import_module(f"kvplan.{package}.{path.stem}")
    if package == "families" and _file(architecture, "drafters") is not None:
        raise Refused(
            f"architecture {architecture!r} is a drafter's: name its target as MODEL, and the drafter with --drafter."
        )
    what = "drafter architecture" if package == "drafters" else "architecture"
    raise Refused(
        f"{what} {architecture!r} is not one that kvplan plans exactly; `kvplan models` lists those that it does."
    )


def _file(architecture: str, package: str) -> Path | None:
    """The file whose ARCHITECTURES hold the name."""
    return next((p for p in _files(package) if _declares(p.read_text(encoding="utf-8"), architecture)), None)


def traits(architecture: str, package: str = "families") -> Traits:
    """How the engine treats ``architecture``: the file's ``traits(architecture)``, or its ``TRAITS``, or none."""
    module = find(architecture, package)
    if hasattr(module, "traits"):
        found: Traits = module.traits(architecture)
        return found
    return getattr(module, "TRAITS", Traits())


def architectures(package: str = "families") -> dict[str, str]:
    """Every architecture that has a file, with the file's module name. Imports every file."""
    found: dict[str, str] = {}
    for path in _files(package):
        if "\nARCHITECTURES = (" in path.read_text(encoding="utf-8"):
            module = import_module(f"kvplan.{package}.{path.stem}")
            found.update(dict.fromkeys(module.ARCHITECTURES, module.__name__))
    return found
