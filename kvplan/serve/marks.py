"""Shell variables without a value: they stay in the text as written, between two marks that no input can hold.

A marked value passes every type check (nobody knows what it is), and the planner refuses it by name.
"""

import re

# Unicode noncharacters: clean() takes them out of everything that is read.
OPEN, CLOSE, UNKNOWN = "\ufdd0", "\ufdd1", "\ufdd2"
BLANKS = " \t\n"
"""What parts words: a no-break space, as web pages have it, does not."""
KEPT = str.maketrans(BLANKS, "\ufdd3\ufdd4\ufdd5")
"""A blank between quotes inside an expansion, while it is not yet split."""
BLANK_AGAIN = str.maketrans("\ufdd3\ufdd4\ufdd5", BLANKS)


def clean(text: str) -> str:
    """Input text without marks, NULs and carriage returns."""
    return without_marks(text.translate(BLANK_AGAIN)).replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")


def without_marks(text: str) -> str:
    """The text as it was written."""
    return text.replace(OPEN, "").replace(CLOSE, "").replace(UNKNOWN, "")


def mark(reference: str, unknown: bool = False) -> str:
    """A reference such as $TP or ${TP} that has no value; unknown: it has one, which only running would tell."""
    return OPEN + (UNKNOWN if unknown else "") + without_marks(reference) + CLOSE


def is_marked(text: str) -> bool:
    """Whether some part of the text has no value."""
    return OPEN in text


def is_only_mark(text: str) -> bool:
    """Whether the text is one reference without a value and nothing else."""
    return text.startswith(OPEN) and text.endswith(CLOSE) and text.count(OPEN) == 1


def is_unknown(text: str) -> bool:
    """Whether some part of the text has a value that only running would tell."""
    return UNKNOWN in text


def unmark(value: object) -> object:
    """The value as it was written, at any depth."""
    if isinstance(value, str):
        return without_marks(value)
    if isinstance(value, list):
        return [unmark(item) for item in value]
    if isinstance(value, dict):
        return {str(unmark(key)): unmark(item) for key, item in value.items()}
    return value


def references(text: str) -> list[str]:
    """The references without a value, in order."""
    return re.findall(f"{OPEN}{UNKNOWN}?([^{CLOSE}]*){CLOSE}", text)
