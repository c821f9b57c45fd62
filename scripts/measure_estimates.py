"""Hold the estimates of kvplan.estimates, and the derived weights, against start-ups that were measured.

Usage: measure_estimates.py FILE.jsonl ... [--models FOLDER]. Each line of a file is a start-up: model, gpu,
vllm_version, tp, pp, args, max_num_batched_tokens, weights_gib, available_kv_cache_gib, and in ``other`` what else the
log printed (activation_gib, non_torch_gib, estimated_cudagraph_gib); or, beside logs, the log's ``file`` with
``expected`` numbers under the same names. Prints each comparison and a table for the README.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from kvplan.commands.deployment import Choices, request
from kvplan.errors import KvplanError
from kvplan.estimates import GIB, Estimate, estimate, graphs
from kvplan.pipeline import plan_read, read
from kvplan.weights.checks import stages

GPUS = {
    name.lower().replace(" ", ""): name
    for name in ("A100 40GB", "H100", "H200", "GB300", "GB10", "L40S", "RTX 4090", "RTX 5090", "RTX PRO 6000")
} | {"40gbclass": "A100 40GB", "96gbblackwell": "RTX PRO 6000", "a100sxm440gb": "A100 40GB"}
"""Parts of what logs call a GPU."""


_UNKNOWN = (0, 20)
"""The release of a log that does not name it."""


class Pair(NamedTuple):
    """An estimate and what was measured, in GiB."""

    case: str
    quantity: str
    estimated: float
    measured: float

    @property
    def error(self) -> float:
        """Of the estimate, relative to what was measured."""
        return self.estimated / self.measured - 1


def main() -> None:
    words = sys.argv[1:]
    folder = Path(words.pop(words.index("--models") + 1)) if "--models" in words else None
    files = [Path(word) for word in words if word != "--models"]
    pairs = [pair for file in files for case in _cases(file) for pair in _pairs(case, folder)]
    for pair in pairs:
        print(f"{pair.case:45} {pair.quantity:30} {pair.estimated:8.2f} {pair.measured:8.2f} {pair.error:+8.1%}")
    print("\n| quantity | start-ups | median error | worst |\n|---|---|---|---|")
    for quantity in dict.fromkeys(pair.quantity for pair in pairs):
        errors = [pair.error for pair in pairs if pair.quantity == quantity]
        worst = max(errors, key=abs)
        print(f"| {quantity} | {len(errors)} | {median(map(abs, errors)):.1%} | {worst:+.1%} |")


def _cases(file: Path) -> list[dict[str, Any]]:
    """The start-ups of a file; what a log itself says of its options is read of it."""
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    return [_case(entry, file.parent) for entry in entries if not entry.get("derived")]


def _case(entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    if "file" not in entry:
        return entry
    from kvplan.logs import open_log, read_log

    with open(folder / entry["file"], "rb") as stream:
        memory = read_log(open_log(stream)).memory
    told = str(entry.get("gpu")).replace("util ", "gpu_memory_utilization=")
    args = f"{told} gpu_memory_utilization={memory.gpu_memory_utilization}" if memory.gpu_memory_utilization else told
    other = {"estimated_cudagraph_gib": memory.cuda_graph_estimate_gib, "cudagraph_gib": memory.cuda_graph_gib}
    named = {"id": entry["file"], "vllm_version": entry.get("version"), "args": args, "other": other}
    return {**entry, **entry["expected"], **named, "model": str(entry.get("model")).replace("/data/models/", "Qwen/")}


def _pairs(case: dict[str, Any], folder: Path | None) -> list[Pair]:
    """What of a start-up can be held against kvplan's numbers."""
    gpu = next((name for part, name in GPUS.items() if part in _squeezed(str(case.get("gpu")))), None)
    model, release = _model(str(case.get("model")), folder), _release(str(case.get("vllm_version")))
    if gpu is None or model is None or not case.get("weights_gib"):
        return []
    try:
        words = [model, "--trust-remote-code", *_flags(case)]
        wanted = request(words, Choices(gpu=gpu, offline=True), {})
        args, inputs = read(wanted.args, offline=True)
        result = plan_read(wanted._replace(args=args), inputs)
        found = stages(result.config, inputs.target, inputs.drafter)
    except KvplanError as error:
        print(f"{case['id']}: {error}")
        return []
    weights = max(sum(t.bytes for t in (*s.target, *s.drafter)) for s in found) / GIB
    estimated, other = estimate(result.config, release), case.get("other") or {}
    pairs = [Pair(case["id"], "weights", weights, case["weights_gib"])]
    captured = other.get("cudagraph_gib") or other.get("estimated_cudagraph_gib") or 0.0
    if captured > 0:
        pairs.append(Pair(case["id"], "CUDA graphs", graphs(result.config) / GIB, captured))
    return (
        pairs if estimated is None else [*pairs, *_rest(case, estimated, result.config.gpu.usable_memory_bytes / GIB)]
    )


def _rest(case: dict[str, Any], estimated: Estimate, usable: float) -> list[Pair]:
    name, other = case["id"], case.get("other") or {}
    lines = {line.what: line.bytes / GIB for line in estimated.lines}
    pairs = []
    for what, key in (("activations", "activation_gib"), ("outside torch", "non_torch_gib")):
        if other.get(key):
            pairs.append(Pair(name, what, lines.get(what, 0.0), other[key]))
    parts = [other.get(key) for key in ("activation_gib", "non_torch_gib")]
    rest = sum(parts) if all(parts) else 0.0
    if not rest and case.get("available_kv_cache_gib"):
        rest = usable * _utilization(case) - case["weights_gib"] - case["available_kv_cache_gib"]
    if rest > 0:
        pairs.append(Pair(name, "all besides weights", estimated.bytes / GIB, rest))
    return pairs


def _squeezed(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _model(name: str, folder: Path | None) -> str | None:
    """A folder with the model's config, or its id where there is none; None where the log names no published model."""
    name = name.replace("Meta-Llama-3.1", "Llama-3.1")
    if " " in name:
        return None
    path = None if folder is None else folder / name.replace("/", "__")
    return str(path) if path is not None and path.is_dir() else name


def _release(version: str) -> tuple[int, int]:
    found = re.match(r"0\.(\d+)", version)
    return (0, int(found[1])) if found and int(found[1]) > 1 else _UNKNOWN


def _utilization(case: dict[str, Any]) -> float:
    found = re.search(r"gpu[-_]memory[-_]utilization[ =]([0-9.]+)", str(case.get("args")))
    return float(found[1]) if found else 0.9


def _flags(case: dict[str, Any]) -> list[str]:
    text, flags = str(case.get("args")), ["-tp", str(case.get("tp") or 1), "-pp", str(case.get("pp") or 1)]
    for name in ("max-num-seqs", "max-num-batched-tokens", "max-model-len", "dtype"):
        found = re.search(rf"--{name}[ =]([\w.]+)|\b{name.replace('-', '_')}=([\w.]+)", text)
        if found:
            flags += [f"--{name}", found[1] or found[2]]
    if case.get("max_num_batched_tokens") and "--max-num-batched-tokens" not in flags:
        flags += ["--max-num-batched-tokens", str(case["max_num_batched_tokens"])]
    if "enforce_eager" in text or "enforce-eager" in text:
        flags.append("--enforce-eager")
    if "language-model-only" in text:
        flags.append("--language-model-only")
    return flags


if __name__ == "__main__":
    main()
