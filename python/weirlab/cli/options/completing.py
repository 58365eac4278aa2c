"""What shells complete: values of options and arguments. Nothing here may be slow: a key was pressed."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from pathlib import Path

import typer

from weirlab.storage import default_root, run_ids


def runs(ctx: typer.Context, incomplete: str) -> list[str]:
    """IDs of the runs in the store, newest first, and ``last``."""
    found = []
    with suppress(OSError):
        found = sorted(run_ids(_store(ctx)), reverse=True)
    return [name for name in ("last", *found) if name.startswith(incomplete)]


def scenarios(incomplete: str) -> list[str]:
    """Names of the ready-made scenarios; files are for the shell to complete."""
    # Studies stand above this package.
    names = import_module("weirlab.studies.ready").names()
    return [name for name in names if name.startswith(incomplete)]


def kinds(incomplete: str) -> list[str]:
    """Kinds of runs."""
    known = import_module("weirlab.studies.registry").kinds()
    return [name for name in known if name.startswith(incomplete)]


def _store(ctx: typer.Context) -> Path:
    """The store that is named on the line so far or by ``WEIR_STORE``, or else the default one."""
    named = ctx.params.get("store") or ctx.find_root().params.get("store")
    return Path(named) if named else default_root()
