"""Shell variables: what a script has set so far, and what ${...} and $((...)) make of it.

A name that nothing set counts as unset, as in a shell with an empty environment: ${TP:-8} is 8, and a bare $TP stays a
marked reference (see marks.py). Values are bounded, so that no script can blow one up by doubling it.
"""

import re
from collections.abc import Callable, Mapping

from kvplan.errors import KvplanError
from kvplan.serve.marks import is_marked, is_only_mark, is_unknown, mark

Value = str | list[str]

MAX_VALUE = 2**16
MAX_EXPANDED = 2**24
MAX_STEPS = 200_000
PARAMETER = r"([!#]?)([A-Za-z_]\w*|\d+|[@*?$!#-])(\[[^\]]*\])?(.*)"


class Scope:
    """The variables of one script and the expansion budget it has left."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        self.variables: dict[str, Value] = dict(variables or {})
        self.exported: set[str] = set(self.variables)
        self.left = MAX_EXPANDED
        self.steps = 0

    def step(self) -> None:
        """Count a piece of a word; KvplanError when a script has so many that no person wrote it."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise KvplanError(
                f"the script has more than {MAX_STEPS} words and signs: give a file with the command only"
            )

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
    if not found or found.group(1):
        return reference
    _, name, index, rest = found.groups()
    value = scope.get(name)
    if isinstance(value, list) and index not in ("[@]", "[*]"):
        value = element(value, index)
    if not rest:
        return reference if value is None else value
    operator = re.match(r":?[-=+?]", rest)
    if not operator or (isinstance(value, str) and is_marked(value)):
        return reference
    return with_operator(scope, (name, value), (operator.group(), rest[operator.end() :]), (reference, expand))


def element(values: list[str], index: str | None) -> str | None:
    """One element of an array; $ARRAY is its first."""
    number = (index or "[0]")[1:-1]
    return values[int(number)] if number.isdecimal() and len(number) < 6 and int(number) < len(values) else None


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
        scope.set(name, replacement)
    return replacement


def arithmetic(scope: Scope, text: str) -> str:
    """$((text)): whole numbers with + - * / % ** << >>; anything else stays a reference."""
    reference = mark("$((" + text + "))")
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
