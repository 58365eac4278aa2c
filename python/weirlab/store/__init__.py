"""Runs on disk: a manifest and Parquet tables that any tool can read.

Start with ``Store.create`` or ``Store.open``. ``rows`` lists the tables' columns; ``codec``
converts a trial's specification to JSON and back.
"""

from weirlab.storage import default_root
from weirlab.store.catalogue import RunSummary, Store, how_recent
from weirlab.store.manifest import Manifest, Status
from weirlab.store.run import ExportFormat, Run
from weirlab.store.writer import RunWriter

__all__ = [
    "ExportFormat",
    "Manifest",
    "Run",
    "RunSummary",
    "RunWriter",
    "Status",
    "Store",
    "default_root",
    "how_recent",
]
