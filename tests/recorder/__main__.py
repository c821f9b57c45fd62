"""`python -m tests.recorder`: record goldens with the installed vLLM."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from . import record
from .case import Case, read
from .checkpoint import Checkpoints

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
    parser.add_argument("--print", action="store_true", help="print goldens instead of writing them")
    parser.add_argument("--packages", metavar="DIR", help="folder of further packages (torchvision, timm)")
    parser.add_argument("-v", action="store_true", help="show what vLLM prints, and where it stops")
    return parser.parse_args()


def architecture_of(case: Case, checkpoints: Checkpoints) -> str:
    """The first architecture that the model's config names."""
    config = json.loads((Path(checkpoints.path(case.model)) / "config.json").read_text(encoding="utf-8"))
    return str((config.get("architectures") or ["none"])[0])


def load(path: Path) -> dict[str, dict[str, Any]]:
    """The goldens of one file by id, without its first line."""
    if not path.exists():
        return {}
    return {golden["id"]: golden for golden in map(json.loads, path.read_text(encoding="utf-8").splitlines()[1:])}


def store(path: Path, goldens: dict[str, dict[str, Any]], version: str) -> None:
    """Write one architecture's goldens, the engine's version first."""
    head = {"vllm": version, "architecture": path.stem}
    lines = [json.dumps(entry, separators=(",", ":")) for entry in (head, *goldens.values())]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    arguments = _arguments()
    cases = [case for case in read(arguments.cases) if arguments.only in case.id]
    cases = [case for case in cases if arguments.id in (None, case.id)]
    checkpoints = Checkpoints(arguments.configs)
    record.prepare(arguments.packages)
    version, begun, failed, made = record.vllm_version(), time.monotonic(), 0, 0
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
        else:
            store(path, goldens | {case.id: golden}, version)
    print(f"{made} recorded with vLLM {version}, {failed} failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
