"""How the voice streams of a capture were heard."""

from __future__ import annotations

from typing import Any

from weirlab.studies.contract import Study


class QualityStudy(Study[Any, Any, Any]):
    """Commands alone: nothing is sent, and no run is made."""

    key = "quality"
    title = "the quality of the voice streams in a capture"
    commands = {"weirlab.calls.quality.command": ("quality",)}
