"""`kvplan gpus` and `kvplan models`: what is bundled and what is planned."""

from __future__ import annotations

from kvplan.commands.deployment import one_of
from kvplan.commands.outcome import Outcome

FORMATS = ("text", "json")


def gpus(format: str = "text") -> Outcome:
    """Every bundled GPU: name, compute capability, memory as the driver and as CUDA report it in GiB, device name."""
    from kvplan.gpus import GPUS
    from kvplan.report.document import to_json
    from kvplan.units import GIB

    one_of("--format", format, FORMATS)
    if format == "json":
        return Outcome(to_json({"gpus": [gpu._asdict() for gpu in GPUS]}))
    width = max(len(gpu.name) for gpu in GPUS)
    rows = [f"{'name':<{width}}  compute        memory   CUDA's total  device name"]
    for gpu in GPUS:
        usable = "" if gpu.usable_memory_bytes is None else f"{gpu.usable_memory_bytes / GIB:.2f} GiB"
        name, (major, minor) = f"{gpu.name:<{width}}", gpu.capability
        memory = f"{gpu.total_memory_bytes / GIB:.2f} GiB"
        rows.append(f"{name}  {major:>5}.{minor}  {memory:>12}  {usable:>13}  {gpu.device_name}")
    rows += [
        "",
        "memory: as the driver has it, which vLLM's defaults of batch sizes go by;",
        "CUDA's total: what programs can have, which --gpu-memory-utilization is a share",
        "of.",
    ]
    return Outcome("\n".join(rows) + "\n")
