"""How long `kvplan check` takes for 500 deployments, and its ratio to `python -c "import argparse, json"`.

    python benchmarks/check.py [--deployments 500]

Deployments differ in model, drafter, length, batch, parallel size and budget, so that no two plans are the same. The
lock is written first; what is measured is the check against it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAIRS = [
    ("Qwen/Qwen3.6-35B-A3B-FP8", {"model": "z-lab/Qwen3.6-35B-A3B-DFlash", "num_speculative_tokens": 7}),
    ("Qwen/Qwen3-8B", {"model": "AngelSlim/Qwen3-8B_eagle3", "method": "eagle3", "num_speculative_tokens": 3}),
    ("google/gemma-3-27b-it", None),
    ("openai/gpt-oss-120b", None),
    ("deepseek-ai/DeepSeek-V3", None),
]
LENGTHS, BATCHES, BUDGETS = range(8192, 8192 * 6, 8192), (2048, 4096, 8192, 16384, 32768), (40, 50, 60, 70)


def fleet(count: int) -> list[dict[str, object]]:
    """That many deployments, no two alike."""
    combined = itertools.product(BUDGETS, BATCHES, LENGTHS, PAIRS)
    return [
        {
            "name": f"d{index}",
            "model": model,
            "gpu": "H200",
            "tensor_parallel_size": 8 if "V3" in model else 1,
            "kv_cache_memory": f"{budget}GiB",
            "max_model_len": length,
            "max_num_batched_tokens": batch,
            **({"speculative_config": drafter} if drafter else {}),
        }
        for index, (budget, batch, length, (model, drafter)) in enumerate(itertools.islice(combined, count))
    ]


def timed(argv: list[str]) -> tuple[float, float]:
    """Elapsed and processor seconds of a command that must succeed."""
    begin = time.perf_counter()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(argv)}: exit code {process.returncode}")
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--deployments", type=int, default=500)
    count = parser.parse_args().deployments
    kvplan = str(Path(sys.executable).with_name("kvplan"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fleet.yaml")
        path.write_text(json.dumps({"deployments": fleet(count)}, indent=1))
        timed([kvplan, "check", str(path), "--update", "--offline"])
        elapsed, own = min(timed([kvplan, "check", str(path), "--offline"]) for _ in range(3))
        base = min(timed([sys.executable, "-c", "import argparse, json"])[1] for _ in range(5))
    print(f"{count} deployments: {elapsed:.2f} s ({own:.2f} s of processor time, {own / base:.0f} x the baseline)")


if __name__ == "__main__":
    main()
