"""TCP: bulk transfers between two hosts, and what the kernel tells of any connection of this one."""

from __future__ import annotations

from typing import Any

from weirlab.studies.contract import Study


class TcpStudy(Study[Any, Any, Any]):
    """Commands alone: tests between two hosts, and connections watched."""

    key = "tcp"
    title = "bulk transfers, and what the kernel tells of any TCP connection"
    commands = {"weirlab.studies.tcp.command": ("tcp",)}
