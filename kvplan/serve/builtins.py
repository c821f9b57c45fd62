"""What a shell's builtin commands do to its variables, beside export and its like."""

from kvplan.serve.marks import mark
from kvplan.serve.scope import Scope


def builtin(scope: Scope, name: str, words: list[str], sure: bool) -> None:
    """Take a command into account. sure: whether it runs for certain."""
    if name == "unset":
        for variable in words:
            scope.set(variable, mark("$" + variable), sure)
    elif name == "let":
        scope.forget(" ".join(words))
    elif name in ("read", "mapfile", "readarray"):
        for variable in filter(str.isidentifier, words):
            scope.set(variable, mark("$" + variable, unknown=True))
    elif name == "shift" and sure:
        scope.shift(words)
    elif name == "set" and "--" in words and sure:
        scope.positional(words[words.index("--") + 1 :])
    elif name == "set" and (words[:1] in (["-a"], ["+a"]) or words[1:2] == ["allexport"]):
        scope.exports_all = words[0][0] == "-"
