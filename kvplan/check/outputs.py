"""What a check found, in each format: text, JSON, Markdown, CSV, JUnit XML and GitHub annotations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kvplan import __version__
from kvplan.check.figures import Figures
from kvplan.check.run import ERROR, FAILS, HOLDS, Checked
from kvplan.report.lines import wrap
from kvplan.report.numbers import concurrency, number, plural
from kvplan.report.style import View

FORMATS = ("text", "json", "markdown", "csv", "junit", "github")
_MARKS = {HOLDS: "ok   ", FAILS: "FAIL ", ERROR: "ERROR"}
_ROLES = {HOLDS: "good", FAILS: "bad", ERROR: "bad"}


def render(found: Sequence[Checked], format: str, path: str, view: View, notes: Sequence[str] = ()) -> str:
    """The check in one of FORMATS, ending in a newline. ``path``: the file of deployments."""
    if format == "text":
        return text(found, view, notes)
    makers: dict[str, Callable[[], str]] = {
        "json": lambda: json_text(found, notes),
        "markdown": lambda: markdown(found, notes),
        "csv": lambda: csv_text(found),
        "junit": lambda: junit(found, path),
        "github": lambda: github(found, path),
    }
    return makers[format]()


def verdict(found: Sequence[Checked]) -> str:
    """The check in one sentence."""
    failed = [each.deployment.name for each in found if each.status == FAILS]
    broken = [each.deployment.name for each in found if each.status == ERROR]
    if not failed and not broken:
        return f"{plural(len(found), 'deployment')} checked{_engines(found)}: all hold."
    parts = [f"{plural(len(failed), 'deployment')} of {number(len(found))} failed{_engines(found)}"] if failed else []
    parts += [f"{plural(len(broken), 'deployment')} of {number(len(found))} cannot be judged"] if broken else []
    names = [*failed, *broken]
    more = f" and {number(len(names) - 5)} more" if len(names) > 5 else ""
    return f"{' and '.join(parts)}: {', '.join(names[:5])}{more}."


def _engines(found: Sequence[Checked]) -> str:
    """The engine rules of all figures and those of all baselines, where they are two; nothing else."""
    pairs = {each.engines for each in found if each.case is not None}
    pair = pairs.pop() if len(pairs) == 1 else None
    return "" if pair is None else f" with {pair[0]} in place of {pair[1]}"


def sentences(each: Checked) -> list[str]:
    """Why a deployment does not hold, a sentence each."""
    return [each.error] if each.error is not None else [failure.sentence for failure in each.failures]


def text(found: Sequence[Checked], view: View, notes: Sequence[str]) -> str:
    """Failures first, each with its cause; then what holds, a line each."""
    broken = any(each.status != HOLDS for each in found)
    out = [view.paint("bad" if broken else "good", line) for line in wrap(verdict(found), view.columns)]
    for status in (ERROR, FAILS, HOLDS):
        for each in found:
            if each.status == status:
                out += _lines(each, view)
    out += [line for note in notes for line in wrap(note, view.columns, "note: ")]
    return "\n".join(out) + "\n"


def _lines(each: Checked, view: View) -> list[str]:
    mark, name = view.paint(_ROLES[each.status], _MARKS[each.status]), each.deployment.name
    if each.status == HOLDS:
        head = wrap(f"{name}: {_figures(each)}", view.columns, "      ")
        return [mark + head[0][5:], *head[1:]]
    first, *rest = sentences(each)
    head = wrap(f"{name}: {first}", view.columns, "      ")
    out = [mark + head[0][5:], *head[1:]]
    for sentence in rest:
        out += wrap(sentence, view.columns, "      - ")
    measured = each.figures is not None and each.figures.tokens is not None
    if measured and all(failure.limit != "capacity_loss" for failure in each.failures):
        out += wrap(f"planned: {_figures(each)}", view.columns, "      ")
    return out


def _figures(each: Checked) -> str:
    figures = each.figures
    if figures is None or figures.tokens is None:
        return "planned"
    words = f"{number(figures.tokens)} tokens, {concurrency(figures.concurrency or 0)} requests at once"
    if figures.tokens_at_most is not None:
        words = f"at least {words}; estimated, at most {number(figures.tokens_at_most)} tokens"
    loss = each.loss
    if loss is None:
        return words
    if each.engines is None:
        return f"{words} ({change(each)})"
    new, old = each.engines
    return f"{words} with {new} ({change(each)} from {old})"


def change(each: Checked) -> str:
    """The tokens against the baseline: ``-1.2 %``, ``unchanged``."""
    loss = each.loss
    if loss is None:
        return ""
    return "unchanged" if abs(loss) < 5e-5 else f"{-loss * 100:+.1f} %"


def json_text(found: Sequence[Checked], notes: Sequence[str]) -> str:
    """The document of `kvplan check --format json`, version 1."""
    from kvplan.report.document import to_json

    return to_json(
        {
            "schema_version": 1,
            "kvplan_version": __version__,
            "verdict": verdict(found),
            "holds": all(each.status == HOLDS for each in found),
            "deployments": [_document(each) for each in found],
            "notes": list(notes),
        }
    )


def _document(each: Checked) -> dict[str, Any]:
    return {
        "name": each.deployment.name,
        "status": each.status,
        "engine": each.deployment.engine if each.case is None else each.case.engine,
        "figures": None if each.figures is None else each.figures._asdict(),
        "baseline": each.baseline,
        "baseline_engine": each.baseline_engine,
        "loss": each.loss,
        "failures": [
            {
                "limit": f.limit,
                "measured": f.measured,
                "allowed": f.allowed,
                "at_most": f.at_most,
                "sentence": f.sentence,
                "line": f.line or None,
            }
            for f in each.failures
        ],
        "causes": [cause._asdict() for cause in each.causes],
        "error": each.error,
    }


def markdown(found: Sequence[Checked], notes: Sequence[str]) -> str:
    """A verdict, what fails with its causes, and a table: for a pull request's comment."""
    from kvplan.report.markdown import bullets, code, escape, folded, table

    failing = [each for each in found if each.status != HOLDS]
    parts = [f"**kvplan: {escape(verdict(found))}**"]
    if failing:
        lines = [f"- {code(each.deployment.name)}: {escape(' '.join(sentences(each)))}" for each in failing]
        parts.append("\n".join(lines))
    head: tuple[str, ...] = ("deployment", "status", "layout", "tokens", "change", "requests at once", "groups")
    rows = [_row(each, code) for each in found]
    if any(each.engines for each in found):
        head = (*head, "engine")
        rows = [(*row, " in place of ".join(each.engines or ())) for row, each in zip(rows, found, strict=True)]
    parts.append(
        folded("All deployments", table(head, rows, right=3)) if len(found) > 20 else table(head, rows, right=3)
    )
    if any(each.figures is not None and each.figures.tokens_at_most is not None for each in found):
        parts.append(
            "A range: the budget is estimated from the GPU; change and requests at once are those of its low end."
        )
    if notes:
        parts.append(bullets(list(notes)))
    return "\n\n".join(parts) + "\n"


def _row(each: Checked, code: Callable[[str], str]) -> tuple[str, ...]:
    figures = each.figures
    cells = ("", "", "", "", "") if figures is None else _cells(each, figures)
    return (code(each.deployment.name), each.status, *cells)


def _cells(each: Checked, figures: Figures) -> tuple[str, ...]:
    tokens = "" if figures.tokens is None else number(figures.tokens)
    if figures.tokens_at_most is not None:
        tokens = f"{tokens or 'none'} to {number(figures.tokens_at_most)}"
    at_once = "" if figures.concurrency is None else concurrency(figures.concurrency)
    return (figures.layout, tokens, change(each), at_once, number(figures.groups))


def csv_text(found: Sequence[Checked]) -> str:
    """A line for each deployment."""
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    fields = [name for name in Figures._fields if name != "error"]
    writer.writerow(["name", "status", "engine", "loss", "baseline_engine", *fields, "why"])
    for each in found:
        values = each.figures._asdict() if each.figures is not None else {}
        why = " ".join(sentences(each)) if each.status != HOLDS else ""
        engine = each.deployment.engine if each.case is None else each.case.engine
        judged = (each.deployment.name, each.status, engine, each.loss, each.baseline_engine)
        writer.writerow([_cell(value) for value in (*judged, *map(values.get, fields), why)])
    return out.getvalue()


def _cell(value: Any) -> Any:
    """A value that no spreadsheet takes for a formula; yes and no as in JSON."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" and value else value


def junit(found: Sequence[Checked], path: str) -> str:
    """JUnit XML: a test case for each deployment."""
    from xml.etree import ElementTree

    failed, broken = (sum(each.status == status for each in found) for status in (FAILS, ERROR))
    counts = {"tests": str(len(found)), "failures": str(failed), "errors": str(broken)}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "kvplan check", **counts})
    for each in found:
        where = {"name": _xml(each.deployment.name), "classname": "kvplan", "file": _xml(path)}
        case = ElementTree.SubElement(suite, "testcase", {**where, "line": str(each.deployment.line)})
        if each.status != HOLDS:
            tag = "error" if each.status == ERROR else "failure"
            told = [_xml(sentence) for sentence in sentences(each)]
            element = ElementTree.SubElement(case, tag, {"message": told[0]})
            element.text = "\n".join(told)
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"


def _xml(words: str) -> str:
    """The text without characters that XML cannot hold."""
    return "".join(
        c for c in words if c in "\t\n" or (c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\ufffe\uffff")
    )


def github(found: Sequence[Checked], path: str) -> str:
    """GitHub workflow commands: an annotation for each failure on its limit's or deployment's line, and the verdict."""
    out = []
    for each in found:
        if each.status != HOLDS:
            title = _property(f"kvplan: {each.deployment.name}")
            for line, sentence in _placed(each):
                out.append(f"::error file={_property(path)},line={line},title={title}::{_data(sentence)}")
    level = "notice" if not out else "error"
    return "\n".join([*out, f"::{level} title=kvplan check::{_data(verdict(found))}"]) + "\n"


def _placed(each: Checked) -> list[tuple[int, str]]:
    """Each sentence with its line: that of the limit which the file gives, else the deployment's."""
    line = each.deployment.line
    if each.error is not None:
        return [(line, each.error)]
    return [(failure.line or line, failure.sentence) for failure in each.failures]


def _data(words: str) -> str:
    return words.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(words: str) -> str:
    return _data(words).replace(":", "%3A").replace(",", "%2C")
