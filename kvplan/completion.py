"""What a shell offers after an option of kvplan: names that a command would take. Loaded values, not configs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def _starting(names: Iterable[str], incomplete: str) -> Iterator[str]:
    return (name for name in names if name.startswith(incomplete))


def gpus(incomplete: str) -> Iterator[str]:
    """Bundled GPUs; spaces in a name left out, as `--gpu` allows, so that a shell takes it for one word."""
    from kvplan.gpus import GPUS

    return _starting((gpu.name.replace(" ", "") for gpu in GPUS), incomplete)


def models(incomplete: str) -> Iterator[str]:
    """Bundled ids. Where none begins like this, a shell offers files."""
    from kvplan.sources.bundled import ids

    return _starting(ids(), incomplete)


def engines(incomplete: str) -> Iterator[str]:
    """Engine rules."""
    from kvplan.selection import ENGINES

    return _starting(ENGINES, incomplete)


def layouts(incomplete: str) -> Iterator[str]:
    """KV cache layouts."""
    from kvplan.layout import LAYOUTS

    return _starting(LAYOUTS, incomplete)


def formats(incomplete: str) -> Iterator[str]:
    """Formats of plan and compare."""
    return _starting(("text", "json", "markdown", "csv"), incomplete)


def check_formats(incomplete: str) -> Iterator[str]:
    """Formats of check."""
    return _starting(("text", "json", "markdown", "csv", "junit", "github"), incomplete)
