"""Paths mean exactly what they say, whatever characters they have."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import weirlab
from weirlab.store import Store
from weirlab.testing import make_record
from weirlab.trace import from_folder

_FILES = ("read_", "scan_", "write_", "sink_")
_KINDS = ("parquet", "csv", "json", "ndjson", "ipc", "ipc_stream", "avro", "excel", "delta")
_POLARS = {f"{verb}{kind}" for verb in _FILES for kind in _KINDS}
_OPEN = {"file: BinaryIO", "contents: list[bytes]", "buffer: io.BytesIO"}
_NAMES = ["runs[1]", "a*b?", "~", "file:///tmp/x", "with space", "new\nline", "{a,b}", "%41"]


@pytest.mark.parametrize("name", _NAMES)
def test_a_store_path_with_any_characters_keeps_its_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store(Path(name))
    with store.create("trial", {}, {}) as writer:
        writer.add(make_record(run_id=writer.run_id))
        writer.put_table("extra", pl.DataFrame({"a": [1]}))
        assert writer.run.trials().height == 1
    run = store.open("last")
    assert run.trials().height == 1
    assert run.table("extra").height == 1
    assert store.runs()[0].problem == ""
    for format in ("csv", "parquet"):
        run.export(Path(name) / "data", format)  # type: ignore[arg-type]
    assert (tmp_path / name / "data" / "trials.csv").read_text().count("\n") == 2
    with (tmp_path / name / "data" / "trials.parquet").open("rb") as file:
        assert pl.read_parquet(file).height == 1


@pytest.mark.parametrize("name", _NAMES)
def test_a_table_of_a_trace_is_read_from_a_folder_of_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path(name)
    folder.mkdir(parents=True)
    with (folder / "rtt.parquet").open("wb") as file:
        pl.DataFrame({"rtt_ns": [1]}).write_parquet(file)
    assert from_folder(folder, "rtt").collect()["rtt_ns"].to_list() == [1]


def handed_over(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and words of everything that hands Polars something else than an open file or bytes."""
    inside: dict[ast.AST, ast.AST] = {
        child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _POLARS:
            call = inside[node]
            if not (isinstance(call, ast.Call) and call.func is node):
                yield node.lineno, f"{node.attr} is passed on"
            elif call.args and not _is_open(call.args[0], inside):
                yield node.lineno, f"{node.attr}({ast.unparse(call.args[0])})"


def _is_open(argument: ast.expr, inside: dict[ast.AST, ast.AST]) -> bool:
    """Is it a name that a ``with ... .open(...) as``, an annotation or a lambda for ``write_with`` gave?"""
    if not isinstance(argument, ast.Name):
        return False
    scope: ast.AST = argument
    while (outer := inside.get(scope)) is not None:
        scope = outer
        if isinstance(scope, ast.Lambda):
            return isinstance(user := inside[scope], ast.Call) and ast.unparse(user.func) == "write_with"
        if isinstance(scope, ast.FunctionDef):
            break
    for node in ast.walk(scope):
        match node:
            case ast.withitem(ast.Call(ast.Attribute(attr="open" | "open_regular")), ast.Name(name)) if (
                name == argument.id
            ):
                return True
            case ast.arg(name, ast.expr() as kind) if f"{name}: {ast.unparse(kind)}" in _OPEN:
                return True
            case ast.AnnAssign(ast.Name(name), kind) if f"{name}: {ast.unparse(kind)}" in _OPEN:
                return True
            case ast.Assign([ast.Name(name)], ast.Call(func)) if name == argument.id:
                return ast.unparse(func) == "io.BytesIO"
    return False


def test_no_path_is_handed_to_polars() -> None:
    """It would expand globs, home folders and URLs in it: open the file and hand that over."""
    root = Path(weirlab.__file__).parent
    found = [
        f"{path.relative_to(root)}:{line}: {words}"
        for path in sorted(root.rglob("*.py"))
        if any(name in (text := path.read_text()) for name in _POLARS)
        for line, words in handed_over(ast.parse(text))
    ]
    assert found == []


@pytest.mark.parametrize(
    "code", ["pl.read_parquet(path)", "frame.write_csv(target)", "write_with(path, frame.write_parquet)"]
)
def test_a_path_handed_to_polars_is_found(code: str) -> None:
    assert list(handed_over(ast.parse(f"def f(path, frame, target):\n    {code}\n")))
