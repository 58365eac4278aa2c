"""Where runs are kept and how they are named: what is known without reading any of them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

RUN_ID: Final = re.compile(r"\d{8}-\d{6}-([a-z][a-z0-9_]*)-[0-9a-f]{4}")
"""Date, time (UTC), kind and a random number."""

SIMULATION: Final = "sim"
"""Name of the lab in which nothing is measured, since its device is simulated."""

EMULATED: Final = "dut_emulated"
"""The fact of a run, or of a model, that says whether the device's CPU was emulated."""
EMULATION: Final = (
    "the device's CPU was emulated (QEMU without KVM): what it did with packets is real, its rates and "
    "delays mean nothing"
)


def kind_of(run_id: str) -> str:
    """The kind of run that its ID tells; empty for what is no ID."""
    match = RUN_ID.fullmatch(run_id)
    return match[1] if match else ""


SEARCH: Final = "search"
"""Role of trials that search for a load."""


def searches(run_id: str) -> bool:
    """Whether a run searches for a load itself, so that trials of that role are its results."""
    return kind_of(run_id) in ("search", "rfc2544")


def default_root() -> Path:
    """``$XDG_DATA_HOME/weir``, by default ``~/.local/share/weir``."""
    base = os.environ.get("XDG_DATA_HOME", "")
    # The XDG base directory specification: a relative path is to be ignored.
    return (Path(base) if os.path.isabs(base) else Path.home() / ".local" / "share") / "weir"


def run_ids(root: Path) -> list[str]:
    """The folders in ``root`` that are named like runs, in no order; raises ``OSError``."""
    if not root.exists():
        return []
    with os.scandir(root) as entries:
        return [entry.name for entry in entries if RUN_ID.fullmatch(entry.name) and entry.is_dir()]
