"""A script as the commands it runs: assignments, exports, lists, pipelines, heredocs and branches, read in order.

Nothing is executed. An assignment under a condition makes its variable unknown, both branches of an if are read, and
the files that heredocs write are kept for --config.
"""

import re
from collections.abc import Mapping, Sequence

from kvplan.serve.builtins import builtin
from kvplan.serve.marks import mark
from kvplan.serve.scope import Scope, Variables
from kvplan.serve.script import Command, Heredoc, Script, dialect_of
from kvplan.serve.words import CMD, POWERSHELL, SH, Dialect, Words, expand_text

OPENING = ("if", "while", "until", "for", "case", "select")
CLOSING = ("fi", "done", "esac")
BETWEEN = ("then", "else", "elif", "do", "in", "{", "}", "!", "time", "function")
DECLARING = ("export", "declare", "typeset", "readonly", "local", "set", "setx")
TESTS = ("[", "[[", "test", "((", "grep", "command", "which", "type", "hash")
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\[[^\]\s]*\])?(\+?=)")
POWERSHELL_ASSIGNMENT = re.compile(r"\$((?:env:)?[A-Za-z_]\w*)\s*=\s*")
OPERATOR = re.compile(r"&&|\|\||;;|\|&|[;&|()\n]")
REDIRECT = re.compile(r"\d*(<<<|<<-?|&?>>?\|?|<>|<&|<)&?")
PLACEHOLDER = re.compile(r"<[A-Za-z][\w ./-]*>")
# A line that starts with a flag cannot be a command: its author forgot the backslash on the line above.
FORGOTTEN = re.compile(r"\n[^\S\n]*(?=--?[A-Za-z])")


def read_script(text: str, variables: Mapping[str, str] | None = None, given: Sequence[str] = ()) -> Script:
    """Every simple command of a script in order. variables: what its environment holds. given: $0, $1 and so on."""
    dialect = dialect_of(text)
    if dialect is not SH:
        text = re.sub(rf"{re.escape(dialect.escape)}[ \t]+\n", dialect.escape + "\n", text)
    reader = Reader(text, Scope(variables), dialect)
    if given:
        reader.scope.variables["0"] = given[0]
        reader.scope.positional(list(given[1:]))
    reader.run()
    return Script(reader.commands, reader.files, reader.fed)


class Reader:
    """Walks through a script once."""

    def __init__(self, text: str, scope: Scope, dialect: Dialect) -> None:
        self.lexer = Words(text, scope, dialect)
        self.scope, self.dialect = scope, dialect
        self.commands: list[Command] = []
        self.files: dict[str, str] = {}
        self.fed: list[str] = []
        self.depth = 0  # open if, while, for and case
        self.chained = False  # the command runs only when the one before held, or failed
        self.heredocs: list[Heredoc] = []
        self.open: list[tuple[str, Variables]] = []  # "(", "case" and functions, with the variables before them
        self.defining = False  # a function's name has been read, its body follows
        self.start()

    def start(self) -> None:
        """Begin a simple command."""
        self.words: list[str] = []
        self.prefix: dict[str, str] = {}
        self.forgotten: list[str] = []
        self.redirects: list[str] = []

    def run(self) -> None:
        """Read to the end."""
        while True:
            self.scope.step()
            self.lexer.blanks()
            character = self.lexer.peek()
            if not character:
                break
            if character == "\n" and self.words and self.continues():
                continue
            if self.comment(character) or self.arithmetic() or self.redirect() or self.operator():
                continue
            self.element()
        self.finish("")

    def continues(self) -> bool:
        """Whether the next line goes on with a flag; then skip to it and note the flag."""
        found = FORGOTTEN.match(self.lexer.text, self.lexer.position)
        if not found or self.heredocs:
            return False
        self.lexer.position = found.end()
        flag = re.compile(r"\S+").match(self.lexer.text, found.end())
        self.forgotten.append(flag.group() if flag else "")
        return True

    def comment(self, character: str) -> bool:
        """Skip a comment."""
        if not character or character != self.dialect.comment:
            return False
        end = self.lexer.text.find("\n", self.lexer.position)
        self.lexer.position = len(self.lexer.text) if end < 0 else end
        return True

    def arithmetic(self) -> bool:
        """Skip ((...)), which may change variables."""
        found = re.compile(r"\(\((.*?)\)\)", re.DOTALL).match(self.lexer.text, self.lexer.position)
        if not found or self.words or self.dialect is not SH:
            return False
        self.scope.forget(found.group(1))
        self.lexer.position = found.end()
        return True

    def operator(self) -> bool:
        """Take an operator; it ends the command."""
        found = OPERATOR.match(self.lexer.text, self.lexer.position)
        if not found or (found.group() != "\n" and found.group()[0] not in self.dialect.operators):
            return False
        self.lexer.position = found.end()
        if found.group() == "(":
            self.defining = len(self.words) == 1 and self.lexer.peek() == ")"
            self.open.append(("call" if self.words else "(", self.scope.snapshot()))
        self.finish(found.group())
        if found.group() == ")":
            self.close("(", "call")
        if found.group() == "\n":
            self.bodies()
        return True

    def close(self, *names: str) -> None:
        """End a subshell, whose variables are its own, a case, or a function, which may run or not."""
        if not self.open or self.open[-1][0] not in names:
            return
        name, before = self.open.pop()
        if name == "(":
            self.scope.variables = before
        elif name == "{}":
            now = self.scope.variables
            changed = [one for one in {**before, **now} if before.get(one) != now.get(one) and one.isidentifier()]
            self.scope.variables = {**before, **{one: mark("$" + one, unknown=True) for one in changed}}

    def finish(self, operator: str) -> None:
        """End the simple command."""
        name = self.words[0] if self.words else ""
        if self.words:
            env = {**self.scope.environment(), **self.prefix}
            self.commands.append(Command(self.words, env, self.forgotten))
            if not self.heredocs:
                builtin(self.scope, name, self.words[1:], self.sure())
        else:
            for variable, value in self.prefix.items():
                self.scope.set(variable, value, self.sure())
        self.chained = operator == "||" or (operator == "&&" and (name in TESTS or self.chained))
        self.start()

    def sure(self) -> bool:
        """Whether the current command runs for certain."""
        return self.depth == 0 and not self.chained

    def redirect(self) -> bool:
        """Take a redirection and its target."""
        found = REDIRECT.match(self.lexer.text, self.lexer.position)
        if not found:
            return False
        if self.placeholder():
            return True
        self.lexer.position = found.end()
        sign = found.group(1)
        if sign == "<" and self.lexer.peek() == "(":
            return True
        self.lexer.blanks()
        start = self.lexer.position
        target = "".join(self.lexer.word(joined=True))
        if sign in ("<<", "<<-"):
            raw = self.lexer.text[start : self.lexer.position]
            literal = any(quote in raw for quote in "'\"\\")
            self.heredocs.append(Heredoc(target, sign == "<<-", literal, self.redirects, self.words))
        elif sign.startswith((">", "&>")):
            self.redirects.append(target)
        return True

    def placeholder(self) -> bool:
        """Take <MODEL> as the text that someone was meant to replace."""
        text, at = self.lexer.text, self.lexer.position
        found = PLACEHOLDER.match(text, at)
        if not found:
            return False
        self.lexer.position = found.end()
        if self.words and not text[at - 1].isspace():
            self.words[-1] += found.group()
        else:
            self.words.append(found.group())
        return True

    def bodies(self) -> None:
        """Read the bodies of the heredocs of the line that has ended."""
        for heredoc in self.heredocs:
            body = self.body(heredoc)
            names = list(heredoc.redirects)
            if heredoc.words[:1] == ["tee"]:
                names += [word for word in heredoc.words[1:] if not word.startswith("-")]
            for name in names:
                self.files[name] = body
            if heredoc.words[:1] == ["read"]:
                name = heredoc.words[-1]
                self.scope.set(name, body.strip() if "-d" in heredoc.words else mark("$" + name, unknown=True))
            elif not names:
                self.fed.append(body)
        self.heredocs = []

    def body(self, heredoc: Heredoc) -> str:
        """The lines up to the delimiter, expanded unless it was quoted."""
        lines = []
        text = self.lexer.text
        while self.lexer.position < len(text):
            end = text.find("\n", self.lexer.position)
            end = len(text) if end < 0 else end
            line = text[self.lexer.position : end]
            self.lexer.position = end + 1
            line = line.lstrip("\t") if heredoc.tabs else line
            if line == heredoc.delimiter:
                break
            lines.append(line)
        body = "\n".join(lines) + "\n"
        return body if heredoc.literal else expand_text(body, self.scope)

    def element(self) -> None:
        """Take an assignment, a keyword or a word."""
        if not self.words and self.assignment():
            return
        before = self.lexer.position
        declaring = bool(self.words) and self.words[0] in DECLARING
        if declaring and self.declaration():
            return
        fields = self.lexer.word()
        raw = self.lexer.text[before : self.lexer.position]
        if self.lexer.position == before:
            self.lexer.position += 1
        elif self.words or not self.keyword(raw):
            self.words += fields

    def keyword(self, raw: str) -> bool:
        """Take a reserved word at the start of a command."""
        if raw == "{":
            self.open.append(("{}" if self.defining else "{", self.scope.snapshot()))
            if self.defining:
                self.scope.unknown_positional()
            self.defining = False
        elif raw == "}":
            self.close("{", "{}")
        elif raw == "function":
            self.function()
        if raw == "case":
            self.open.append(("case", {}))
        elif raw == "esac":
            self.close("case")
        if raw in OPENING:
            self.depth += 1
            loop = re.compile(r"\s+([A-Za-z_]\w*)").match(self.lexer.text, self.lexer.position)
            if raw == "for" and loop:
                self.scope.set(loop.group(1), mark("$" + loop.group(1), unknown=True))
            return True
        if raw in CLOSING:
            self.depth = max(0, self.depth - 1)
        return raw in CLOSING or raw in BETWEEN

    def function(self) -> None:
        """Skip the name that follows the word function."""
        found = re.compile(r"\s+[^\s(){}]+(\s*\(\s*\))?").match(self.lexer.text, self.lexer.position)
        if found:
            self.lexer.position = found.end()
            self.defining = True

    def assignment(self) -> bool:
        """Take NAME=value, NAME+=value or NAME=(...) before a command; PowerShell's $env:NAME = value."""
        text, at = self.lexer.text, self.lexer.position
        if self.dialect is POWERSHELL:
            found = POWERSHELL_ASSIGNMENT.match(text, at)
            if found:
                self.lexer.position = found.end()
                self.assign(found.group(1).removeprefix("env:"), "=", found.group(1).startswith("env:"))
            return bool(found)
        found = ASSIGNMENT.match(text, at)
        if not found or self.dialect is not SH:
            return False
        self.lexer.position = found.end()
        if found.group(2):
            self.scope.set(found.group(1), mark("$" + found.group(1), unknown=True))
            self.lexer.word(joined=True)
            return True
        self.assign(found.group(1), found.group(3), export=False)
        return True

    def assign(self, name: str, operator: str, export: bool) -> None:
        """Read the value and assign it; a plain one waits, since it may be a command's prefix."""
        if self.lexer.peek() == "(":
            values = self.array()
            (self.scope.append if operator == "+=" else self.scope.set)(name, values, self.sure())
            return
        value = self.assigned()
        if operator == "+=":
            self.scope.append(name, value, self.sure())
        elif export or self.dialect is POWERSHELL:
            self.scope.set(name, value, self.sure())
        else:
            self.prefix[name] = value
        if export:
            self.scope.exported.add(name)

    def assigned(self) -> str:
        """The value of an assignment, which sees those before it on the line; a command's words do not."""
        hidden = {name: self.scope.variables.get(name) for name in self.prefix}
        self.scope.variables.update(self.prefix)
        value = "".join(self.lexer.word(joined=True))
        for name, before in hidden.items():
            if before is None:
                self.scope.variables.pop(name, None)
            else:
                self.scope.variables[name] = before
        return value

    def array(self) -> list[str]:
        """The elements between parentheses."""
        self.lexer.position += 1
        values: list[str] = []
        while True:
            self.lexer.blanks()
            character = self.lexer.peek()
            if character == "\n":
                self.lexer.position += 1
            elif self.comment(character):
                continue
            elif not character or character == ")":
                self.lexer.position += 1
                return values
            elif character in self.dialect.operators:
                self.lexer.position += 1
            else:
                values += self.lexer.word()

    def declaration(self) -> bool:
        """Take one NAME=value of export, declare and their like; set NAME=value of the Windows command processor."""
        found = re.compile(r'"?([A-Za-z_]\w*)(\+?=)').match(self.lexer.text, self.lexer.position)
        if not found or (self.words[0] in ("set", "setx")) != (self.dialect is CMD):
            bare = re.compile(r"[A-Za-z_]\w*").match(self.lexer.text, self.lexer.position)
            if bare and self.words[0] == "export":
                self.scope.exported.add(bare.group())
            return False
        exports = self.words[0] in ("export", "set", "setx") or "-x" in self.words
        if self.dialect is CMD:
            self.command_set(found.group(1))
        else:
            self.lexer.position = found.end()
            self.declare(found, exports)
        return True

    def declare(self, found: re.Match[str], exports: bool) -> None:
        """NAME=value after export or declare."""
        prefix, self.prefix = self.prefix, {}
        if found.group().startswith('"'):
            self.lexer.position = found.start()
            value = "".join(self.lexer.word(joined=True)).partition("=")[2]
            self.prefix[found.group(1)] = value
        else:
            self.assign(found.group(1), found.group(2), export=False)
        for name, value in self.prefix.items():
            self.scope.set(name, value, self.sure())
        self.prefix = prefix
        if exports:
            self.scope.exported.add(found.group(1))

    def command_set(self, name: str) -> None:
        """set NAME=value: everything up to the end of the line or an operator."""
        found = re.compile(r'"?[A-Za-z_]\w*=([^\n&|<>]*)').match(self.lexer.text, self.lexer.position)
        if found:
            self.lexer.position = found.end()
            self.scope.set(name, found.group(1).strip().rstrip('"'), self.sure())
            self.scope.exported.add(name)
