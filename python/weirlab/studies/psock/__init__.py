"""Parallel sockets: one stream of bytes over several TCP connections.

``copying`` sends and receives, ``options`` has the options of the commands, ``tables`` what they show.
``exchange`` does both for ``weir psock cat``, ``dropin`` for programs that cannot be changed.
``docs/psock.md`` and ``docs/psock-run.md`` explain them, ``docs/psock-protocol.md`` what crosses the network.
"""

from __future__ import annotations

from typing import Any

from weirlab.studies.contract import Study


class PsockStudy(Study[Any, Any, Any]):
    """Commands alone: bytes copied from one host to another."""

    key = "psock"
    title = "bytes copied over several TCP connections at once"
    commands = {"weirlab.studies.psock.command": ("psock",)}
