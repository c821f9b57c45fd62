"""YAML with line numbers: mappings, lists and scalars, each with the line it begins on. Safe tags only, bounded."""

from __future__ import annotations

from typing import Any, NamedTuple

from kvplan.errors import KvplanError
from kvplan.files import open_read

MAX_BYTES = 4 * 2**20
MAX_NODES = 200_000
MAX_DEPTH = 40


class Node(NamedTuple):
    """A value of the file: a dict of Nodes, a list of Nodes or a plain scalar."""

    value: Any
    line: int

    def plain(self) -> Any:
        """The value without line numbers."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


def read(path: str) -> Node:
    """The one document of a YAML file. KvplanError, with the line, where it is none, too large or ambiguous."""
    try:
        with open_read(path) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise KvplanError(f"{path}: cannot be read ({error.strerror}); give a file of deployments.") from None
    except ValueError:
        raise KvplanError(f"{path!r} is no file name; give a file of deployments.") from None
    if len(data) > MAX_BYTES:
        raise KvplanError(f"{path}: is larger than {MAX_BYTES // 2**20} MiB; split it.")
    try:
        return parse(data.decode("utf-8-sig"), path)
    except UnicodeDecodeError:
        raise KvplanError(f"{path}: is not UTF-8 text; save it as that.") from None


def parse(text: str, name: str) -> Node:
    """As `read`, of a text; ``name`` is what errors call it."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        root = loader.get_single_node()
        if root is None:
            raise KvplanError(f"{name}: is empty; list deployments.")
        return _Builder(loader, name).build(root, 0)
    except yaml.MarkedYAMLError as error:
        raise KvplanError(f"{name}{_fault(error)}.") from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, OverflowError) as error:
        raise KvplanError(f"{name}: is no valid YAML ({' '.join(str(error).split())[:120]}).") from None
    finally:
        loader.dispose()


def _fault(error: Any) -> str:
    """Where a text is no YAML, and why: libyaml notices late what is left open, so with the line where that begins."""
    noticed, begun = error.problem_mark or error.context_mark, error.context_mark
    why = error.problem or error.context
    if begun is not None and begun.line != noticed.line:
        if error.context == "while scanning a simple key":
            return f", line {begun.line + 1}: is no valid YAML ({why})"
        why = f"{why} {error.context}, which begins in line {begun.line + 1}"
    where = f", line {noticed.line + 1}" if noticed else ""
    return f"{where}: is no valid YAML ({why})"


class _Builder:
    """Turns composed nodes into Nodes, counting them: an alias is counted each time it is used."""

    def __init__(self, loader: Any, name: str) -> None:
        self.loader = loader
        self.name = name
        self.count = 0

    def build(self, node: Any, depth: int) -> Node:
        line = node.start_mark.line + 1
        self.count += 1
        if self.count > MAX_NODES or depth > MAX_DEPTH:
            raise KvplanError(f"{self.name}, line {line}: the file is nested too deep or too large; split it.")
        if node.id == "mapping":
            return Node(self._mapping(node, depth), line)
        if node.id == "sequence":
            return Node([self.build(item, depth + 1) for item in node.value], line)
        return Node(self.loader.construct_object(node), line)

    def _mapping(self, node: Any, depth: int) -> dict[str, Node]:
        found: dict[str, Node] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.id != "scalar":
                raise KvplanError(f"{self.name}, line {line}: a key must be a name.")
            if key.value in found:
                raise KvplanError(f"{self.name}, line {line}: {key.value} is given twice; keep one.")
            found[key.value] = self.build(value, depth + 1)
        return found
