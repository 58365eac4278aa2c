"""The process that carries frames for the device ``link`` until its standard input ends.

Its arguments are the names of both interfaces, the CPU, and the settings of both directions in JSON. It
answers each line with a line of JSON: the counters so far, by the names in :func:`counted`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Final

from weirlab.emulation.account import Account, read_account
from weirlab.emulation.reading import read_both
from weirlab.errors import WeirError

WAYS: Final = ("up", "down")


def main(near: str, far: str, cpu: str, words: str) -> None:
    """Carry frames between ``near`` and ``far``."""
    from weirlab._engine import Emulator

    asked = read_both(*json.loads(words))
    try:
        link = Emulator(
            a=near,
            b=far,
            paths=(asked.up.plain(), asked.down.plain()),
            cpu=int(cpu),
            real_time=True,
        )
    except WeirError as error:
        sys.exit(str(error))
    rates_bps = [asked.up.rate_bps, asked.down.rate_bps]
    print("ready", flush=True)
    for _ in sys.stdin:
        account = read_account(link.progress(), (near, far), rates_bps)
        if account.ended:
            sys.exit(account.failure)
        print(json.dumps(dict(counted(account))), flush=True)
    link.stop()


def counted(account: Account) -> Iterator[tuple[str, int]]:
    """Cumulative counters of both directions, and how many frames are on the link (``link_held``)."""
    for way, direction in zip(WAYS, account.directions, strict=True):
        yield f"link_{way}_arrived", direction.arrived
        yield f"link_{way}_sent", direction.sent
        yield f"link_{way}_lost", direction.lost
        yield f"link_{way}_dropped", direction.dropped_full + direction.dropped_early
        yield f"link_{way}_duplicated", direction.duplicated
        yield f"link_{way}_not_kept", direction.not_kept
    yield "link_held", sum(direction.held for direction in account.directions)


if __name__ == "__main__":
    main(*sys.argv[1:])
