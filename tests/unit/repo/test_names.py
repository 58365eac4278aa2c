"""A class is found by its name."""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Iterator

from .package import PACKAGE, modules, trees


def test_every_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in modules().items():
        for statement in tree.body:
            if isinstance(statement, ast.ClassDef):
                places[statement.name].append(str(path.relative_to(PACKAGE)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def names(tree: ast.AST) -> Iterator[str]:
    """What a module defines or imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).rpartition(".")[2] for alias in node.names)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr


def references(docstring: str) -> Iterator[str]:
    """What a docstring refers to: cross-references, and the errors under "Raises"."""
    for target in re.findall(r":(?:class|func|meth|data|attr|mod):`~?([\w.]+)`", docstring):
        yield target.rpartition(".")[2]
    for section in re.findall(r"Raises\n +-{6}\n(.*?)(?:\n *\n|\Z)", docstring, re.DOTALL):
        margin = re.match(" *", section)
        assert margin is not None
        for line in re.findall(rf"^{margin[0]}(\w[\w., ]*)$", section, re.MULTILINE):
            yield from (name.rpartition(".")[2] for name in line.replace(",", " ").split() if name != "or")


def test_what_a_docstring_refers_to_exists() -> None:
    known = {name for tree in trees().values() for name in names(tree)} | {
        *dir(builtins),
        "weirlab",
    }
    known |= {part for path in trees() for part in path.relative_to(PACKAGE).with_suffix("").parts}
    missing = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {name}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for name in references(str(node.value.value))
        if name not in known
    ]
    assert missing == []
