"""Shell variables: what a script has set so far, and what ${...} and $((...)) make of it.

A name that nothing set counts as unset, as in a shell with an empty environment: ${TP:-8} is 8, and a bare $TP stays a
marked reference (see marks.py). Values are bounded, so that no script can blow one up by doubling it.
"""

import re
from collections.abc import Callable, Mapping

from kvplan.errors import KvplanError
from kvplan.serve.expansions import changed, operator_of, part, words_of
from kvplan.serve.marks import BLANK_AGAIN, is_marked, is_only_mark, is_unknown, mark

Value = str | list[str]
Variables = dict[str, Value]

MAX_VALUE = 2**16
MAX_EXPANDED = 2**24
MAX_STEPS = 200_000
PARAMETER = r"([!#]?)([A-Za-z_]\w*|\d+|[@*?$!#-])(\[[^\]]*\])?(.*)"
CHANGES = re.compile(r"([A-Za-z_]\w*)\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))|(?:\+\+|--)\s*([A-Za-z_]\w*)")


class Scope:
    """The variables of one script and the expansion budget it has left."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        self.variables: Variables = dict(variables or {})
        self.exported: set[str] = set(self.variables)
        self.exports_all = False
        """set -a: what is assigned is exported."""
        self.left = MAX_EXPANDED
        self.steps = 0

    def step(self) -> None:
        """Count a piece of a word; KvplanError when a script has so many that no person wrote it."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise KvplanError(
                f"the script has more than {MAX_STEPS} words and signs: give a file with the command only"
            )

    def snapshot(self) -> Variables:
        """The variables as they are now; counted, for a script may ask for many."""
        self.steps += len(self.variables) // 16
        self.step()
        return dict(self.variables)

    def get(self, name: str) -> Value | None:
        """A variable's value; None when unset, or when the budget is used up."""
        value = self.variables.get(name)
        if value is not None:
            self.left -= weight(value)
        return value if self.left > 0 else None

    def set(self, name: str, value: Value, sure: bool = True) -> None:
        """Assign. An assignment that may not run, or that is too large, leaves a marked reference."""
        size = weight(value)
        self.left -= size
        unknown = self.left < 0 or (isinstance(value, str) and is_unknown(value))
        if unknown or size > MAX_VALUE or (not sure and self.variables.get(name) != value):
            self.variables[name] = mark("$" + name, unknown=True)
        elif isinstance(value, str) and is_only_mark(value):
            self.variables.pop(name, None)  # what is set to something unset counts as unset
        else:
            self.variables[name] = value
        if self.exports_all:
            self.exported.add(name)

    def forget(self, text: str) -> None:
        """Make the variables unknown that a piece of arithmetic changes."""
        for found in CHANGES.finditer(text[:MAX_VALUE]):
            name = found.group(1) or found.group(2)
            self.variables[name] = mark("$" + name, unknown=True)

    def positional(self, words: list[str]) -> None:
        """set -- words: $1 and so on, and all of them as $@."""
        for name in [name for name in self.variables if name.isdecimal() and name != "0"]:
            del self.variables[name]
        self.variables.update((str(number), word) for number, word in enumerate(words, 1))
        self.variables.update({"@": words, "*": " ".join(words), "#": str(len(words))})

    def shift(self, words: list[str]) -> None:
        """shift N: the first arguments are gone."""
        given, count = self.variables.get("@"), words[0] if words else "1"
        if isinstance(given, list) and count.isdecimal() and len(count) < 6:
            self.positional(given[int(count) :])
        elif given is not None or not count.isdecimal():
            self.unknown_positional()

    def unknown_positional(self) -> None:
        """Inside a function: only its calls would tell $1 and so on."""
        names = [*map(str, range(1, 10)), "@", "*", "#"]
        self.variables.update((name, mark("$" + name, unknown=True)) for name in names)

    def append(self, name: str, value: Value, sure: bool = True) -> None:
        """NAME+=value."""
        old = self.variables.get(name, [] if isinstance(value, list) else "")
        if isinstance(old, list):
            self.set(name, [*old, *([value] if isinstance(value, str) else value)], sure)
        elif isinstance(value, list):
            self.set(name, [old, *value] if old else value, sure)
        else:
            self.set(name, old + value, sure)

    def environment(self) -> dict[str, str]:
        """The exported variables that are plain text."""
        found = ((name, self.variables.get(name)) for name in sorted(self.exported))
        return {name: value for name, value in found if isinstance(value, str)}


def weight(value: Value) -> int:
    """What a value costs to copy: its characters, and one for each element."""
    return len(value) if isinstance(value, str) else sum(map(len, value)) + len(value)


def simple(scope: Scope, name: str) -> Value:
    """$NAME: its value, or the reference."""
    value = scope.get(name)
    return mark("$" + name, unknown=scope.left <= 0) if value is None else value


def braced(scope: Scope, content: str, expand: Callable[[str], str]) -> Value:
    """${content}. expand reads the word after an operator; what is not understood stays a reference."""
    reference = mark("${" + content + "}")
    found = re.fullmatch(PARAMETER, content, re.DOTALL)
    if not found or found.group(1) == "!" or (found.group(1) and found.group(4)):
        return reference
    counted, name, index, rest = found.groups()
    value = scope.get(name)
    if isinstance(value, list) and index not in ("[@]", "[*]"):
        value = element(scope, value, index)
    if counted:
        return reference if value is None or (isinstance(value, str) and is_marked(value)) else str(len(value))
    if isinstance(value, list) and index == "[*]":
        value = " ".join(value)
    if not rest:
        return reference if value is None else value
    operator = re.match(r":?[-=+?]", rest)
    if isinstance(value, str) and is_marked(value):
        return reference
    if not operator:
        made = None if value is None else changed_each(value, rest, expand)
        return reference if made is None else made
    return with_operator(scope, (name, value), (operator.group(), rest[operator.end() :]), (reference, expand))


def changed_each(value: Value, rest: str, expand: Callable[[str], str]) -> Value | None:
    """${NAME%pattern} and its like; of an array, each element, and with : some of them."""
    operator = operator_of(rest)
    word, new = (expand(text).translate(BLANK_AGAIN) for text in words_of(operator, rest[len(operator) :]))
    if is_marked(word + new):
        return None
    if isinstance(value, str):
        return changed(value, operator, word, new)
    if operator == ":":
        return part(value, word)
    made = [changed(one, operator, word, new) for one in value if not is_marked(one)]
    found = [one for one in made if one is not None]
    return found if len(found) == len(value) else None


def element(scope: Scope, values: list[str], index: str | None) -> str | None:
    """One element of an array, counted from its end where the index is negative; $ARRAY is its first."""
    found = re.fullmatch(r"(-?)(\d{1,5})", arithmetic(scope, (index or "[0]")[1:-1]))
    if not found:
        return None
    number = len(values) - int(found.group(2)) if found.group(1) else int(found.group(2))
    return values[number] if 0 <= number < len(values) else None


def with_operator(
    scope: Scope,
    variable: tuple[str, Value | None],
    operation: tuple[str, str],
    otherwise: tuple[str, Callable[[str], str]],
) -> Value:
    """${NAME:-word} and its like, for a known value or none."""
    (name, value), (operator, word), (reference, expand) = variable, operation, otherwise
    given = value is not None and (bool(value) or operator[0] != ":")
    if operator[-1] == "+":
        return expand(word) if given else ""
    if given and value is not None:
        return value
    if operator[-1] == "?":
        return reference
    replacement = expand(word)
    if operator[-1] == "=":
        scope.set(name, replacement.translate(BLANK_AGAIN))
    return replacement


def arithmetic(scope: Scope, text: str) -> str:
    """$((text)): whole numbers with + - * / % ** << >>; anything else stays a reference."""
    reference = mark("$((" + text + "))")
    scope.forget(text)
    if len(text) > 200 or not re.fullmatch(r"[\w\s+\-*/%()<>$]*", text, re.ASCII):
        return reference
    import ast

    try:
        value = evaluate(scope, ast.parse(text.replace("$", "").strip(), mode="eval").body)
    except (ValueError, SyntaxError, RecursionError, MemoryError, ZeroDivisionError):
        return reference
    return str(value) if abs(value) < 2**63 else reference


def evaluate(scope: Scope, node: object) -> int:
    """The value of a syntax tree of whole numbers; ValueError for anything else."""
    import ast

    if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return node.value
    if isinstance(node, ast.Name):
        value = scope.get(node.id)
        if isinstance(value, str) and value.isdecimal() and len(value) < 19:
            return int(value)
        raise ValueError
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        operand = evaluate(scope, node.operand)
        return -operand if isinstance(node.op, ast.USub) else operand
    if isinstance(node, ast.BinOp):
        return binary(type(node.op).__name__, evaluate(scope, node.left), evaluate(scope, node.right))
    raise ValueError


def binary(operator: str, left: int, right: int) -> int:
    """One operation on bounded whole numbers; division cuts towards zero, as a shell's does."""
    if max(abs(left), abs(right)) >= 2**63 or (operator in ("Pow", "LShift", "RShift") and not 0 <= right <= 63):
        raise ValueError
    if operator in ("Div", "FloorDiv", "Mod"):
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return left - quotient * right if operator == "Mod" else quotient
    results: dict[str, Callable[[], int]] = {
        "Add": lambda: left + right,
        "Sub": lambda: left - right,
        "Mult": lambda: left * right,
        "Pow": lambda: int(left**right),
        "LShift": lambda: left << right,
        "RShift": lambda: left >> right,
    }
    if operator not in results:
        raise ValueError
    return results[operator]()
