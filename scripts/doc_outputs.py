"""The outputs shown in README.md and docs/: every ```console block is a command of kvplan and what it prints.

    python scripts/doc_outputs.py            # say which blocks differ from what the command prints now; exit code 1
    python scripts/doc_outputs.py --update   # write the present outputs into the files

A block begins with ``$ kvplan ...`` or ``$ python FILE``, the command possibly continued with backslashes. A line
``...`` at its end stands for the rest of a long output; one at its beginning, for all before the line that follows.
Lines of a ``$ cat`` or another program are left alone.

A page's commands run in their order in a scratch folder in which ``docs`` is this repository's. A block whose first
line is ``# NAME.yaml`` or ``# NAME.py`` is a file that is put there before the commands below it.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r"^```console\n(\$ (?:kvplan|python) .*?)^```", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"^```(?:yaml|python)\n(# (\w+\.(?:yaml|py))\n.*?)^```", re.DOTALL | re.MULTILINE)
_ENVIRONMENT = {"NO_COLOR": "1", "COLUMNS": "80", "HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin"}
_CUT = "...\n"


class Block(NamedTuple):
    """One shown command."""

    start: int
    end: int
    command: list[str]
    head: str
    """The command as it stands in the file."""
    shown: str


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


def output(command: list[str], folder: Path) -> str:
    """What the command prints to stdout and stderr, run in a folder as ``python -m kvplan`` or ``python FILE``."""
    argv = [sys.executable, *(["-m", "kvplan"] if command[0] == "kvplan" else []), *command[1:]]
    done = subprocess.run(argv, cwd=folder, env=_ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def cut(printed: str, shown: str) -> str:
    """The part of an output that a page shows: as many lines, from the same first line on."""
    lines, kept = printed.splitlines(keepends=True), shown.splitlines(keepends=True)
    before, after = kept[:1] == [_CUT], kept[1:] != [] and kept[-1] == _CUT
    if before:
        kept = kept[1:]
        lines = lines[lines.index(kept[0]) if kept[0] in lines else 0 :]
    if after:
        lines = lines[: len(kept) - 1]
    return (_CUT if before else "") + "".join(lines) + (_CUT if after else "")


def presented(text: str) -> Iterator[tuple[Block, str]]:
    """Every block of a page with its output as the command prints it now, cut where the page cuts it."""
    written = [(found.start(), found[2], found[1]) for found in _FILE.finditer(text)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "docs").symlink_to(ROOT / "docs")
        for block in blocks(text):
            while written and written[0][0] < block.start:
                _, name, content = written.pop(0)
                (folder / name).write_text(content, encoding="utf-8")
            yield block, cut(output(block.command, folder), block.shown)


def updated(text: str) -> str:
    """The page with every block's present output."""
    parts, at = [], 0
    for block, now in presented(text):
        parts += [text[at : block.start], block.head, now]
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
