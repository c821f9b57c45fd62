"""The outputs shown in README.md and docs/: every ```console block is a command of kvplan and what it prints.

    python scripts/doc_outputs.py            # say which blocks differ from what the command prints now; exit code 1
    python scripts/doc_outputs.py --update   # write the present outputs into the files

A block begins with ``$ kvplan ...``, the command possibly continued with backslashes. A line ``...`` at the end of a
block stands for the rest of a long output. Lines of a ``$ cat`` or another program are left alone.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r"^```console\n(\$ kvplan.*?)^```", re.DOTALL | re.MULTILINE)
_ENVIRONMENT = {"NO_COLOR": "1", "COLUMNS": "80", "HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin"}


class Block(NamedTuple):
    """One shown command."""

    start: int
    end: int
    command: list[str]
    head: str
    """The command as it stands in the file."""
    shown: str

    @property
    def abridged(self) -> bool:
        return self.shown.endswith("\n...\n")


def files() -> list[Path]:
    """README.md and every page of docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(text: str) -> Iterator[Block]:
    """The commands that a page shows."""
    for found in _BLOCK.finditer(text):
        lines = found[1].splitlines(keepends=True)
        last = next(i for i, line in enumerate(lines) if not line.rstrip("\n").endswith("\\"))
        head = "".join(lines[: last + 1])
        words = shlex.split(head.removeprefix("$ ").replace("\\\n", " "))
        yield Block(found.start(1), found.end(1), words, head, "".join(lines[last + 1 :]))


def output(command: list[str], folder: Path = ROOT) -> str:
    """What the command prints to stdout and stderr, run in the repository's root as ``python -m kvplan``."""
    argv = [sys.executable, "-m", "kvplan", *command[1:]]
    done = subprocess.run(argv, cwd=folder, env=_ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def present(block: Block) -> str:
    """The block's output as the command prints it now, cut where the page cuts it."""
    printed = output(block.command)
    if not block.abridged:
        return printed
    kept = block.shown.removesuffix("...\n").count("\n")
    return "".join(printed.splitlines(keepends=True)[:kept]) + "...\n"


def updated(text: str) -> str:
    """The page with every block's present output."""
    parts, at = [], 0
    for block in blocks(text):
        parts += [text[at : block.start], block.head, present(block)]
        at = block.end
    return "".join([*parts, text[at:]])


def main() -> int:
    update = "--update" in sys.argv[1:]
    stale = False
    for path in files():
        text = path.read_text(encoding="utf-8")
        new = updated(text)
        if new != text:
            stale = True
            print(f"{path.relative_to(ROOT)}: {'updated' if update else 'shows outputs that kvplan no longer prints'}")
            if update:
                path.write_text(new, encoding="utf-8")
    return 0 if update or not stale else 1


if __name__ == "__main__":
    sys.exit(main())
