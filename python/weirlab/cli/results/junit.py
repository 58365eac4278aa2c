"""Verdicts as JUnit XML for CI systems: one test case each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from weirlab.base import files
from weirlab.base.quoting import printable

Outcome = Literal["passed", "failure", "error"]


@dataclass(frozen=True)
class JunitCase:
    """One verdict. A failure is a definite no; an error means that it could not be decided."""

    name: str
    outcome: Outcome
    message: str


def check(path: Path | None) -> None:
    """Raise ``InputError`` if the file could not be written later."""
    if path is not None:
        files.check_output(path, "--junit")


def write(path: Path, suite: str, cases: Sequence[JunitCase], properties: dict[str, str]) -> None:
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
