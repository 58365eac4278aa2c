"""Parallel sockets: one stream of bytes over several TCP connections.

``copying`` sends and receives, ``options`` has the options of the commands, ``tables`` what they show.
``exchange`` does both for ``weir psock cat``, ``dropin`` for programs that cannot be changed: ``redirecting``
has the two ways in which their connections are redirected, ``enter`` begins one in its control group or under
a seccomp filter, ``program`` looks after it.
``docs/psock.md`` and ``docs/psock-run.md`` explain them, ``docs/psock-protocol.md`` what crosses the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from weirlab.studies.contract import Study

if TYPE_CHECKING:
    from weirlab.lab.finding import Finding


class PsockStudy(Study[Any, Any, Any]):
    """Commands alone: bytes copied from one host to another."""

    key = "psock"
    title = "bytes copied over several TCP connections at once"

    def checks(self) -> Sequence[Finding]:
        from weirlab.transfers.psock.redirecting import findings

        return findings()
