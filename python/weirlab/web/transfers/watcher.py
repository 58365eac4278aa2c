"""The process that watches connections of this host for a page; see :mod:`watching`.

Its argument names them as that of ``weir tcp why`` does. It writes lines of JSON: the causes of the last
seconds, once a second, and at the end those of all that was sampled, or why nothing can be watched. It ends
with its standard input.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any, Final

from weirlab.base.errors import WeirError
from weirlab.link.stopping import Stop
from weirlab.transfers.tcp import causes, connections, watching
from weirlab.transfers.tcp.causes import ConnectionCause
from weirlab.transfers.tcp.show import screen
from weirlab.web.tables import for_page

_PERIOD_NS: Final = 10_000_000
_LONGEST_S: Final = 3600.0


def main(target: str) -> None:
    """Watch until the end of the connections or of standard input."""
    with Stop() as stop:
        threading.Thread(target=_end_with_the_page, args=(stop,), daemon=True).start()
        try:
            wanted = connections.parse(target, "Connections")
            log = causes.CauseLog()
            live = screen.LiveCauses(log, lambda found: _tell(causes=_lines(found)))
            outcome = watching.watch(causes.watch_settings(wanted, _PERIOD_NS, _LONGEST_S), [log, live], stop)
            found = log.causes(outcome.progress)
            _tell(causes=_lines(found), message="" if found else "No connection appeared.")
        except WeirError as error:
            _tell(causes=[], message=str(error))


def _lines(found: Sequence[ConnectionCause]) -> list[dict[str, Any]]:
    return [
        {"line": one.line, "table": for_page(screen.evidence(one)) if one.findings else None} for one in found
    ]


def _tell(**document: Any) -> None:
    print(json.dumps(document), flush=True)


def _end_with_the_page(stop: Stop) -> None:
    while os.read(sys.stdin.fileno(), 1 << 10):
        pass
    stop.request()


if __name__ == "__main__":
    main(*sys.argv[1:])
