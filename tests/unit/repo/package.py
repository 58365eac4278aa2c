"""The package as syntax trees, which are made once for all tests that look at it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[3] / "python" / "weirlab"


@cache
def trees() -> dict[Path, ast.Module]:
    """Every module, and the stubs of the engine."""
    return {
        path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py*")) if path.suffix != ".pyc"
    }


def modules() -> dict[Path, ast.Module]:
    return {path: tree for path, tree in trees().items() if path.suffix == ".py"}
