"""Voice routing: one numbering plan of SIP, H.323, MGCP and ENUM, and everything that follows from it.

``plan`` is the document, ``routing`` says where a number goes, ``checking`` finds mistakes, ``zones`` and
``configs`` write what DNS servers and engines read.
"""

from __future__ import annotations

from typing import Any

from weirlab.studies.contract import Study


class VoiceStudy(Study[Any, Any, Any]):
    """Commands alone: a numbering plan is looked at, and files are written from it."""

    key = "voice"
    title = "how calls find their way: one numbering plan, checked, explained and turned into configurations"
    commands = {"weirlab.studies.voice.command": ("voice",)}
