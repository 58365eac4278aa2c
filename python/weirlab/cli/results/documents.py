"""Results as a file: tables in Markdown or CSV, verdicts as JUnit XML for CI systems."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from weirlab.base import files
from weirlab.base.documents import plain
from weirlab.base.errors import InputError
from weirlab.base.quoting import printable
from weirlab.base.tables import Table

FORMATS = (".md", ".csv")


def check(path: Path | None) -> None:
    """Raise ``InputError`` before anything is measured if the file could not be written later."""
    if path is None:
        return
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"--out {path}: the name must end in {' or '.join(FORMATS)}, which sets the format")
    files.check_output(path, "--out")


def write(
    path: Path, title: str, lead: Sequence[str], tables: Sequence[Table], rows: Sequence[Mapping[str, Any]]
) -> Path:
    """Write ``tables`` below ``title`` and ``lead`` as Markdown, or the bare ``rows`` as CSV."""
    text = _csv(rows) if path.suffix.lower() == ".csv" else _markdown(title, lead, tables)
    files.write_bytes(path, text.encode())
    return path


def _markdown(title: str, lead: Sequence[str], tables: Sequence[Table]) -> str:
    parts = [f"# {title}", *lead]
    for table in tables:
        if table.caption:
            parts.append(f"## {table.caption}")
        marks = ("---:" if i in table.numeric else "---" for i in range(len(table.columns)))
        lines = [table.columns, list(marks), *table.rows]
        parts.append("\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines))
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("\u00a0", " ")


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    buffer = io.StringIO()
    columns = list(dict.fromkeys(name for row in rows for name in row))
    table = csv.DictWriter(buffer, columns, lineterminator="\n")
    table.writeheader()
    for row in rows:
        values = plain(row)
        table.writerow({name: "" if value is None else value for name, value in values.items()})
    return buffer.getvalue()


Outcome = Literal["passed", "failure", "error"]


@dataclass(frozen=True)
class JunitCase:
    """One verdict. A failure is a definite no; an error means that it could not be decided."""

    name: str
    outcome: Outcome
    message: str


def check_junit(path: Path | None) -> None:
    """Raise ``InputError`` if the file could not be written later."""
    if path is not None:
        files.check_output(path, "--junit")


def write_junit(path: Path, suite: str, cases: Sequence[JunitCase], properties: dict[str, str]) -> None:
    """Write ``cases`` as one test suite."""
    from xml.etree import ElementTree

    counts = {
        "tests": len(cases),
        "failures": sum(case.outcome == "failure" for case in cases),
        "errors": sum(case.outcome == "error" for case in cases),
    }
    told = {name: str(number) for name, number in counts.items()}
    root = ElementTree.Element("testsuites", told)
    inner = ElementTree.SubElement(root, "testsuite", {"name": suite, **told})
    described = ElementTree.SubElement(inner, "properties")
    for name, value in properties.items():
        ElementTree.SubElement(described, "property", {"name": name, "value": _sound(value)})
    for case in cases:
        element = ElementTree.SubElement(inner, "testcase", {"classname": suite, "name": _sound(case.name)})
        if case.outcome == "passed":
            ElementTree.SubElement(element, "system-out").text = _sound(case.message)
        else:
            kind = "not met" if case.outcome == "failure" else "undecided"
            ElementTree.SubElement(element, case.outcome, {"message": _sound(case.message), "type": kind})
    ElementTree.indent(root)
    files.write_bytes(path, ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n")


def _sound(text: str) -> str:
    """``text`` without characters that XML 1.0 does not allow."""
    return printable(text).replace("\ufffe", "?").replace("\uffff", "?")
