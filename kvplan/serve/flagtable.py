"""Looking up vLLM's flags: exact names, unambiguous prefixes as argparse takes them, and the nearest known name."""

from functools import lru_cache
from typing import NamedTuple

OPPOSITES = (("--enable-", "--disable-"), ("--disable-", "--enable-"))


class Flag(NamedTuple):
    """One flag: where its value goes, how it is read, and the value that a bare option string sets."""

    dest: str
    kind: str
    nargs: str  # "" one value, "+" one or more, "?" at most one, "0" none
    choices: tuple[str, ...]
    sets: bool


def negative_strings(text: str) -> list[str]:
    """The option strings that switch a bool off: --no-x, and --disable-x for --enable-x or the other way round.

    Source: vllm/utils/argparse_utils.py, EnableDisableAction.
    """
    if not text.startswith("--"):
        return []
    found = ["--no-" + text[2:]]
    found += [inverse + text.removeprefix(prefix) for prefix, inverse in OPPOSITES if text.startswith(prefix)]
    return found


@lru_cache(maxsize=1)
def option_strings() -> dict[str, tuple[str, bool]]:
    """Option string -> (destination, the value that it sets where it takes none)."""
    from kvplan.serve.flags import FLAGS

    table: dict[str, tuple[str, bool]] = {}
    for dest, (strings, kind, _, _) in FLAGS.items():
        for text in strings.split():
            table[text] = (dest, True)
            if kind == "bool":
                table.update((negative, (dest, False)) for negative in negative_strings(text))
    return table


def flag_of(option_string: str) -> Flag:
    """The flag of an option string that option_strings() holds."""
    from kvplan.serve.flags import FLAGS

    dest, sets = option_strings()[option_string]
    kind, choices = FLAGS[dest][1], tuple(FLAGS[dest][2].split())
    if kind in ("bool", "true", "help"):
        return Flag(dest, kind, "0", choices, sets)
    nargs = kind[-1] if kind[-1] in "+?" else ""
    return Flag(dest, kind.rstrip("+?"), nargs, choices, sets)


def default_of(dest: str) -> object:
    """The parser's default; None also where it is an empty object."""
    from kvplan.serve.flags import FLAGS

    return FLAGS[dest][3]


def flag_name(dest: str) -> str:
    """The long option string of a destination, for sentences: tensor_parallel_size -> --tensor-parallel-size."""
    from kvplan.serve.flags import FLAGS

    row = FLAGS.get(dest)
    return row[0].split()[0] if row else "--" + dest.replace("_", "-")


def matches(text: str) -> list[tuple[str, str | None]]:
    """(option string, value attached to it) of every reading of an argument that is no exact name.

    Source: Python's argparse, _parse_optional and _get_option_tuples: two dashes are cut at '=' only; one dash may
    also be a one-letter flag with its value attached (-n8).
    """
    table = option_strings()
    head, equals, tail = text.partition("=")
    if equals and head in table:
        return [(head, tail)]
    if text.startswith("--"):
        value = tail if equals else None
        return [(name, value) for name in table if name.startswith(head)]
    found: list[tuple[str, str | None]] = [(name, None) for name in table if name.startswith(text)]
    if text[:2] in table:
        found.append((text[:2], text[2:]))
    return found


def nearest(text: str) -> str | None:
    """The known option string most like an unknown one, or None when nothing is near."""
    from difflib import get_close_matches

    head = text.split("=", 1)[0].split(".", 1)[0].strip("-").replace("_", "-").lower()
    short = "-" + head.removesuffix("-size")
    if short in option_strings():
        return short
    known = {name[2:]: name for name in option_strings() if name.startswith("--")}
    found = get_close_matches(head[:100], list(known), n=1, cutoff=0.6)
    return known[found[0]] if found else None
