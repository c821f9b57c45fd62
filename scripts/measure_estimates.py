"""Hold the estimates of kvplan.estimates, and the derived weights, against start-ups that were measured.

Usage: measure_estimates.py [FILE.jsonl ...]; without a file, those of startups.jsonl beside this script: the numbers
that public start-ups printed, one a line: model, gpu, release, tp, pp, flags, gpu_memory_utilization, weights_gib, and
what of available_kv_cache_gib, activation_gib, non_torch_gib and cudagraph_gib the log had. ``config`` has the sizes of
a model that is not bundled, ``planned_as`` names one of the same sizes, and ``sets_constants`` marks the start-ups that
the constants were taken from: the table has them apart.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from kvplan.commands.deployment import Choices, request
from kvplan.engine.args import EngineConfig
from kvplan.errors import KvplanError
from kvplan.estimates import GIB, HIGHEST, LOWEST, Estimate, estimate, graphs
from kvplan.inputs import Inputs, read
from kvplan.pipeline import plan_read
from kvplan.weights.checks import stages

STARTUPS = Path(__file__).with_name("startups.jsonl")
ALL = "all besides weights"


class Pair(NamedTuple):
    """An estimate and what was measured, in GiB."""

    case: str
    sets_constants: bool
    quantity: str
    estimated: float
    measured: float

    @property
    def error(self) -> float:
        """Of the estimate, relative to what was measured."""
        return self.estimated / self.measured - 1


def main() -> None:
    files = [Path(word) for word in sys.argv[1:]] or [STARTUPS]
    cases = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    pairs = [pair for case in cases for pair in measured(case)]
    for pair in pairs:
        mark = "*" if pair.sets_constants else " "
        print(f"{pair.case:45}{mark}{pair.quantity:22}{pair.estimated:8.2f} {pair.measured:8.2f} {pair.error:+8.1%}")
    print("\n".join(["", *table(pairs)]))


def table(pairs: Sequence[Pair]) -> Iterator[str]:
    """The README's table: how many start-ups, their median error and the worst, for those apart that set constants."""
    yield "| quantity | start-ups that set constants | median | worst | other start-ups | median | worst |"
    yield "|---|---|---|---|---|---|---|"
    for quantity in dict.fromkeys(pair.quantity for pair in pairs):
        cells: list[str] = []
        for sets in (True, False):
            errors = [p.error for p in pairs if p.quantity == quantity and p.sets_constants == sets]
            cells.append(str(len(errors)))
            cells += [f"{median(map(abs, errors)):.1%}", f"{max(errors, key=abs):+.1%}"] if errors else ["", ""]
        yield f"| {quantity} | {' | '.join(cells)} |"
    found = [pair for pair in pairs if pair.quantity == ALL]
    inside = sum(pair.estimated * LOWEST <= pair.measured <= pair.estimated * HIGHEST for pair in found)
    yield ""
    yield f"Within x{LOWEST:g} to x{HIGHEST:g} of the sum: {inside} of {len(found)} start-ups."


def measured(case: dict[str, Any]) -> list[Pair]:
    """What of a start-up can be held against kvplan's numbers."""
    release = _release(case["release"])
    try:
        config, inputs = planned(case)
    except KvplanError as error:
        print(f"{case['id']}: {error}")
        return []
    found = estimate(config, release, samples=case["pp"] == 1)
    numbers = dict(_numbers(case, config, found, release)) if found is not None else {}
    weights = None if {"config", "planned_as"} & case.keys() else _weights(config, inputs)
    if weights is not None:
        numbers = {"weights": (weights, case["weights_gib"]), **numbers}
    sets = case.get("sets_constants", False)
    return [Pair(case["id"], sets and what != "weights", what, e / GIB, m) for what, (e, m) in numbers.items()]


def _weights(config: EngineConfig, inputs: Inputs) -> int | None:
    """Bytes of the first stage's rank; None where they are not known."""
    try:
        first = stages(config, inputs.target, inputs.drafter)[0]
    except KvplanError:
        return None
    return sum(t.bytes for t in (*first.target, *first.drafter))


def _numbers(
    case: dict[str, Any], config: EngineConfig, found: Estimate, release: tuple[int, int]
) -> Iterator[tuple[str, tuple[float, float]]]:
    """Each quantity that the log printed: the estimate in bytes, and the measured GiB."""
    lines = {line.what: line.bytes for line in found.lines}
    active = lines["activations"] + lines.get("experts' workspace", 0)
    taken = graphs(config, release)
    if "activation_gib" in case:
        yield "activations", (active, case["activation_gib"])
    if "non_torch_gib" in case:
        yield "outside torch", (lines["outside torch"], case["non_torch_gib"])
    if "cudagraph_gib" in case:
        yield "CUDA graphs", (taken, case["cudagraph_gib"])
    if "available_kv_cache_gib" in case:
        usable = case.get("usable_gib", (config.gpu.usable_memory_bytes or 0) / GIB)
        rest = usable * case["gpu_memory_utilization"] - case["weights_gib"] - case["available_kv_cache_gib"]
        yield ALL, (found.bytes, rest)


def planned(case: dict[str, Any]) -> tuple[EngineConfig, Inputs]:
    """The start-up's resolved options. KvplanError where it cannot be planned."""
    with TemporaryDirectory() as folder:
        name = case.get("planned_as") or case["model"]
        if "config" in case:
            name = folder
            Path(folder, "config.json").write_text(json.dumps(case["config"]), encoding="utf-8")
        words = [name, "--trust-remote-code", "-tp", str(case["tp"]), "-pp", str(case["pp"]), *case["flags"]]
        wanted = request(words, Choices(gpu=case["gpu"], offline=True), {})
        args, inputs = read(wanted.args, offline=True)
        return plan_read(wanted._replace(args=args), inputs).config, inputs


def _release(version: str) -> tuple[int, int]:
    major, minor = version.split(".")
    return int(major), int(minor)


if __name__ == "__main__":
    main()
