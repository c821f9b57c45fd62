"""One sentence for each fault of a serve line: the flag, the value, and what to do."""

import re

from kvplan.serve.flags import VLLM_VERSION
from kvplan.serve.flagtable import nearest, option_strings
from kvplan.serve.jsonfields import shown
from kvplan.serve.marks import is_unknown

DASHES = "‐‑‒–—―−"


def plain(text: str) -> str:
    """Text for a sentence: short, on one line, cut where it is long."""
    text = " ".join(text.split())
    return text if len(text) <= 100 else text[:97] + "..."


def unknown(arg: str, value: str) -> str:
    """A flag that is not in vLLM's table."""
    from kvplan.serve.removed import REMOVED

    name = arg.split("=", 1)[0]
    subject = plain(f"{arg} {value}" if value else arg)
    if name in REMOVED:
        return f"{subject} is unknown to vLLM {VLLM_VERSION}; {REMOVED[name]}"
    short = re.fullmatch(r"(-[a-z]+)(\d.*)", arg)
    if short and short.group(1) in option_strings():
        head, tail = short.groups()
        return f"{subject} is unknown to vLLM {VLLM_VERSION}; write {head} {tail} or {head}={tail}"
    close = nearest(name)
    advice = f"did you mean {close}?" if close else "leave it out, or correct its name"
    return f"{subject} is unknown to vLLM {VLLM_VERSION}; {advice}"


def ambiguous(arg: str, names: list[str]) -> str:
    """A prefix of several flags."""
    from kvplan.serve.removed import REMOVED

    head = arg.split("=", 1)[0]
    if head in REMOVED:
        return f"{plain(head)} is unknown to vLLM {VLLM_VERSION}; {REMOVED[head]}"
    some = ", ".join(names[:6]) + (" and others" if len(names) > 6 else "")
    return f"{plain(head)} is ambiguous: it could be {some}; write the flag out"


def takes_no_value(name: str, value: str) -> str:
    """--enable-x=False."""
    return f"{name}={plain(value)} is refused by vLLM: {name} takes no value{instead(name, value)}"


def too_many(text: str, last: str) -> str:
    """A plain argument that no flag takes."""
    if last in option_strings():
        return f"{last} {plain(text)} is refused by vLLM: {last} takes no such value{instead(last, text)}"
    if text[:1] in DASHES:
        return f"{plain(text)} starts with a typographic dash: write {'--' + plain(text.lstrip(DASHES))}"
    where = f" after {plain(last)}" if last else ""
    return f"{shown(plain(text))}{where} is one argument too many: leave it out, or name the flag it belongs to"


def variable(text: str) -> str:
    """A variable where flags may stand: one that is unset expands to nothing, one that is unknown may hold flags."""
    if not is_unknown(text):
        return text
    return f"{text} is set under a condition or by a command: write the flags that it stands for in its place"


def instead(name: str, value: str) -> str:
    """What to write for a bool flag with a value."""
    if value.lower() in ("false", "0", "no", "off") and "--no-" + name[2:] in option_strings():
        return f", write --no-{name[2:]}"
    return f", write {name} alone" if value.lower() in ("true", "1", "yes", "on") else ", leave the value out"


def no_value(name: str, follower: str | None) -> str:
    """A flag at the end, or before another flag."""
    before = f" before {plain(follower)}" if follower else ""
    return f"{name} has no value{before}: write {name} VALUE"


def bad_value(name: str, text: str, reason: str) -> str:
    """A value that the converter refuses."""
    return f"{name} {shown(plain(text))} is {' '.join(reason.split())}"


def bad_choice(name: str, text: str, choices: tuple[str, ...]) -> str:
    """A value outside the flag's choices."""
    from difflib import get_close_matches

    close = get_close_matches(text[:100], choices, n=1, cutoff=0.6)
    advice = f"did you mean {close[0]}?" if close else "write one of " + ", ".join(choices)
    return f"{name} {shown(plain(text))} is not one of vLLM {VLLM_VERSION}'s values: {advice}"
