"""Words of a command line: quotes, escapes and expansions, in the dialects in which serve lines are written.

Source of the rules: POSIX shell and bash for sh; the Windows command processor and PowerShell for their dialects;
systemd.service(5) for unit files; Python's shlex for plain.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from kvplan.serve.expansions import said
from kvplan.serve.marks import BLANK_AGAIN, BLANKS, CLOSE, KEPT, OPEN, is_marked, mark
from kvplan.serve.scope import MAX_VALUE, Scope, Value, arithmetic, braced, simple

MAX_NESTING = 20
HEREDOC = re.compile(r"\s*cat\s*<<(-?)\s*(['\"]?)(\w+)\2[ \t]*\n(.*?\n)?[ \t]*\3\s*", re.DOTALL)
"""A command substitution that is a heredoc's body."""
LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}
ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8})|(.))", re.DOTALL)


class Dialect(NamedTuple):
    """What is special in a dialect."""

    name: str
    escape: str  # outside quotes, and before a line break
    quotes: str
    dollar: bool
    operators: str  # characters that end a word
    comment: str


SH = Dialect("sh", "\\", "'\"", True, "|&;()<>", "#")
CMD = Dialect("cmd", "^", '"', False, "|&()<>", "")
POWERSHELL = Dialect("powershell", "`", "'\"", True, "|&;()<>", "#")
SYSTEMD = Dialect("systemd", "\\", "'\"", True, "", "")
PLAIN = Dialect("plain", "\\", "'\"", False, "", "")


class Words:
    """A reader of words at a position in a text."""

    def __init__(self, text: str, scope: Scope, dialect: Dialect = SH, nesting: int = 0) -> None:
        self.text, self.scope, self.dialect, self.nesting = text, scope, dialect, nesting
        self.position = 0
        special = re.escape(
            dialect.escape + dialect.quotes + dialect.operators + OPEN + ("$`" if dialect.dollar else "%")
        )
        self.plain = re.compile(rf"[^{BLANKS}{special}]+")
        self.fields: list[str] = []
        self.parts: list[str] = []
        self.open = False  # a field has begun; quoted empty text begins one too
        self.keeps = False  # blanks between quotes are kept apart from others: an expansion's word splits later

    def peek(self, offset: int = 0) -> str:
        """The character at the position, empty at the end."""
        at = self.position + offset
        return self.text[at : at + 1]

    def blanks(self) -> None:
        """Skip blanks and continued lines, not line breaks."""
        pattern = rf"(?:[ \t]|{re.escape(self.dialect.escape)}\n)+"
        found = re.compile(pattern).match(self.text, self.position)
        if found:
            self.position = found.end()

    def all(self) -> list[str]:
        """Every word of a text without operators."""
        out: list[str] = []
        while True:
            self.blanks()
            if not self.peek():
                return out
            if self.peek() == "\n":
                self.position += 1
                continue
            out += self.word()

    def word(self, joined: bool = False) -> list[str]:
        """The fields of the word at the position: one, or none or several where an expansion splits.

        joined: keep an expansion in one piece, as in an assignment.
        """
        self.fields, self.parts, self.open = [], [], False
        stop = self.dialect.operators
        while (character := self.peek()) and character not in BLANKS and (not stop or character not in stop):
            self.piece(character, joined)
        self.end_field()
        return self.fields

    def piece(self, character: str, joined: bool) -> None:
        """One quoted string, escape, expansion or run of plain text."""
        self.scope.step()
        found = self.plain.match(self.text, self.position)
        if found:
            self.position = found.end()
            self.add(found.group())
        elif character == OPEN:
            self.marked()
        elif character == "'" and "'" in self.dialect.quotes:
            self.single()
        elif character == '"' and self.dialect is CMD and self.parts and self.parts[-1].endswith("\\"):
            self.position += 1
            self.parts[-1] = self.parts[-1][:-1] + '"'
        elif character == '"':
            self.double()
        elif character == self.dialect.escape:
            self.escaped()
        elif character == "%":
            self.percent()
        elif self.text.startswith("$'", self.position):
            self.add(self.ansi())
        elif self.text.startswith('$"', self.position) and self.dialect is SH:
            self.position += 1
            self.double()
        elif character in "$`":
            self.expansion(self.dollar(), joined)
        else:
            self.position += 1
            self.add(character)

    def marked(self) -> None:
        """A reference that an outer reading left without a value: as it is."""
        end = self.text.find(CLOSE, self.position)
        end = len(self.text) if end < 0 else end + 1
        self.add(self.text[self.position : end])
        self.position = end

    def add(self, text: str) -> None:
        """Text that does not split."""
        self.parts.append(text if self.keeps else text.translate(BLANK_AGAIN))
        self.open = True

    def end_field(self) -> None:
        """Close the field in progress."""
        if self.open:
            self.fields.append("".join(self.parts))
        self.parts, self.open = [], False

    def expansion(self, value: Value, joined: bool) -> None:
        """An expansion outside quotes: splits at blanks, and vanishes when empty."""
        if joined:
            self.add(value if isinstance(value, str) else " ".join(value))
            return
        text = value if isinstance(value, str) else " ".join(value)
        if text[:1].isspace():
            self.end_field()
        self.several(re.findall(rf"(?:{OPEN}[^{CLOSE}]*{CLOSE}|\S)+", text))
        if text[-1:].isspace():
            self.end_field()

    def several(self, values: list[str]) -> None:
        """Several fields: the first is glued to what stands before, the last to what follows."""
        for number, value in enumerate(values):
            if number:
                self.end_field()
            self.add(value)

    def escaped(self) -> None:
        """An escape outside quotes."""
        following = self.peek(1)
        self.position += 1 + len(following)
        if following != "\n":
            self.add(following or self.dialect.escape)

    def single(self) -> None:
        """Text between single quotes; PowerShell doubles a quote inside."""
        end = self.text.find("'", self.position + 1)
        while self.dialect is POWERSHELL and end >= 0 and self.text[end + 1 : end + 2] == "'":
            end = self.text.find("'", end + 2)
        end = len(self.text) if end < 0 else end
        content = self.text[self.position + 1 : end]
        self.position = end + 1
        content = content.replace("''", "'") if self.dialect is POWERSHELL else content
        self.add(content.translate(KEPT) if self.keeps else content)

    def double(self) -> None:
        """Text between double quotes."""
        self.position += 1
        self.add("")
        begun = len(self.parts)
        while (character := self.peek()) and character != '"':
            self.inside_double(character)
        self.position += 1
        if self.keeps:
            self.parts[begun:] = [part.translate(KEPT) for part in self.parts[begun:]]

    def inside_double(self, character: str) -> None:
        """One step between double quotes."""
        self.scope.step()
        following = self.peek(1)
        escape = "\\" if self.dialect is CMD else self.dialect.escape
        if character == escape and following and following in self.escapable():
            self.position += 2
            self.add("" if following == "\n" else following)
        elif character == OPEN:
            self.marked()
        elif character == "%" and self.dialect is CMD:
            self.percent()
        elif self.dialect.dollar and character in "$`" and character != escape:
            value = self.dollar()
            if isinstance(value, list):
                self.several(value)
            else:
                self.add(value)
        else:
            found = re.compile(rf'[^"\\$`%^{OPEN}]+').match(self.text, self.position)
            self.position = found.end() if found else self.position + 1
            self.add(found.group() if found else character)

    def escapable(self) -> str:
        """What an escape character escapes between double quotes."""
        return {"cmd": '"', "powershell": '"$`'}.get(self.dialect.name, '$`"\\\n')

    def percent(self) -> None:
        """%NAME% of the Windows command processor."""
        found = re.compile(r"%(\w+)%").match(self.text, self.position) if self.dialect is CMD else None
        if found:
            self.position = found.end()
            value = self.scope.get(found.group(1))
            self.add(value if isinstance(value, str) else mark(found.group()))
        else:
            self.position += 1
            self.add("%")

    def dollar(self) -> Value:
        """The expansion that starts here with $ or a backquote."""
        text, at = self.text, self.position
        if text[at] == "`":
            end = text.find("`", at + 1)
            self.position = len(text) if end < 0 else end + 1
            content = re.sub(r"\\([`$\\])", r"\1", text[at + 1 : end]) if end > 0 else ""
            return self.printed(content, text[at : self.position])
        for opening, closing, reader in (
            ("$((", "))", self.sum),
            ("$(", ")", self.output),
            ("$[", "]", self.sum),
            ("${", "}", self.parameter),
        ):
            if text.startswith(opening, at):
                return self.enclosed(opening, closing, reader)
        found = re.compile(r"\$((?:env:)?[A-Za-z_]\w*|[0-9@*#?$!-])").match(text, at)
        if not found:
            self.position += 1
            return "$"
        self.position = found.end()
        if found.group(1) == "$" and self.dialect is SYSTEMD:
            return "$"
        return simple(self.scope, found.group(1).removeprefix("env:"))

    def enclosed(self, opening: str, closing: str, reader: Callable[[str], Value]) -> Value:
        """What stands between an opening and its closing, nested pairs and quotes skipped."""
        start = self.position + len(opening)
        end = closing_at(self.text, start, opening[1], closing[0])
        content = self.text[start:end]
        if len(closing) == 2 and self.text[end : end + 2] != "))":
            return self.enclosed("$(", ")", self.output)
        self.position = min(end + len(closing), len(self.text))
        return reader(content) if len(content) <= MAX_VALUE else mark(opening + "..." + closing, unknown=True)

    def sum(self, content: str) -> Value:
        """$((...))."""
        return arithmetic(self.scope, content)

    def output(self, content: str) -> Value:
        """$(...)."""
        return self.printed(content, f"$({content})")

    def printed(self, content: str, reference: str) -> str:
        """What a command prints, where that follows from its words; else the reference."""
        found = HEREDOC.fullmatch(content)
        if found:
            quote, body = found.group(2), found.group(4) or ""
            body = re.sub(r"(?m)^\t+", "", body) if found.group(1) else body
            return (body if quote else expand_text(body, self.scope)).rstrip("\n")
        known = re.fullmatch(r"\s*(?:which|command -v|type -[pP])\s+([\w./-]+)\s*", content)
        if known:
            return known.group(1)
        if self.nesting < MAX_NESTING and re.match(r"\s*(?:echo|printf|basename|dirname)\s", content):
            inner = Words(content.strip(), self.scope, SH, self.nesting + 1)
            words = inner.command()
            text = None if words is None or any(map(is_marked, words)) else said(words)
            if text is not None:
                return text
        return mark(reference, unknown=True)

    def command(self) -> list[str] | None:
        """The words of a text that is one command; None where an operator stands in it."""
        out: list[str] = []
        while True:
            self.blanks()
            if not self.peek():
                return out
            before = self.position
            out += self.word()
            if self.position == before:
                return None

    def parameter(self, content: str) -> Value:
        """${...}."""
        return braced(self.scope, content.removeprefix("env:"), self.nested)

    def nested(self, text: str) -> str:
        """A word inside an expansion, quotes taken away."""
        if self.nesting >= MAX_NESTING:
            return mark(text)
        inner = Words(text, self.scope, self.dialect._replace(operators=""), self.nesting + 1)
        inner.keeps = True
        out = []
        while inner.peek():
            if inner.peek().isspace():
                out.append(inner.peek())
                inner.position += 1
            else:
                out.append(" ".join(inner.word(joined=True)))
        return "".join(out)

    def ansi(self) -> str:
        """$'...' with C escapes."""
        found = re.compile(r"\$'((?:[^'\\]|\\.)*)'?", re.DOTALL).match(self.text, self.position)
        self.position = found.end() if found else self.position + 2
        return ESCAPE.sub(escape, found.group(1) if found else "")


def escape(found: re.Match[str]) -> str:
    """The character of one C escape."""
    octal, code, letter = found.group(1), found.group(2), found.group(3)
    number = int(octal, 8) if octal else int(code[1:], 16) if code else -1
    if number >= 0:
        return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else ""
    return LETTERS.get(letter, letter)


def closing_at(text: str, start: int, opening: str, closing: str) -> int:
    """Where the pair that is open at start ends; the end of the text when it never does."""
    depth, position = 1, start
    finder = re.compile(r"\\.|'[^']*'|[" + re.escape(opening + closing) + "]", re.DOTALL)
    while found := finder.search(text, position):
        position = found.end()
        if found.group() == closing:
            depth -= 1
            if not depth:
                return found.start()
        elif found.group() == opening:
            depth += 1
    return len(text)


def expand_text(text: str, scope: Scope) -> str:
    """A heredoc's body with its variables filled in; quotes are plain characters there."""
    reader = Words(text, scope, SH)
    out: list[str] = []
    pattern = re.compile(r"[^$`\\]+")
    while reader.peek():
        scope.step()
        found = pattern.match(text, reader.position)
        if found:
            out.append(found.group())
            reader.position = found.end()
        elif reader.peek() == "\\":
            following = reader.peek(1)
            out.append("" if following == "\n" else following if following in ("$", "`", "\\") else "\\" + following)
            reader.position += 1 + len(following)
        else:
            value = reader.dollar()
            out.append(" ".join(value) if isinstance(value, list) else value)
    return "".join(out)
