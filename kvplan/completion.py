"""What a shell offers: vLLM's flags beside kvplan's own, and names that an option takes. No config is read for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from click import Context
from click.shell_completion import CompletionItem
from typer.core import TyperCommand


class WithVllmFlags(TyperCommand):
    """A command that takes the flags of `vllm serve`: those that decide a plan are offered with its own options."""

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        """kvplan's options, then vLLM's."""
        own = super().shell_complete(ctx, incomplete)
        taken = {item.value for item in own}
        return own + [CompletionItem(name, help=why) for name, why in flags(incomplete) if name not in taken]


def flags(incomplete: str) -> Iterator[tuple[str, str]]:
    """Flags of vLLM that decide a plan, each with what it decides."""
    if not incomplete.startswith("-"):
        return
    from kvplan.request import OWN_FLAG
    from kvplan.serve.flagtable import option_strings
    from kvplan.serve.touch import touch_of

    for name, (dest, sets) in option_strings().items():
        touch = touch_of(dest)
        if touch.kind == "planned" and name.startswith(incomplete) and (sets or name.startswith("--no-")):
            yield name, touch.why
    if OWN_FLAG.startswith(incomplete):
        yield OWN_FLAG, "smallest group of the grouping of vLLM pull request 58207"


def words(ctx: Context, incomplete: str) -> Iterator[str]:
    """What a flag of vLLM takes, after one that takes one of a few values; else bundled ids."""
    from kvplan.serve.flagtable import flag_of, option_strings

    given = ctx.params.get("words") or [""]
    before = given[-1]
    flag = flag_of(before) if before in option_strings() else None
    if flag is not None and flag.nargs != "0":
        return _starting(flag.choices or checked_later(flag.dest), incomplete)
    return models(incomplete)


def checked_later(dest: str) -> tuple[str, ...]:
    """Values of a flag whose names vLLM checks after its parser."""
    from kvplan.serve.fields import FIELDS

    known = FIELDS["AttentionConfig"]["backend"] if dest == "attention_backend" else FIELDS["EngineArgs"].get(dest, "")
    return tuple(name.lstrip("^=") for name in known.split() if name[0] in "^=")


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
