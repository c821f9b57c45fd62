"""`kvplan gpus` and `kvplan models`: what is bundled and what is planned."""

from __future__ import annotations

from kvplan.commands.deployment import one_of
from kvplan.commands.outcome import Outcome
from kvplan.report.style import VIEW, View

FORMATS = ("text", "json", "csv")
_NARROW = 25
"""Columns below which a device name stands under its row."""


def gpus(format: str = "text", view: View = VIEW) -> Outcome:
    """Every bundled GPU: name, compute capability, memory as the driver and as CUDA report it in GiB, device name."""
    from kvplan.gpus import GPUS
    from kvplan.report.document import to_json
    from kvplan.report.lines import wrap
    from kvplan.units import GIB

    one_of("--format", format, FORMATS)
    if format == "json":
        return Outcome(to_json({"gpus": [gpu._asdict() for gpu in GPUS]}))
    if format == "csv":
        from kvplan.report.csv import gpus_csv

        return Outcome(gpus_csv(GPUS))
    width = max(len(gpu.name) for gpu in GPUS)
    rows = [f"{'name':<{width}}  compute        memory   CUDA's total  device name"]
    for gpu in GPUS:
        usable = "" if gpu.usable_memory_bytes is None else f"{gpu.usable_memory_bytes / GIB:.2f} GiB"
        name, (major, minor) = f"{gpu.name:<{width}}", gpu.capability
        memory = f"{gpu.total_memory_bytes / GIB:.2f} GiB"
        lead = f"{name}  {major:>5}.{minor}  {memory:>12}  {usable:>13}  "
        if view.columns < len(lead) + _NARROW:
            rows += [lead.rstrip(), *wrap(gpu.device_name, view.columns, "  ")]
        else:
            rows += wrap(gpu.device_name, view.columns, lead)
    words = (
        "memory: as the driver has it, which vLLM's defaults of batch sizes go by; CUDA's total: what programs can "
        "have, which --gpu-memory-utilization is a share of."
    )
    rows += ["", *wrap(words, view.columns)]
    return Outcome("\n".join(rows) + "\n")
