"""Model files, and those of runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from weirlab.base.errors import ModelError
from weirlab.jobs.profiles import named
from weirlab.store import Store

MODEL: Final = "model"
"""Name under which a run keeps its fitted models."""


def is_file(source: str) -> bool:
    """Whether ``source`` names a model file rather than a run."""
    return source.endswith(".json") or "/" in source or os.path.isfile(source)


def model_file(store: Store, source: str) -> Path:
    """The model file ``source``, or that of the run ``source``; ``ModelError`` if it has none."""
    if is_file(source):
        return Path(source).absolute()
    run = named(store, source)
    if not run.has(MODEL):
        raise ModelError(f"run {run.run_id} has no models; 'weir fit {run.run_id}' fits them")
    return run.path / f"{MODEL}.json"
