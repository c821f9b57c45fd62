"""How long a command takes, as a multiple of `python -c "import argparse, json"` in the same run.

    python benchmarks/startup.py [--runs 30]

Each command runs in turn with the baseline, so that what else the machine does falls on both alike; the ratio is of the
medians of processor time (user and system), and the peak memory is the largest seen. Needs an installed kvplan, not an
editable one: an editable install finds its modules through a slower path.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

PAIR = ["Qwen/Qwen3.6-35B-A3B-FP8", "--drafter", "z-lab/Qwen3.6-35B-A3B-DFlash", "--offline", "--gpu", "b300"]
BUDGET = ["--kv-cache-memory-bytes", "200GiB"]
# Command, the ratio it may take, by the owner's measure.
CASES = {
    "plan --format json": (["plan", *PAIR, *BUDGET, "--format", "json"], 5.0),
    "plan (text)": (["plan", *PAIR, *BUDGET], 8.0),
    "--help": (["--help"], 5.0),
}
MEMORY_MIB = 40.0


def run(argv: list[str]) -> tuple[float, float]:
    """Processor seconds and peak MiB of one run of a command, which must succeed."""
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        error = process.stderr.read().decode() if process.stderr else ""
        raise SystemExit(f"{' '.join(argv)}: exit code {process.returncode}: {error}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=30)
    runs = parser.parse_args().runs
    kvplan = str(Path(sys.executable).with_name("kvplan"))
    baseline = [sys.executable, "-c", "import argparse, json"]
    missed = False
    for name, (words, limit) in CASES.items():
        run([kvplan, *words])  # once for the bytecode and the file cache
        base, own, peak = [], [], 0.0
        for _ in range(runs):
            base.append(run(baseline)[0])
            seconds, memory = run([kvplan, *words])
            own.append(seconds)
            peak = max(peak, memory)
        ratio = statistics.median(own) / statistics.median(base)
        missed |= ratio > limit or peak > MEMORY_MIB
        times = f"{1000 * statistics.median(own):.1f} ms against {1000 * statistics.median(base):.1f} ms"
        print(f"{name:20} {ratio:5.2f} x (at most {limit}), peak {peak:.1f} MiB; {times}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
