"""The process that carries frames for the device ``link`` until its standard input ends.

Its arguments are the names of both interfaces and the CPU. The first line is the :func:`request`. It answers
each further line with a line of JSON: the counters so far, by the names in :func:`counted`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from weirlab.base.errors import WeirError
from weirlab.emulation.account import EmulationCounters, read_account
from weirlab.emulation.reading import LinkSpec, read_both
from weirlab.emulation.spec import MahimahiTrace

WAYS: Final = ("up", "down")


def request(asked: LinkSpec) -> str:
    """The settings of both directions, with the content of their traces, on a line."""
    contents = [None if path.trace is None else path.trace.plain() for path in (asked.up, asked.down)]
    traces = [None if content is None else content.decode("latin-1") for content in contents]
    return json.dumps([dict(asked.up_words), dict(asked.down_words), *traces])


def requested(line: str) -> LinkSpec:
    """What :func:`request` wrote."""
    up_words, down_words, *traces = json.loads(line)
    asked = read_both(up_words, down_words)
    up, down = (
        path
        if path.trace is None
        else replace(path, trace=MahimahiTrace(path.trace.name, text.encode("latin-1")))
        for path, text in zip((asked.up, asked.down), traces, strict=True)
    )
    return replace(asked, up=up, down=down)


def main(near: str, far: str, cpu: str) -> None:
    """Carry frames between ``near`` and ``far``."""
    from weirlab._engine import Emulator

    asked = requested(sys.stdin.readline())
    try:
        link = Emulator(
            a=near, b=far, paths=(asked.up.plain(), asked.down.plain()), cpu=int(cpu), real_time=True
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


def counted(account: EmulationCounters) -> Iterator[tuple[str, int]]:
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
