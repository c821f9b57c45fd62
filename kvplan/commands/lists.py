"""`kvplan gpus` and `kvplan models`: what is bundled and what is planned."""

from __future__ import annotations

from kvplan.commands.deployment import one_of
from kvplan.commands.outcome import Outcome

FORMATS = ("text", "json")


def gpus(format: str = "text") -> Outcome:
    """Every bundled GPU: name, compute capability, memory in GiB, device name."""
    from kvplan.gpus import GPUS
    from kvplan.report.document import to_json
    from kvplan.units import GIB

    one_of("--format", format, FORMATS)
    if format == "json":
        return Outcome(to_json({"gpus": [gpu._asdict() for gpu in GPUS]}))
    width = max(len(gpu.name) for gpu in GPUS)
    rows = [f"{'name':<{width}}  compute        memory  device name"]
    rows += [
        f"{gpu.name:<{width}}  {gpu.capability[0]:>5}.{gpu.capability[1]}  {gpu.total_memory_bytes / GIB:8.2f} GiB  "
        f"{gpu.device_name}"
        for gpu in GPUS
    ]
    return Outcome("\n".join(rows) + "\n")
