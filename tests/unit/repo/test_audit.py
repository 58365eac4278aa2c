"""`make audit` says what it found and what it could not check, and ends accordingly."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts/audit"


@pytest.fixture(scope="module")
def audit() -> ModuleType:
    spec = spec_from_loader("audit", SourceFileLoader("audit", str(SCRIPT)))
    assert spec is not None
    module = module_from_spec(spec)
    assert spec.loader is not None
    with pytest.MonkeyPatch.context() as patch:
        # Dataclasses look their module up; and nothing is written beside the script.
        patch.setitem(sys.modules, "audit", module)
        patch.setattr("sys.dont_write_bytecode", True)
        spec.loader.exec_module(module)
    return module


GOOD = {"name": "jinja2", "version": "3.1.6", "vulns": []}
BAD = {"name": "jinja2", "version": "3.1.0", "vulns": [{"id": "X-1", "fix_versions": ["3.1.6"]}]}
UNKNOWN = {"name": "numpy", "skip_reason": "Dependency not found"}


@pytest.mark.parametrize(
    ("packages", "problem", "lines"),
    [
        ([GOOD], "", ()),
        ([GOOD, BAD], "found", ("jinja2 3.1.0: X-1, mended in 3.1.6",)),
        ([GOOD, UNKNOWN], "not checked", ("numpy: Dependency not found",)),
        ([BAD, UNKNOWN], "found", ("jinja2 3.1.0: X-1, mended in 3.1.6", "numpy: Dependency not found")),
        ([], "not checked", ()),
    ],
)
def test_python_packages_that_could_not_be_looked_up_are_not_taken_for_good(
    audit: ModuleType, packages: list[dict[str, Any]], problem: str, lines: tuple[str, ...]
) -> None:
    assert audit.python_answer({"dependencies": packages, "fixes": []}) == (problem, lines)


@pytest.mark.parametrize(
    ("document", "problem", "lines"),
    [
        ({"auditReportVersion": 2, "vulnerabilities": {}}, "", ()),
        (
            {"auditReportVersion": 2, "vulnerabilities": {"vite": {"severity": "high", "range": "<=7.0.0"}}},
            "found",
            ("vite <=7.0.0: high",),
        ),
        (
            {"message": "405 Method Not Allowed", "statusCode": 405},
            "not checked",
            ("405 Method Not Allowed",),
        ),
    ],
)
def test_a_registry_of_npm_that_does_not_answer_is_not_taken_for_no_vulnerability(
    audit: ModuleType, document: dict[str, Any], problem: str, lines: tuple[str, ...]
) -> None:
    assert audit.npm_answer(document) == (problem, lines)


def test_a_program_that_gives_no_answer_has_not_checked(audit: ModuleType) -> None:
    done = subprocess.CompletedProcess(
        ["pip-audit"], 1, stdout="", stderr="Traceback\nConnectionError: refused\n"
    )
    check = audit.read("packages", done, audit.python_answer)
    assert (check.problem, check.lines) == ("not checked", ("ConnectionError: refused",))


def test_without_cargo_deny_crates_are_not_checked(
    audit: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit.shutil, "which", lambda name: None)
    assert [check.problem for check in audit.crates()] == ["not checked"] * 2
    assert audit.scripts().problem == "not checked"


@pytest.mark.parametrize(
    ("problems", "code"),
    [({""}, 0), ({"", "found"}, 1), ({"", "not checked"}, 3), ({"found", "not checked"}, 1)],
)
def test_the_exit_code_is_0_only_if_all_was_checked_and_nothing_found(
    audit: ModuleType, problems: set[str], code: int
) -> None:
    assert audit.exit_code(problems) == code
