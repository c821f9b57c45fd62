"""`python -m tests.recorder`: record goldens with the installed vLLM."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from . import record
from .case import Case, read
from .checkpoint import Checkpoints
from .files import architecture_of, line, load, store

GOLDENS = Path("tests/goldens")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.recorder", description=__doc__)
    parser.add_argument("--cases", type=Path, default=GOLDENS / "cases.jsonl", help="one case a line")
    parser.add_argument("--goldens", type=Path, default=GOLDENS, help="folder of the goldens, a file per architecture")
    parser.add_argument("--configs", type=Path, default=GOLDENS / "configs", help="configs besides model_configs/")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose id holds TEXT")
    parser.add_argument("--id", metavar="ID", help="only the case of this id")
    parser.add_argument("--missing", action="store_true", help="only cases without a golden")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--sample", type=int, metavar="N", help="only about N of them, evenly spread")
    parser.add_argument("--print", action="store_true", help="print goldens instead of writing them")
    parser.add_argument("--compare", action="store_true", help="write nothing; name goldens that come out otherwise")
    parser.add_argument("--packages", metavar="DIR", help="folder of further packages (torchvision, timm)")
    parser.add_argument("-v", action="store_true", help="show what vLLM prints, and where it stops")
    return parser.parse_args()


def chosen(arguments: argparse.Namespace) -> list[Case]:
    """The cases that the arguments ask for."""
    cases = [case for case in read(arguments.cases) if arguments.only in case.id]
    cases = [case for case in cases if arguments.id in (None, case.id)]
    return cases[:: max(1, round(len(cases) / arguments.sample))] if arguments.sample else cases


def main() -> int:
    arguments = _arguments()
    cases = chosen(arguments)
    checkpoints = Checkpoints(arguments.configs)
    record.prepare(checkpoints.hub_cache, arguments.packages)
    version, begun, failed, made, other = record.vllm_version(), time.monotonic(), 0, 0, 0
    for case in cases:
        path = arguments.goldens / f"{architecture_of(case, checkpoints)}.jsonl"
        goldens = load(path)
        if arguments.missing and case.id in goldens:
            continue
        if time.monotonic() - begun > arguments.seconds:
            print("stopped; run again with --missing", file=sys.stderr)
            break
        try:
            golden = record.in_child(
                lambda case=case: record.record(case, checkpoints, arguments.v), quiet=not arguments.v
            )
        except RuntimeError as error:
            print(f"{case.id}: {error}", file=sys.stderr)
            failed += 1
            continue
        made += 1
        if arguments.print:
            print(json.dumps(golden, indent=1))
        elif arguments.compare:
            if line(golden) != line(goldens.get(case.id, {})):
                print(f"{case.id}: differs")
                other += 1
        else:
            store(path, load(path) | {case.id: golden}, version)
    compared = f", {other} differ" if arguments.compare else ""
    print(f"{made} recorded with vLLM {version}, {failed} failed{compared}", file=sys.stderr)
    return 1 if failed or other else 0


if __name__ == "__main__":
    sys.exit(main())
