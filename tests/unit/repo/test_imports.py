"""No module needs itself by way of others, imports for types included."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter

from .package import PACKAGE, modules


def _named() -> dict[str, ast.Module]:
    found = {}
    for path, tree in modules().items():
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = tree
    return found


def _imported(tree: ast.Module, known: dict[str, ast.Module]) -> set[str]:
    """Modules of the package that are imported anywhere in ``tree``."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names):
                found |= {
                    whole if (whole := f"{module}.{alias.name}") in known else module for alias in names
                }
    return found & known.keys()


def test_imports_have_no_circles() -> None:
    known = _named()
    graph = {name: _imported(tree, known) - {name} for name, tree in known.items()}
    circle: list[str] = []
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = error.args[1]
    assert circle == []
