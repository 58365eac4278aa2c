"""Optional parts of an installation (extras of the package, the engine), and the error if one is missing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

from weirlab.base.errors import LabError, MissingCapability


@contextmanager
def engine_needed() -> Iterator[None]:
    """Turn the failure to import ``weirlab._engine`` in the block into ``LabError``."""
    try:
        yield
    except ImportError as error:
        raise LabError(f"the engine is not built ({error}); build it with 'make build'") from error


@dataclass(frozen=True)
class Extra:
    """Packages that only some commands need: the extra ``weirlab[name]``."""

    name: str
    purpose: str
    """What needs them, in the plural."""
    packages: Mapping[str, str]
    """Modules, and the names that people know them by."""

    @property
    def remedy(self) -> str:
        """The command that installs them: their own names, which every package index knows."""
        return f"pip install {shlex.join(self.requirements())}"

    def requirements(self) -> list[str]:
        """The packages with their versions, as the installed package demands them."""
        marker = f'extra == "{self.name}"'
        try:
            demanded = requires("weirlab") or []
        except PackageNotFoundError:
            demanded = []
        parts = [demand.replace("'", '"').partition(";") for demand in demanded]
        return [name.strip() for name, _, condition in parts if marker in condition] or [
            f"weirlab[{self.name}]"
        ]

    def missing(self) -> list[str]:
        """The packages that are not installed; none is imported to find out."""
        return [name for module, name in self.packages.items() if find_spec(module) is None]

    def require(self) -> None:
        """Raise ``MissingCapability`` unless all are installed."""
        if lacking := self.missing():
            needed = " and ".join(lacking)
            raise MissingCapability(
                f"{self.purpose} need {needed}, not installed here; install with: {self.remedy}"
            )

    def deferred(self, module: str) -> Any:
        """``module``, imported on first use; that raises ``MissingCapability`` if it is not installed."""
        return _DeferredModule(module, self)


class _DeferredModule(ModuleType):
    def __init__(self, name: str, extra: Extra) -> None:
        super().__init__(name)
        self._extra = extra

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Inspecting the module does not count as using it.
            raise AttributeError(name)
        self._extra.require()
        return getattr(import_module(self.__name__), name)


CLUSTER: Final = Extra("cluster", "workers on several machines", {"distributed": "Dask distributed"})
"""What carries the steps of a campaign, and captures, to other machines."""

MANAGE: Final = Extra(
    "manage", "numbering plans in a database", {"sqlalchemy": "SQLAlchemy", "pwdlib": "pwdlib"}
)
"""For SQLite and PostgreSQL, and the passwords of accounts."""

REPORT: Final = Extra("report", "the charts of a report", {"altair": "Altair", "vl_convert": "vl-convert"})
"""For the charts of pages and their images; a third of the installation's size."""

VOICE: Final = Extra(
    "voice", "gatekeepers, and imports of zones,", {"dns": "dnspython", "pycrate_asn1dir": "pycrate"}
)
"""Formats of the domain name system and of H.225.0, for numbering plans."""

WEB: Final = Extra("web", "the pages of weir web", {"fastapi": "FastAPI", "uvicorn": "uvicorn"})
"""The service that browsers talk to."""
