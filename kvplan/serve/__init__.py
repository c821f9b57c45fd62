"""Serve lines: how people start vLLM, as vLLM 0.33.0's own parser reads it.

read_argv (words), read_text and read_file give Deployments; to_document makes the JSON of `kvplan args`;
read_arguments reads what follows `vllm serve`; planner_options turns a Deployment into what a plan takes, or says why
it cannot.

Modules, in the order in which they build on each other: marks (variables without a value), flags and fields (vLLM's
tables), flagtable, values and jsonfields (conversions), messages, prepare and argparser (vLLM's parser), together and
later (checks after it), touch (what a flag does to the cache), start, deployment, expansions, scope, words, script,
builtins and shell (scripts), launch, containers, units and dockerfiles (where a server is started), read, plannable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvplan.serve.deployment import Deployment as Deployment
    from kvplan.serve.plannable import planner_options as planner_options
    from kvplan.serve.plannable import remarks as remarks
    from kvplan.serve.read import read_arguments as read_arguments
    from kvplan.serve.read import read_argv as read_argv
    from kvplan.serve.read import read_file as read_file
    from kvplan.serve.read import read_text as read_text
    from kvplan.serve.read import to_document as to_document

_WHERE = {
    "Deployment": "deployment",
    "planner_options": "plannable",
    "remarks": "plannable",
    "read_arguments": "read",
    "read_argv": "read",
    "read_file": "read",
    "read_text": "read",
    "to_document": "read",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: importing the package costs nothing."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
