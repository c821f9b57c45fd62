"""The command line: reads words, calls a plan, writes a report. Everything it decides is in the modules it calls.

Flags of vLLM are not declared here: whatever Typer does not know goes, in order, to the reader of vLLM's own flags, so
that a flag means here what it means in `vllm serve`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from kvplan import __version__
from kvplan.errors import KvplanError

app = typer.Typer(
    name="kvplan",
    help="Plan vLLM's KV cache before the boot: groups, padding, drafters, tokens.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_ANY_FLAG: dict[str, Any] = {"ignore_unknown_options": True, "allow_extra_args": True}
_VLLM_FLAGS = (
    "Every flag of `vllm serve` 0.33.0 is taken as vLLM takes it, among them -tp, -pp, --max-model-len, --block-size, "
    "--kv-cache-dtype, --kv-cache-memory-bytes, --max-num-batched-tokens, --max-num-seqs, --attention-backend, "
    "--speculative-config, --enable-prefix-caching, --mamba-cache-dtype, --num-gpu-blocks-override. "
    "A whole line goes after `--`: kvplan plan -- vllm serve MODEL ..."
)

Words = Annotated[list[str] | None, typer.Argument(help="Model (path, bundled or hub id), then flags of vllm serve.")]
GpuName = Annotated[str | None, typer.Option("--gpu", help="GPU by name; `kvplan gpus` lists them.")]
Drafter = Annotated[str | None, typer.Option("--drafter", help="Drafter: path, bundled or hub id.")]
Drafters = Annotated[list[str] | None, typer.Option("--drafter", help="Drafter; may be repeated.")]
Method = Annotated[str | None, typer.Option("--method", help="Speculative method, where the drafter does not tell it.")]
DraftTokens = Annotated[str | None, typer.Option("--num-speculative-tokens", help="Tokens drafted at a time.")]
Engine = Annotated[str, typer.Option("--engine", help="Engine rules: vllm-0.33.0 or vllm-next.")]
LayoutName = Annotated[str | None, typer.Option("--kv-cache-layout", help="As VLLM_KV_CACHE_LAYOUT.")]
CostCheck = Annotated[
    str, typer.Option("--layout-cost-check", help="Third condition of vllm-next: padding or worst-case.")
]
Offline = Annotated[bool, typer.Option("--offline", help="Never use the network.")]
Format = Annotated[str, typer.Option("--format", help="text, json, markdown or csv.")]
Output = Annotated[str | None, typer.Option("--output", "-o", help="Write to this file instead of stdout.")]
Ascii = Annotated[bool, typer.Option("--ascii", help="Draw with ASCII only.")]


def _version(value: bool) -> None:
    if value:
        print(f"kvplan {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Plan vLLM's KV cache before the boot: groups, padding, drafters, tokens."""


def main() -> None:
    """Run a command. A refusal or wrong usage is one sentence on stderr and exit code 2."""
    try:
        app()
    except KvplanError as error:
        print(f"kvplan: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
