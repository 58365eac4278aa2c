"""The description of a run, in a small JSON file next to its tables."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from weirlab.base.errors import StoreError
from weirlab.base.limits import MOST_MANIFEST_BYTES
from weirlab.base.quoting import shortened
from weirlab.base.storage import EMULATED, EMULATION, SIMULATION
from weirlab.store import lock
from weirlab.store.files import load_json, write_json

MANIFEST_FILE: Final = "manifest.json"
FORMAT: Final = "weir-run"
FORMAT_VERSION: Final = 1

_COUNT_MAX: Final = 1 << 63
_SHOWN_CHARACTERS: Final = 40

Status = Literal["running", "complete", "interrupted", "failed"]
STATUSES: Final[tuple[Status, ...]] = ("running", "complete", "interrupted", "failed")


@dataclass(frozen=True)
class Manifest:
    """The identity of a run and the conditions it was measured under."""

    run_id: str
    kind: str
    """The kind of run: ``trial``, ``profile``, ``verify``, ``calibrate``, ..."""
    status: Status
    created: str
    """ISO 8601, UTC."""
    scenario: dict[str, Any]
    versions: dict[str, str]
    host: str
    kernel: str
    calibration: str | None = None
    """ID of the calibration in force, None without one."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Facts about the test bed: cores, tools, link, ..."""
    finished: str | None = None
    trials: int | None = None
    """Attempts kept, invalid ones included; None while the run is being written."""
    invalid: int | None = None
    unusable: str | None = None
    """Why the run does not count, as judged when it was measured; None if it does."""

    def save(self, run_path: Path) -> None:
        """Write it to ``run_path``, atomically."""
        content = {"format": FORMAT, "version": FORMAT_VERSION, **vars(self)}
        write_json(run_path / MANIFEST_FILE, content, durable=True)

    @classmethod
    def load(cls, run_path: Path) -> Manifest:
        """Read it from ``run_path``; raises ``StoreError`` naming the file if it cannot be used.

        A run whose writer was killed counts as interrupted.
        """
        manifest = cls.stored(run_path)
        if manifest.status == "running" and not lock.is_held(run_path):
            return replace(manifest, status="interrupted")
        return manifest

    @classmethod
    def stored(cls, run_path: Path) -> Manifest:
        """As :meth:`load`, but a run whose writer was killed is still running."""
        path = run_path / MANIFEST_FILE
        return cls._from_json(load_json(path, _remedy(path), limit=MOST_MANIFEST_BYTES), path)

    @property
    def refusal(self) -> str:
        """Why the run does not count; empty if it does, or if nothing judged that."""
        return EMULATION if self.emulated else self.unusable or ""

    @property
    def emulated(self) -> bool:
        """Whether the device's CPU was emulated, so that rates and delays mean nothing."""
        return bool(self.facts.get(EMULATED))

    @property
    def simulated(self) -> bool:
        """Whether the device was simulated, so that nothing was measured on a real one."""
        return self.facts.get("lab") == SIMULATION

    @classmethod
    def _from_json(cls, content: Any, path: Path) -> Manifest:
        if not isinstance(content, Mapping) or content.get("format") != FORMAT:
            raise StoreError(f"{path} is not the manifest of a run; delete {path.parent} or restore it")
        if content.get("version") != FORMAT_VERSION:
            raise StoreError(
                f"{path} has version {content.get('version')} of the format, this Weir reads version "
                f"{FORMAT_VERSION}; read it with the Weir that wrote it ({content.get('versions')})"
            )
        known = {name: content[name] for name in cls.__dataclass_fields__ if name in content}
        if wrong := _wrong(known):
            raise StoreError(f"{path} is damaged ({wrong}); {_remedy(path)}")
        return cls(**known)

    def section(self, name: str) -> Mapping[str, Any]:
        """The section ``name`` of the scenario; empty if it has none."""
        found = self.scenario.get(name) or {}
        if not isinstance(found, Mapping):
            raise StoreError(
                f"the manifest of run {self.run_id} is damaged (scenario.{name}: an object was expected); "
                "restore it from a copy or delete the run"
            )
        return found


_TEXT: Final = "text"
_OBJECT: Final = "an object"
_COUNT: Final = "a count or null"
_EXPECTED: Final[Mapping[str, str]] = {
    "run_id": _TEXT,
    "kind": _TEXT,
    "status": _TEXT,
    "created": "a date and time",
    "scenario": _OBJECT,
    "versions": _OBJECT,
    "host": _TEXT,
    "kernel": _TEXT,
    "calibration": "text or null",
    "facts": _OBJECT,
    "finished": "text or null",
    "trials": _COUNT,
    "invalid": _COUNT,
    "unusable": "text or null",
}
_OPTIONAL: Final = ("calibration", "facts", "finished", "trials", "invalid", "unusable")


def _wrong(known: Mapping[str, Any]) -> str:
    """What is wrong with the fields of a manifest, in words; empty if nothing is."""
    missing = [name for name in _EXPECTED if name not in known and name not in _OPTIONAL]
    if missing:
        return f"without {', '.join(missing)}"
    for name, value in known.items():
        if not _fits(value, _EXPECTED[name]):
            return f"{name}: {_EXPECTED[name]} was expected, not {_shown(value)}"
    if known["status"] not in STATUSES:
        return f"unknown status {_shown(known['status'])}"
    return ""


def _fits(value: Any, expected: str) -> bool:
    if value is None:
        return expected.endswith("or null")
    if expected == _COUNT:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _COUNT_MAX
    if expected == _OBJECT:
        return isinstance(value, Mapping)
    if not isinstance(value, str):
        return False
    if expected != "a date and time":
        return True
    try:
        return datetime.fromisoformat(value) is not None
    except ValueError:
        return False


def _shown(value: Any) -> str:
    return shortened(json.dumps(value), _SHOWN_CHARACTERS)


def _remedy(path: Path) -> str:
    return f"restore it from a copy or delete {path.parent}"


def versions() -> dict[str, str]:
    """Versions of the Python packages that a result may depend on, as this process loads them."""
    return dict(_versions())


@cache
def _versions() -> Mapping[str, str]:
    # Imported here: lists of runs do not need them.
    import platform
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for name in ("weirlab", "numpy", "polars", "scipy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def host() -> str:
    """Name of this machine."""
    return os.uname().nodename


def kernel() -> str:
    """Release of the running kernel."""
    return os.uname().release
