"""Shell variables without a value: they stay in the text as written, between two marks that no input can hold.

A marked value passes every type check (nobody knows what it is), and the planner refuses it by name.
"""

import re

# Unicode noncharacters: clean() takes them out of everything that is read.
OPEN, CLOSE = "\ufdd0", "\ufdd1"


def clean(text: str) -> str:
    """Input text without marks, NULs and carriage returns."""
    return text.replace(OPEN, "").replace(CLOSE, "").replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")


def mark(reference: str) -> str:
    """A reference such as $TP or ${TP} that has no value."""
    return OPEN + reference + CLOSE


def is_marked(text: str) -> bool:
    """Whether some part of the text has no value."""
    return OPEN in text


def is_only_mark(text: str) -> bool:
    """Whether the text is one reference without a value and nothing else."""
    return text.startswith(OPEN) and text.endswith(CLOSE) and text.count(OPEN) == 1


def unmark(value: object) -> object:
    """The value as it was written, at any depth."""
    if isinstance(value, str):
        return value.replace(OPEN, "").replace(CLOSE, "")
    if isinstance(value, list):
        return [unmark(item) for item in value]
    if isinstance(value, dict):
        return {str(unmark(key)): unmark(item) for key, item in value.items()}
    return value


def references(text: str) -> list[str]:
    """The references without a value, in order."""
    return re.findall(f"{OPEN}([^{CLOSE}]*){CLOSE}", text)
