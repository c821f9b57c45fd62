"""Finding the file that knows an architecture's weights without importing all of them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

from kvplan.errors import Refused


def find(architecture: str, package: str = "models") -> ModuleType:
    """The module of ``package`` that knows the weights of ``architecture``. Refused by name where there is none."""
    for path in sorted((Path(__file__).parent / package).glob("*.py")):
        text = path.read_text(encoding="utf-8")
        start = text.find("\nARCHITECTURES = (")
        if start >= 0 and f'"{architecture}"' in text[start : text.index(")", start)]:
            return import_module(f"kvplan.weights.{package}.{path.stem}")
    raise Refused(f"the weights of architecture {architecture!r} are not known to kvplan; give --weights-bytes.")
