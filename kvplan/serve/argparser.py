"""argparse as vLLM uses it, without stopping at the first error: values by destination, and a sentence for each fault.

Follows Python's argparse (parse_known_args): which arguments are options, unambiguous prefixes, how many values a flag
takes, and where the one positional (the model) comes from.
"""

from typing import NamedTuple

from kvplan.serve import messages
from kvplan.serve.flagtable import Flag, flag_of, matches, option_strings
from kvplan.serve.marks import is_only_mark, is_unknown
from kvplan.serve.values import convert


class Option(NamedTuple):
    """An argument that is an option: the known option string or None, and the value attached to it."""

    name: str | None
    attached: str | None


class Parsed:
    """What was read; grows while parse() runs."""

    def __init__(self, positional: bool) -> None:
        self.positional = positional  # whether the model may stand by itself
        self.model: str | None = None
        self.values: dict[str, object] = {}
        self.errors: list[str] = []
        self.dropped: list[str] = []  # variables without a value where no value is needed
        self.after_dash = False  # the argument before had a typographic dash
        self.model_after: str | None = None  # the unknown flag that stood before the model


def parse(args: list[str], positional: bool = True) -> Parsed:
    """Read prepared arguments (see prepare.py). positional: false where a model by itself is thrown away."""
    parsed = Parsed(positional)
    kinds, known = classify(args, parsed)
    index, last = 0, ""
    while index < len(args):
        if kinds[index] == "O":
            option = known[index]
            last = option.name or args[index]
            index = take_option(parsed, args, kinds, index, option)
        else:
            if kinds[index] == "A":
                take_positional(parsed, args[index], last, adjacent=index > 0 and kinds[index - 1] == "O")
            index += 1
    return parsed


def classify(args: list[str], parsed: Parsed) -> tuple[str, dict[int, Option]]:
    """One letter an argument: O an option, A an argument, - the bare --, after which all are arguments."""
    letters: list[str] = []
    known: dict[int, Option] = {}
    only_arguments = False
    for index, arg in enumerate(args):
        if only_arguments:
            letters.append("A")
        elif arg == "--":
            letters.append("-")
            only_arguments = True
        else:
            option = as_option(arg, parsed)
            letters.append("A" if option is None else "O")
            if option is not None:
                known[index] = option
    return "".join(letters), known


def as_option(arg: str, parsed: Parsed) -> Option | None:
    """The option that an argument is (name None when unknown, "" when ambiguous), or None for a plain argument."""
    if len(arg) < 2 or arg[0] != "-":
        return None
    if arg in option_strings():
        return Option(arg, None)
    readings = matches(arg)
    if len(readings) > 1:
        parsed.errors.append(messages.ambiguous(arg, [name for name, _ in readings]))
        return Option("", None)
    if readings:
        return Option(*readings[0])
    if is_negative_number(arg) or " " in arg:
        return None
    return Option(None, None)


def is_negative_number(text: str) -> bool:
    """argparse's own test: -1, -0.5, -.5."""
    whole, _, fraction = text[1:].partition(".")
    digits = whole + fraction
    return digits.isdecimal() and not text.endswith(".")


def take_option(parsed: Parsed, args: list[str], kinds: str, index: int, option: Option) -> int:
    """Read one option and its values; the index after them."""
    after = index + 1
    if not option.name:
        return take_unknown(parsed, args, kinds, index, ambiguous=option.name == "")
    flag = flag_of(option.name)
    if option.attached is not None:
        if flag.nargs == "0":
            parsed.errors.append(messages.takes_no_value(option.name, option.attached))
        else:
            store(parsed, flag, option.name, [option.attached])
        return after
    end = after
    most = {"": 1, "?": 1, "+": len(args), "0": 0}[flag.nargs]
    while end < len(args) and end - after < most and kinds[end] == "A":
        end += 1
    if end == after and flag.nargs in ("", "+"):
        parsed.errors.append(messages.no_value(option.name, args[end] if end < len(args) else None))
        return after
    store(parsed, flag, option.name, args[after:end])
    return end


def take_unknown(parsed: Parsed, args: list[str], kinds: str, index: int, ambiguous: bool) -> int:
    """A flag that vLLM does not know: it takes the next argument with it once the model is known."""
    value, after = "", index + 1
    if "=" not in args[index] and after < len(args) and kinds[after] == "A":
        if parsed.model is not None or not parsed.positional:
            value, after = args[after], after + 1
        else:
            parsed.model_after = args[index]
    if not ambiguous:
        parsed.errors.append(messages.unknown(args[index], value))
    return after


def take_positional(parsed: Parsed, text: str, last: str, adjacent: bool) -> None:
    """The model, or one argument too many."""
    if parsed.model is None:
        parsed.model = text
        if not adjacent:
            parsed.model_after = None
    elif is_only_mark(text):
        (parsed.errors if is_unknown(text) else parsed.dropped).append(messages.variable(text))
    elif parsed.after_dash and adjacent is False:
        parsed.after_dash = False  # the value of a flag with a typographic dash, which has its sentence
    elif parsed.model_after:
        # What seemed the model was the value of an unknown flag.
        parsed.model, parsed.model_after = text, None
    else:
        parsed.errors.append(messages.too_many(text, last if adjacent else ""))
        parsed.after_dash = text[:1] in messages.DASHES


def store(parsed: Parsed, flag: Flag, name: str, texts: list[str]) -> None:
    """Convert the values and keep them under the flag's destination; a later mention replaces an earlier one."""
    if flag.kind == "help":
        parsed.errors.append(f"{name} prints vLLM's help and starts nothing: leave it out")
        return
    if flag.nargs == "0":
        parsed.values[flag.dest] = flag.sets
        return
    if not texts:
        parsed.values[flag.dest] = True
        return
    values = []
    for text in texts:
        try:
            value = convert(flag.kind.removeprefix("append:"), text)
        except ValueError as error:
            parsed.errors.append(messages.bad_value(name, text, str(error)))
            return
        if flag.choices and value is not None and str(value) not in flag.choices and not is_only_mark(text):
            parsed.errors.append(messages.bad_choice(name, text, flag.choices))
            return
        values.append(value)
    if flag.kind.startswith("append:"):
        earlier = parsed.values.get(flag.dest)
        values = [*earlier, *values] if isinstance(earlier, list) else values
    one = not flag.nargs and not flag.kind.startswith("append:")
    parsed.values[flag.dest] = values[0] if one or flag.nargs == "?" else values
