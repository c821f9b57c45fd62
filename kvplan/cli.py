"""The command line: hands words to a command, and prints what it gives back.

vLLM's flags are not declared here. Whatever Typer does not know goes, in order, to the reader of vLLM's own flags, so
that a flag means here what it means in `vllm serve`.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import click
import typer
import typer.core

from kvplan import __version__
from kvplan.options import (
    Agreement,
    Ascii,
    CostCheck,
    Drafter,
    Drafters,
    DraftLengths,
    DraftTokens,
    Engine,
    Explain,
    Format,
    GpuName,
    LayoutName,
    Method,
    Offline,
    Output,
    ShortFormat,
    TableFormat,
    Verbose,
    Words,
    offers,
)

if TYPE_CHECKING:
    from typer.models import CommandInfo

    from kvplan.commands.deployment import Choices
    from kvplan.commands.outcome import Outcome
    from kvplan.report.style import View

typer.core.HAS_RICH = False  # else Typer writes "\[required]", for its export to HTML

app = typer.Typer(
    name="kvplan",
    suggest_commands=False,  # click suggests already
    help="Plan vLLM's KV cache before the boot: groups, padding, drafters, tokens.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_ANY_FLAG: dict[str, Any] = {"ignore_unknown_options": True}
_COMPLETING: dict[str, Any] = {"cls": cls} if (cls := offers("WithVllmFlags")) else {}
_VLLM_FLAGS = (
    "Every flag of `vllm serve` 0.33.0 is taken as vLLM takes it, among them -tp, -pp, --max-model-len, --block-size, "
    "--kv-cache-dtype, --kv-cache-memory-bytes, --max-num-batched-tokens, --max-num-seqs, --attention-backend, "
    "--speculative-config, --enable-prefix-caching, --mamba-cache-dtype, --num-gpu-blocks-override and "
    "--min-kv-cache-group-layers."
)


@app.command(context_settings=_ANY_FLAG, epilog=_VLLM_FLAGS, **_COMPLETING)
def plan(
    words: Words = None,
    gpu: GpuName = None,
    drafter: Drafter = None,
    method: Method = None,
    num_speculative_tokens: DraftTokens = None,
    engine: Engine = "vllm-0.33.0",
    kv_cache_layout: LayoutName = None,
    layout_cost_check: CostCheck = "padding",
    layout_agreement: Agreement = "strict",
    weights_bytes: Annotated[
        str | None, typer.Option("--weights-bytes", metavar="SIZE", help="Weights per rank, in place of those derived.")
    ] = None,
    non_kv_memory_bytes: Annotated[
        str | None,
        typer.Option(
            "--non-kv-memory-bytes", metavar="SIZE", help="What a start-up takes besides weights and KV cache."
        ),
    ] = None,
    from_log: Annotated[
        str | None, typer.Option("--from-log", metavar="LOG", help="A start-up's log that says what it takes.")
    ] = None,
    offline: Offline = False,
    format: Format = "text",
    output: Output = None,
    ascii: Ascii = False,
    verbose: Verbose = False,
) -> None:
    """What will vLLM do with this deployment: groups, padding, capacity, and why."""
    from kvplan.commands import plan as command

    choices = _choices(gpu, engine, offline, kv_cache_layout, layout_cost_check, method, layout_agreement)
    _finish(
        command.run(
            words or [],
            choices,
            os.environ,
            drafter=drafter,
            num_speculative_tokens=num_speculative_tokens,
            weights_bytes=weights_bytes,
            non_kv_memory_bytes=non_kv_memory_bytes,
            from_log=from_log,
            format=format,
            view=_view(output, ascii),
            verbose=verbose,
        ),
        output,
    )


@app.command(context_settings=_ANY_FLAG, epilog=_VLLM_FLAGS, **_COMPLETING)
def compare(
    words: Words = None,
    gpu: GpuName = None,
    drafter: Drafters = None,
    method: Method = None,
    num_speculative_tokens: DraftLengths = None,
    engine: Engine = "vllm-0.33.0",
    kv_cache_layout: LayoutName = None,
    layout_cost_check: CostCheck = "padding",
    layout_agreement: Agreement = "strict",
    offline: Offline = False,
    format: Format = "text",
    output: Output = None,
    ascii: Ascii = False,
) -> None:
    """What does each drafter cost, under each grouping, and why."""
    from kvplan.commands import compare as command

    choices = _choices(gpu, engine, offline, kv_cache_layout, layout_cost_check, method, layout_agreement)
    _finish(
        command.run(
            words or [],
            choices,
            os.environ,
            drafters=drafter or [],
            num_speculative_tokens=num_speculative_tokens,
            format=format,
            view=_view(output, ascii),
        ),
        output,
    )


@app.command(context_settings=_ANY_FLAG, epilog=_VLLM_FLAGS, **_COMPLETING)
def fit(
    words: Words = None,
    gpus: Annotated[
        str | None,
        typer.Option("--gpus", "--gpu", metavar="NAME", help="The node's GPU.", autocompletion=offers("gpus")),
    ] = None,
    concurrency: Annotated[
        str, typer.Option("--concurrency", metavar="N", help="Requests of --max-model-len at once.")
    ] = "1",
    gpus_per_node: Annotated[str, typer.Option("--gpus-per-node", metavar="N", help="GPUs of the node.")] = "8",
    drafter: Drafter = None,
    method: Method = None,
    num_speculative_tokens: DraftTokens = None,
    offline: Offline = False,
    format: ShortFormat = "text",
    output: Output = None,
    ascii: Ascii = False,
) -> None:
    """The smallest -tp and -pp on one node that starts and serves a load."""
    from kvplan.commands import fit as command

    _finish(
        command.run(
            words or [],
            _choices(gpus, method=method, offline=offline),
            os.environ,
            concurrency=concurrency,
            gpus_per_node=gpus_per_node,
            drafter=drafter,
            num_speculative_tokens=num_speculative_tokens,
            format=format,
            view=_view(output, ascii),
        ),
        output,
    )


@app.command(context_settings=_ANY_FLAG, epilog=_VLLM_FLAGS, **_COMPLETING)
def layers(
    words: Words = None,
    gpu: GpuName = None,
    drafter: Drafter = None,
    method: Method = None,
    num_speculative_tokens: DraftTokens = None,
    engine: Engine = "vllm-0.33.0",
    offline: Offline = False,
    explain: Explain = False,
    format: Format = "text",
    output: Output = None,
    ascii: Ascii = False,
) -> None:
    """What every layer caches: kind, heads, block, page bytes, backend, kernel blocks."""
    from kvplan.commands import layers as command

    _finish(
        command.run(
            words or [],
            _choices(gpu, engine, offline, method=method),
            os.environ,
            drafter=drafter,
            num_speculative_tokens=num_speculative_tokens,
            explain=explain,
            format=format,
            view=_view(output, ascii),
        ),
        output,
    )


@app.command("kernel-blocks", context_settings=_ANY_FLAG, epilog=_VLLM_FLAGS, **_COMPLETING)
def kernel_blocks(
    words: Words = None,
    gpu: GpuName = None,
    drafter: Drafter = None,
    method: Method = None,
    num_speculative_tokens: DraftTokens = None,
    engine: Engine = "vllm-0.33.0",
    kv_cache_layout: LayoutName = None,
    layout_cost_check: CostCheck = "padding",
    layout_agreement: Agreement = "strict",
    offline: Offline = False,
    format: TableFormat = "text",
    output: Output = None,
    ascii: Ascii = False,
) -> None:
    """What attention kernels read of a block: kernel blocks, strides, bytes."""
    from kvplan.commands import kernels as command

    _finish(
        command.run(
            words or [],
            _choices(gpu, engine, offline, kv_cache_layout, layout_cost_check, method, layout_agreement),
            os.environ,
            drafter=drafter,
            num_speculative_tokens=num_speculative_tokens,
            format=format,
            view=_view(output, ascii),
        ),
        output,
    )


@app.command()
def verify(
    log: Annotated[str, typer.Argument(metavar="LOG", help="A start-up log, or - for stdin.")],
    assume_engine: Annotated[
        str | None, typer.Option("--assume-engine", metavar="VERSION", help="Release whose rules are taken, as 0.33.0.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="Config of the log's model: path, bundled or hub id.")
    ] = None,
    drafter: Drafter = None,
    gpu: GpuName = None,
    engine: Engine = "vllm-0.33.0",
    offline: Offline = False,
    format: TableFormat = "text",
    output: Output = None,
) -> None:
    """Does a vLLM start-up log agree with the plan, and if not, what differs first."""
    from kvplan.commands import verify as command

    _finish(
        command.run(
            log,
            os.environ,
            assume_engine=assume_engine,
            model=model,
            drafter=drafter,
            gpu=gpu,
            engine=engine,
            offline=offline,
            format=format,
            view=_view(output, False),
        ),
        output,
    )


def _schema(value: bool) -> None:
    if value:
        from kvplan.commands.check import schema

        print(schema(), end="")
        raise typer.Exit


@app.command()
def check(
    file: Annotated[str, typer.Argument(metavar="FILE.yaml", help="Deployments with their limits.")],
    update: Annotated[bool, typer.Option("--update", help="Record the plans in kvplan.lock beside the file.")] = False,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            help="Rules for all deployments: vllm-0.33.0, vllm-next.",
            autocompletion=offers("engines"),
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            help="Judge an upgrade to these engine rules, with the plan of --engine in place of the lock.",
            autocompletion=offers("engines"),
        ),
    ] = None,
    offline: Offline = False,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            show_default=False,
            help="text (default), json, markdown, csv, junit or github.",
            autocompletion=offers("check_formats"),
        ),
    ] = "text",
    output: Output = None,
    schema: Annotated[
        bool, typer.Option("--schema", callback=_schema, is_eager=True, help="Print the JSON schema of FILE.yaml.")
    ] = False,
) -> None:
    """Do the deployments of a file still meet their limits and their recorded baseline?"""
    from kvplan.commands import check as command

    _finish(
        command.run(
            file,
            update=update,
            engine=engine,
            against=against,
            offline=offline,
            format=format,
            view=_view(output, False),
            output=output,
        ),
        output,
    )


@app.command(context_settings=_ANY_FLAG)
def args(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE | -- COMMAND...", help="A script, manifest or unit (- for stdin), or a command."),
    ] = None,
    output: Output = None,
) -> None:
    """What is read of a serve line, a compose file, a manifest or a systemd unit, as JSON."""
    from kvplan.commands import args as command

    _finish(command.run(words or []), output)


@app.command()
def models(format: ShortFormat = "text", output: Output = None) -> None:
    """Every architecture that is planned, what of it was compared with a real engine, and the bundled ids."""
    from kvplan.commands.models import run as command

    _finish(command(format, _view(output, False)), output)


@app.command()
def gpus(format: TableFormat = "text", output: Output = None) -> None:
    """The bundled GPUs: compute capability, memory, device name."""
    from kvplan.commands.lists import gpus as command

    _finish(command(format, _view(output, False)), output)


def _choices(
    gpu: str | None,
    engine: str = "vllm-0.33.0",
    offline: bool = False,
    kv_cache_layout: str | None = None,
    layout_cost_check: str = "padding",
    method: str | None = None,
    layout_agreement: str = "strict",
) -> Choices:
    from kvplan.commands.deployment import Choices

    return Choices(gpu, engine, offline, kv_cache_layout, layout_cost_check, method, layout_agreement)


def _view(output: str | None, ascii: bool) -> View:
    from kvplan.commands.terminal import view

    return view(output, ascii)


def _finish(outcome: Outcome, output: str | None) -> None:
    """Show the outcome and exit with the command's code."""
    from kvplan.commands.terminal import show

    raise typer.Exit(show(outcome, output))


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


def _asked(word: str | None) -> list[CommandInfo]:
    """The command that is asked for, so that Typer does not build the others; all for any other word."""
    every = app.registered_commands
    asked = [command for command in every if word == (command.name or getattr(command.callback, "__name__", None))]
    return asked or every


_TAKE_A_LINE = frozenset({"plan", "compare", "fit", "layers", "kernel-blocks"})


def _with_line(words: list[str]) -> list[str]:
    """The words with the -- before a pasted line doubled: Typer drops one, the other says where the line begins."""
    if not words or words[0] not in _TAKE_A_LINE or "--" not in words[:-1]:
        return words
    from kvplan.request import starts_a_server

    at = words.index("--")
    return [*words[:at], "--", *words[at:]] if starts_a_server(words[at + 1]) else words


def own_options(command: str) -> tuple[str, ...]:
    """The options of a command that are kvplan's own."""
    import typer.main

    found = getattr(typer.main.get_command(app), "commands", {}).get(command)
    return () if found is None else tuple(flag for param in found.params for flag in param.opts if flag[:2] == "--")


def run() -> int:
    """Run a command and give its exit code. KvplanError for a refusal or wrong usage."""
    every = app.registered_commands
    app.registered_commands = _asked(sys.argv[1] if len(sys.argv) > 1 else None)
    try:
        code = app(_with_line(sys.argv[1:]), prog_name="kvplan", standalone_mode=False)
    except SystemExit as ended:
        code = ended.code
    except click.exceptions.NoArgsIsHelpError as asked:
        asked.show()
        code = asked.exit_code
    except click.ClickException as error:
        from kvplan.usage import told

        raise told(error, sys.argv[1:]) from None
    finally:
        app.registered_commands = every
    return code if isinstance(code, int) else 0
