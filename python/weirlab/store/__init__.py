"""Runs on disk: a manifest and Parquet tables that any tool can read.

Start with ``Store.create`` or ``Store.open``. ``columns`` lists the tables' columns; ``codec``
converts a trial's specification to JSON and back.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from weirlab.base.storage import default_root
from weirlab.store.catalogue import Store, how_recent
from weirlab.store.manifest import Manifest, Status
from weirlab.store.summary import RunSummary

if TYPE_CHECKING:
    from weirlab.store.run import ExportFormat, Run
    from weirlab.store.writer import RunWriter

__all__ = [
    "ExportFormat", "Manifest", "Run", "RunSummary", "RunWriter", "Status", "Store", "default_root",
    "how_recent",
]  # fmt: skip

_LATER: Final = {"ExportFormat": "run", "Run": "run", "RunWriter": "writer"}
"""These import Polars, which takes longer than listing all runs does."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"weirlab.store.{_LATER[name]}"), name)
