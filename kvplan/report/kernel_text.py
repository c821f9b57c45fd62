"""`kvplan kernel-blocks` as text and as a document: what kernels read of a block, and where its bytes lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvplan.kernel_blocks import AttentionGroup, KernelBlocks, Placement
from kvplan.layout import is_block_outermost
from kvplan.report.decision import assumed_words, engine_words, gpus, stages_words
from kvplan.report.layers_text import model_words
from kvplan.report.lines import Column, table, wrap
from kvplan.report.numbers import number, plural, size
from kvplan.report.style import VIEW, View
from kvplan.report.transfer_text import transfer_document, transfer_lines
from kvplan.result import Plan, Result
from kvplan.spec import AttentionSpec

_COLUMNS = (
    Column("group", keep=9),
    Column("layers", keep=8),
    Column("backend", right=False, keep=9, elastic=True),
    Column("block", keep=9),
    Column("kernel", keep=9),
    Column("per block", keep=9),
    Column("stride", keep=9),
    Column("bytes", keep=7),
    Column("how", right=False, keep=9),
)
_HOW = {"whole": "whole", "dense": "split", "packed": "mapped"}
_LEGEND = {
    "whole": "whole: the block is one kernel block",
    "dense": "split: kernel blocks lie side by side",
    "packed": "mapped: kernel blocks of one block are neighbours, other layers' pages lie before those of the next",
}
SAMPLE_BLOCKS = (1, 2, 7)
"""Manager blocks of the worked table; block 0 is the null block."""
_SHOWN_KERNEL_BLOCKS = 4


def kernel_text(result: Result, bound: KernelBlocks, view: View = VIEW) -> str:
    """The kernel blocks of the plan that the engine uses: a row per attention group, a worked table, a block drawn."""
    plan = result.plans[result.selected]
    head = (
        f"{model_words(result)} under {engine_words(result.engine)} on {gpus(result)}{assumed_words(result.assumed)}, "
        f"{result.selected} grouping, layout {plan.layout}."
    )
    out = [view.paint("used", line) for line in wrap(head, view.columns)]
    if bound.error is not None:
        out += ["", *wrap(f"The worker cannot bind this cache: {bound.error}", view.columns)]
    if bound.attention_groups:
        out += ["", *_table(bound, view)]
        out += ["", view.paint("title", "Kernel block j of block b"), *_worked(bound.attention_groups, view)]
    if plan.bytes_per_block and bound.placements:
        out += ["", view.paint("title", "One block in the pool"), *_block(plan, bound, view)]
    split = [group for group in bound.attention_groups if group.mode != "whole"]
    if split:
        out += ["", view.paint("title", "One page in kernel blocks"), *_pages(split, view)]
    moved = transfer_lines(result, view)
    if moved:
        out += ["", *moved]
    return "\n".join(out) + "\n"


def _table(bound: KernelBlocks, view: View) -> list[str]:
    rows = [
        (
            str(group.group),
            number(len(group.layers)),
            group.backend,
            number(group.spec.block_size),
            number(group.kernel_block_size),
            number(group.kernel_blocks_per_block),
            number(group.stride),
            size(group.page_bytes),
            _HOW[group.mode],
        )
        for group in bound.attention_groups
    ]
    lines = table(_COLUMNS, rows, view.columns, view.glyphs.ellipsis)
    legend = "; ".join(_LEGEND[mode] for mode in dict.fromkeys(group.mode for group in bound.attention_groups))
    return [view.paint("title", lines[0]), *lines[1:], *wrap(legend, view.columns)]


def _worked(groups: Sequence[AttentionGroup], view: View) -> list[str]:
    """b * stride + j for a few blocks, once for each stride; blocks that run whole keep their number."""
    out: list[str] = []
    known: set[tuple[int, int]] = set()
    for group in groups:
        key = (group.stride, group.kernel_blocks_per_block)
        if key in known:
            continue
        known.add(key)
        if group.mode == "whole":
            out += wrap("blocks that run whole: kernel block b of block b", view.columns, "  ", "    ")
            continue
        out += wrap(f"{group.backend}: b x {number(group.stride)} + j", view.columns, "  ", "    ")
        for block in SAMPLE_BLOCKS:
            numbers = group.table([block])
            shown = [number(n) for n in numbers[:_SHOWN_KERNEL_BLOCKS]]
            if len(numbers) > _SHOWN_KERNEL_BLOCKS:
                shown += [view.glyphs.ellipsis, number(numbers[-1])]
            out += wrap(f"block {block}: {', '.join(shown)}", view.columns, "    ", "      ")
    return out


def _block(plan: Plan, bound: KernelBlocks, view: View) -> list[str]:
    """The pages of one block, group by group: bytes from where to where, and what they are to a kernel."""
    outermost = is_block_outermost(plan.layout)
    out = wrap(
        f"a block is {number(plan.bytes_per_block or 0)} bytes{stages_words(plan)} "
        + (
            "in one piece; groups lie over each other from byte 0"
            if outermost
            else "in all, each layer's in its region"
        ),
        view.columns,
        "  ",
    )
    for index, group in enumerate(plan.groups):
        out.append(
            f"  group {index}: {plural(len(group.layers), 'layer')}, blocks of {number(group.block_size)} tokens"
        )
        for placed in (p for p in bound.placements if p.group == index):
            out += wrap(_run(placed, bound, outermost), view.columns, "    ", "      ")
        if outermost and group.padding_bytes:
            end = plan.bytes_per_block or 0
            out.append(f"    bytes {number(end - group.padding_bytes)} to {number(end)}: no layer's")
    return out


def _run(placed: Placement, bound: KernelBlocks, outermost: bool) -> str:
    """Equal layers of a group: their pages, alignment padding, and the bytes of a kernel block."""
    spec = placed.spec
    page = spec.page_size_bytes
    where = (
        f"bytes {number(placed.offset)} to {number(placed.offset + page * len(placed.layers))}: "
        if outermost
        else f"{number(placed.block_stride)} bytes from one block to the next: "
    )
    text = f"{where}{plural(len(placed.layers), 'page')} of {number(page)} bytes ({placed.layers[0]}"
    text += ", ...)" if len(placed.layers) > 1 else ")"
    unused = page - spec.unpadded_page_size_bytes
    if unused:
        text += f", {number(unused)} of each unused"
    if not outermost and placed.block_stride > page:
        text += f", then {number(placed.block_stride - page)} to the next aligned block"
    if isinstance(spec, AttentionSpec):
        for group in bound.attention_groups:
            if placed.layers[0] in group.layers and group.mode != "whole":
                text += f"; a kernel block is {number(group.page_bytes)} bytes of a page"
    return text


def _pages(groups: Sequence[AttentionGroup], view: View) -> list[str]:
    """A page of each kind, its kernel blocks side by side with the byte at which each begins."""
    out: list[str] = []
    drawn: set[tuple[str, int, int]] = set()
    for group in groups:
        key = (group.backend, group.page_bytes, group.kernel_blocks_per_block)
        if key in drawn:
            continue
        drawn.add(key)
        page, count = group.page_bytes * group.kernel_blocks_per_block, group.kernel_blocks_per_block
        head = f"{group.backend}: {number(page)} bytes, {count} kernel blocks of {number(group.page_bytes)} bytes"
        out += wrap(f"{head} and {group.kernel_block_size} tokens", view.columns, "  ", "    ")
        out += _ruler(count, group.page_bytes, view)
        unused = group.spec.page_size_bytes - page
        if unused:
            out += wrap(f"bytes {number(page)} to {number(page + unused)}: alignment padding", view.columns, "    ")
    return out


def _ruler(count: int, step: int, view: View) -> list[str]:
    """Kernel blocks as boxes over their first bytes; those that do not fit are left out in the middle."""
    bar, ellipsis = view.glyphs.bar, view.glyphs.ellipsis
    width = max(len(str(count - 1)), len(number((count - 1) * step))) + 2
    most = max(3, (view.columns - 6) // (width + 1))
    indices = list(range(count)) if count <= most else [*range(most - 2), -1, count - 1]
    boxes = bar.join((ellipsis if i < 0 else str(i)).center(width) for i in indices)
    below = " ".join(("" if i < 0 else number(i * step)).ljust(width) for i in indices)
    return [f"    {bar}{boxes}{bar}", f"    {below}".rstrip()]


def kernel_document(result: Result, bound: KernelBlocks) -> dict[str, Any]:
    """The same as plain values: sizes in tokens, lengths in bytes."""
    plan = result.plans[result.selected]
    return {
        "schema_version": 1,
        "model": result.model._asdict(),
        "grouping": result.selected,
        "layout": plan.layout,
        "bytes_per_block": plan.bytes_per_block,
        "error": bound.error,
        "kernel_block_sizes": list(bound.group_sizes),
        "attention_groups": [
            {
                "group": group.group,
                "layers": list(group.layers),
                "backend": group.backend,
                "block_size": group.spec.block_size,
                "kernel_block_size": group.kernel_block_size,
                "kernel_blocks_per_block": group.kernel_blocks_per_block,
                "kernel_block_stride": group.stride,
                "kernel_page_bytes": group.page_bytes,
                "mode": group.mode,
            }
            for group in bound.attention_groups
        ],
        "placements": [
            {
                "group": placed.group,
                "layers": list(placed.layers),
                "offset_bytes": placed.offset,
                "layer_stride_bytes": placed.layer_stride,
                "block_stride_bytes": placed.block_stride,
            }
            for placed in bound.placements
        ],
        "transfer": transfer_document(result),
    }
