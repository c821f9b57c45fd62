"""`kvplan models`: every architecture that kvplan plans, and what of it was compared with a real engine.

verified.json beside the package's modules is written by scripts/make_verified.py from the goldens in tests/goldens: the
numbers here are never typed in by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from kvplan.commands.deployment import one_of
from kvplan.commands.outcome import Outcome
from kvplan.report.style import VIEW, View

FORMATS = ("text", "json")
PACKAGES = {"families": "target", "drafters": "drafter"}
NOT_VERIFIED = "not verified"


class Architecture(NamedTuple):
    """One architecture that has a family or drafter file."""

    architecture: str
    kind: str
    """target | drafter."""
    goldens: int
    """Deployments that an engine planned and that kvplan plans alike, field by field."""
    engine_versions: tuple[str, ...]
    gpus: tuple[str, ...]
    features: tuple[str, ...]
    """Options, methods and KV dtypes that the goldens use."""
    bundled: tuple[str, ...]
    """Ids of bundled configs."""

    @property
    def verified(self) -> str:
        """``12 goldens, vLLM 0.33.0``, or that there are none."""
        if not self.goldens:
            return NOT_VERIFIED
        return f"{self.goldens} golden{'s' * (self.goldens > 1)}, vLLM {', '.join(self.engine_versions)}"


def verified() -> dict[str, Any]:
    """The content of verified.json: by kind and architecture, what the goldens cover."""
    import json

    path = Path(__file__).resolve().parent.parent / "verified.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def found() -> list[Architecture]:
    """Every planned architecture, targets first, each kind by name."""
    from kvplan.families import architectures

    covered = verified()
    out = []
    for package, kind in PACKAGES.items():
        for name in sorted(architectures(package), key=str.lower):
            entry = covered[kind].get(name, {})
            lists = (tuple(entry.get(key, ())) for key in ("engine_versions", "gpus", "features", "bundled"))
            out.append(Architecture(name, kind, entry.get("goldens", 0), *lists))
    return out


def run(format: str = "text", view: View = VIEW) -> Outcome:
    """The architectures with what was verified, as a table or a document."""
    one_of("--format", format, FORMATS)
    rows = found()
    if format == "json":
        from kvplan.report.document import to_json

        return Outcome(to_json({"architectures": [{**row._asdict(), "verified": row.goldens > 0} for row in rows]}))
    return Outcome(_text(rows, view))


def _text(rows: list[Architecture], view: View) -> str:
    from kvplan.report.lines import wrap

    width = max(len(row.architecture) for row in rows)
    lines = []
    for row in rows:
        lines.append(f"{row.architecture:<{width}}  {row.kind:<7}  {row.verified}")
        if row.bundled:
            lines += [f"  {line}" for line in wrap(", ".join(row.bundled), view.columns - 2)]
    counted = sum(row.goldens > 0 for row in rows)
    goldens = sum(row.goldens for row in rows if row.kind == "target")
    lines.append(f"{counted} of {len(rows)} architectures verified by {goldens} goldens of a real engine.")
    return "\n".join(lines) + "\n"
