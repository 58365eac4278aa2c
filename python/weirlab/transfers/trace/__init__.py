"""What captures show."""

from __future__ import annotations

from typing import Any

from weirlab.studies.contract import Study


class TraceStudy(Study[Any, Any, Any]):
    """Commands only: nothing is sent, and no run is made."""

    key = "trace"
    title = "what a capture says about TCP connections, voice streams and ESP flows"
    commands = {"weirlab.transfers.trace.command": ("trace",)}
