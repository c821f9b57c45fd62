"""Whether a JSON object fits one of vLLM's config classes, and which values vLLM makes of it.

Follows pydantic's lax rules, since that is what reads these flags: "True", "on" and 1 are booleans, "8" and 8.0 are
whole numbers, strings are only strings. Source: vllm/config/*.py through kvplan/serve/fields.py.
"""

import re
from collections.abc import Mapping

from kvplan.serve.marks import is_marked

TRUE = ("1", "true", "t", "yes", "y", "on")
FALSE = ("0", "false", "f", "no", "n", "off")
WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a string",
    "none": "null",
    "any": "anything",
}
DEEPEST = 20
Given = Mapping[str, object]


class Misfit(Exception):
    """A value that the class does not take; the text says what it takes."""


def fit_config(class_name: str, given: Given, where: str = "") -> tuple[dict[str, object], list[str]]:
    """(given keys with vLLM's values, one sentence part for each key that vLLM refuses)."""
    from kvplan.serve.fields import FIELDS

    fields = FIELDS[class_name]
    fitted: dict[str, object] = {}
    errors: list[str] = []
    for key, value in given.items():
        name = f"{where}{key}"
        if key not in fields:
            errors.append(f"key {shown(name)} is not one of {class_name}{near(key, list(fields))}")
            continue
        try:
            fitted[key] = fit(fields[key].split(), value, name)
        except Misfit as misfit:
            errors.append(f"{shown(name)} is {shown(value)}, but takes {misfit}")
    if not where:
        from kvplan.serve.fieldrules import rules

        errors += rules(class_name, fitted)
    return fitted, errors


def fit(alternatives: list[str], value: object, where: str) -> object:
    """The value under the first alternative that takes it as it is, else under the first that converts it."""
    if isinstance(value, str) and is_marked(value):
        return value
    for alternative in alternatives:
        if exact(alternative, value):
            return value
    for alternative in alternatives:
        try:
            return converted(alternative, value, where)
        except Misfit as misfit:
            if len(alternatives) == 1:
                raise misfit
    raise Misfit(takes(alternatives))


def exact(alternative: str, value: object) -> bool:
    """Whether the alternative takes the value without a change."""
    if alternative == "any":
        return True
    if alternative == "none":
        return value is None
    if alternative == "str":
        return isinstance(value, str)
    if alternative == "bool":
        return isinstance(value, bool)
    return alternative[0] == "=" and value == alternative[1:]


def converted(alternative: str, value: object, where: str) -> object:
    """The value that pydantic makes under this alternative; Misfit when it refuses."""
    sign, rest = alternative[:1], alternative[1:]
    if alternative.startswith("[]") and isinstance(value, list):
        return [fit([alternative[2:]], item, where) for item in value]
    if alternative.startswith("{}") and isinstance(value, dict):
        return {key: fit([alternative[2:]], item, where) for key, item in value.items()}
    if sign == "@" and isinstance(value, dict):
        return nested(rest, value, where)
    if sign == "^" and isinstance(value, str) and value.upper() == rest:
        return rest
    if sign == "~" and isinstance(value, str) and value.lower().replace("-", "_") == rest:
        return rest
    if sign == "#" and isinstance(value, int | float) and value == int(rest):
        return int(rest)
    if alternative == "bool":
        return truth(value)
    kind = re.match("int|float", alternative)
    if kind:
        return bounded(number(kind.group(), value), alternative[kind.end() :], alternative)
    raise Misfit(takes([alternative]))


def nested(class_name: str, value: Mapping[str, object], where: str) -> dict[str, object]:
    """An object inside an object."""
    if where.count(".") > DEEPEST:
        raise Misfit("less nesting")
    fitted, errors = fit_config(class_name, value, where + ".")
    if errors:
        raise Misfit("; ".join(errors))
    return fitted


def truth(value: object) -> bool:
    """A boolean, 0 or 1, or one of pydantic's words."""
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.lower() in TRUE + FALSE:
        return value.lower() in TRUE
    raise Misfit(WORDS["bool"])


def number(kind: str, value: object) -> int | float:
    """A number, or a string that spells one."""
    if isinstance(value, str):
        text = value.strip().replace("_", "")
        pattern = (
            r"[+-]?\d+(\.0+)?" if kind == "int" else r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf|infinity)"
        )
        if not re.fullmatch(pattern, text, re.ASCII | re.IGNORECASE) or len(text) > 4000:
            raise Misfit(WORDS[kind])
        return int(text.split(".")[0]) if kind == "int" else float(text)
    if not isinstance(value, int | float) or (kind == "int" and value != value // 1):
        raise Misfit(WORDS[kind])
    try:
        return int(value) if kind == "int" else float(value)
    except (OverflowError, ValueError):
        raise Misfit(WORDS[kind]) from None


def bounded(value: int | float, bounds: str, alternative: str) -> int | float:
    """The value, when it keeps the bounds such as '>0' or '>=1<=256'."""
    for sign, limit in re.findall(r"([<>]=?)([-\d.]+)", bounds):
        edge = float(limit)
        holds = {">": value > edge, ">=": value >= edge, "<": value < edge, "<=": value <= edge}[sign]
        if not holds:
            raise Misfit(takes([alternative]))
    return value


def takes(alternatives: list[str]) -> str:
    """What a field takes, in words."""
    names = [alternative.lstrip("=#^~") for alternative in alternatives if alternative[0] in "=#^~"]
    if names:
        return "one of " + ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    words = []
    for alternative in alternatives:
        kind = re.match("[a-z]+", alternative)
        if kind:
            bounds = (
                alternative[kind.end() :].replace("<", " and <") if "<" in alternative else alternative[kind.end() :]
            )
            words.append(WORDS[kind.group()] + (" " + bounds if bounds else ""))
        else:
            words.append("a list" if alternative.startswith("[]") else "an object")
    return " or ".join(dict.fromkeys(words))


def near(key: str, known: list[str]) -> str:
    """'; did you mean X?' for a key that is like a known one."""
    from difflib import get_close_matches

    found = get_close_matches(str(key).replace("-", "_")[:100], known, n=1, cutoff=0.6)
    return f"; did you mean {found[0]}?" if found else ""


def shown(value: object) -> str:
    """A value short enough for a sentence."""
    import json

    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return repr(text if len(text) <= 80 else text[:77] + "...").replace("\\n", " ")
