"""The library of profiles: what is in it, adding to it, checking it, and ranking its devices."""

from __future__ import annotations

from typing import Any

from weirlab.studies.contract import Study


class LibraryStudy(Study[Any, Any, Any]):
    """Commands alone: nothing is sent, and no run is made."""

    key = "library"
    title = "profiles that others measured, as signed files"
    commands = {"weirlab.devices.library.command": ("library",)}
