"""kvplan: what vLLM will do with its KV cache, exact and before the boot.

As a library: `plan` takes a `PlanRequest` and returns a `Result`; `compare` takes a result without a drafter and those
with one. Nothing is printed; `KvplanError` and `Refused` say what cannot be planned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from kvplan.comparison import compare as compare
    from kvplan.engine.args import EngineArgs as EngineArgs
    from kvplan.errors import KvplanError as KvplanError
    from kvplan.errors import Refused as Refused
    from kvplan.pipeline import PlanRequest as PlanRequest
    from kvplan.pipeline import plan as plan
    from kvplan.result import Result as Result

_WHERE = {
    "EngineArgs": "kvplan.engine.args",
    "KvplanError": "kvplan.errors",
    "PlanRequest": "kvplan.pipeline",
    "Refused": "kvplan.errors",
    "Result": "kvplan.result",
    "compare": "kvplan.comparison",
    "plan": "kvplan.pipeline",
}
__all__ = ["EngineArgs", "KvplanError", "PlanRequest", "Refused", "Result", "__version__", "compare", "plan"]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for: the command line must not pay for the library."""
    if name not in _WHERE:
        raise AttributeError(f"module 'kvplan' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    """The public names, whether or not they are loaded."""
    return sorted(__all__)
