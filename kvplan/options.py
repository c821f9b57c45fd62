"""The options that commands share: their flags, help and what a shell offers for them."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer


def offers(what: str) -> Any:
    """What a shell offers for a value; None while no shell asks, for Typer looks into every function it is given."""
    if "_KVPLAN_COMPLETE" not in os.environ:
        return None
    from kvplan import completion

    return getattr(completion, what)


Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODEL [VLLM FLAGS]...", help="A path, a bundled id or a hub id.", autocompletion=offers("words")
    ),
]
GpuName = Annotated[
    str | None,
    typer.Option("--gpu", metavar="NAME", help="GPU; `kvplan gpus` lists them.", autocompletion=offers("gpus")),
]
Drafter = Annotated[
    str | None,
    typer.Option(
        "--drafter", metavar="MODEL", help="Drafter: path, bundled or hub id.", autocompletion=offers("models")
    ),
]
Drafters = Annotated[
    list[str] | None,
    typer.Option("--drafter", metavar="MODEL", help="Drafter; may be repeated.", autocompletion=offers("models")),
]
Method = Annotated[str | None, typer.Option("--method", help="Speculative method, where the drafter does not tell it.")]
DraftTokens = Annotated[
    str | None, typer.Option("--num-speculative-tokens", metavar="N", help="Tokens drafted at a time.")
]
DraftLengths = Annotated[
    str | None, typer.Option("--num-speculative-tokens", metavar="N[,N]...", help="Draft lengths, a row each.")
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        show_default=False,
        help="Rules: vllm-0.33.0 (default) or vllm-next.",
        autocompletion=offers("engines"),
    ),
]
LayoutName = Annotated[
    str | None,
    typer.Option(
        "--kv-cache-layout",
        metavar="NAME",
        help="As the variable VLLM_KV_CACHE_LAYOUT.",
        autocompletion=offers("layouts"),
    ),
]
CostCheck = Annotated[
    str,
    typer.Option(
        "--layout-cost-check", show_default=False, help="Third condition of vllm-next: padding (default) or worst-case."
    ),
]
Agreement = Annotated[
    str,
    typer.Option(
        "--layout-agreement",
        show_default=False,
        help="Layouts of pipeline stages: strict (default, as vLLM asserts) or intersect.",
    ),
]
Offline = Annotated[bool, typer.Option("--offline", help="Never use the network.")]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        show_default=False,
        help="text (default), json, markdown or csv.",
        autocompletion=offers("formats"),
    ),
]
ShortFormat = Annotated[str, typer.Option("--format", show_default=False, help="text (default) or json.")]
TableFormat = Annotated[str, typer.Option("--format", show_default=False, help="text (default), json or csv.")]
Output = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead of stdout.")
]
Ascii = Annotated[bool, typer.Option("--ascii", help="Draw with ASCII characters only.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="List on stderr the flags and variables that do not change the plan.")
]
Explain = Annotated[bool, typer.Option("--explain", help="Say which field and which vLLM file decided each row.")]
