"""An emulated link between two interfaces: delay, rate, queue, loss and order, each direction by itself.

``running`` puts a link between two interfaces (``emulated_link``). :mod:`weirlab.emulation` says what a
direction does to frames, reads it from text, and counts what became of frames.
``docs/link-emulator.md`` has the semantics.
"""

from __future__ import annotations

from typing import Any

from weirlab.studies.contract import Study


class EmulatorStudy(Study[Any, Any, Any]):
    """A command alone: it carries what others send."""

    key = "emulator"
    title = "a link with delay, rate, queue and loss, emulated between two interfaces"
    commands = {"weirlab.links.emulator.command": ("link",)}
