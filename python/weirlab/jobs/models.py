"""Model files, those of runs, and those of profiles in a library."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from weirlab.base.errors import ModelError
from weirlab.jobs.profiles import named
from weirlab.store import Store

MODEL: Final = "model"
"""Name under which a run keeps its fitted models."""


def in_files(store: Store, source: str) -> str:
    """``source``, or the model file of the profile that ``library:NAME`` names.

    Raises
    ------
    InputError, ModelError, StoreError
        No library has such a profile, it is refused, or its model cannot be kept.
    """
    if not source.startswith("library:"):
        return source
    from weirlab.library.places import model_path

    return str(model_path(store.root, source))


def is_file(source: str) -> bool:
    """Whether ``source`` names a model file rather than a run."""
    return source.endswith(".json") or "/" in source or os.path.isfile(source)


def model_file(store: Store, source: str) -> Path:
    """The model file ``source``, or that of the run or the profile; ``ModelError`` if it has none."""
    source = in_files(store, source)
    if is_file(source):
        return Path(source).absolute()
    run = named(store, source)
    if not run.has(MODEL):
        raise ModelError(f"run {run.run_id} has no models; 'weir fit {run.run_id}' fits them")
    return run.path / f"{MODEL}.json"
