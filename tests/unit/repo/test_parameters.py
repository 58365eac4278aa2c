"""No trains of parameters: what belongs together is a dataclass."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .package import PACKAGE, modules

MANY = 8
"""Parameters from which on a function has many; ``self``, ``*args`` and ``**kwargs`` count."""

MOST = 4
"""So many functions may have many: these make results for tests, a field of the result each. Lower it where
one goes; do not raise it.
"""


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    found = function.args
    named = [*found.posonlyargs, *found.args, *found.kwonlyargs]
    return len(named) + (found.vararg is not None) + (found.kwarg is not None)


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function of the package, with its place."""
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}", node


def test_few_functions_have_many_parameters() -> None:
    trains = [place for place, function in functions() if parameters(function) >= MANY]
    assert len(trains) <= MOST, "\n".join(trains)


def test_every_kind_of_parameter_counts() -> None:
    (function,) = ast.parse("def f(a, /, b, *c, d=1, **e): ...").body
    assert isinstance(function, ast.FunctionDef)
    assert parameters(function) == 5
