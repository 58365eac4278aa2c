"""Runs a gatekeeper: ``python -m weirlab.numbering.gatekeeper gatekeeper.json``.

Its decisions go to standard output, one line each.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, cast

from weirlab.base import extras, files, limits
from weirlab.base.errors import InputError, WeirError
from weirlab.numbering.gatekeeper import datagrams, ras
from weirlab.numbering.gatekeeper.answering import Gatekeeper, same_host
from weirlab.numbering.gatekeeper.ras import Address
from weirlab.numbering.gatekeeper.table import GatekeeperTable, NaptrRecord
from weirlab.numbering.plan.values import is_address, owner_name

_SIGNALLING: Final = 1720
_LONGEST_S: Final = 3.0
"""Time limit of a query and its repetitions."""

_dns: Any = extras.VOICE.deferred("dns.asyncresolver")
_exception: Any = extras.VOICE.deferred("dns.exception")


class Resolver:
    """The host's resolver; without one, all answers are empty."""

    @cached_property
    def _resolver(self) -> Any:
        found = _dns.Resolver()
        found.lifetime = _LONGEST_S
        found.search = []
        return found

    async def records(self, digits: str, suffix: str) -> Sequence[NaptrRecord]:
        """The NAPTR records of a number; none if there are none, or there is no answer."""
        return [
            NaptrRecord(
                each.order,
                each.preference,
                each.service.decode("ascii", "replace"),
                each.regexp.decode("utf-8", "replace"),
                each.replacement.to_text(omit_final_dot=True).strip("."),
            )
            for each in await self._asked(owner_name(digits, suffix), "NAPTR")
        ]

    async def places(self, host: str, port: int | None) -> Sequence[Address]:
        """The places where a host takes calls, by SRV records (H.323, Annex O) or its address; else none."""
        found = []
        if port is None and not is_address(host):
            points = await self._asked(f"_h323cs._tcp.{host}.", "SRV")
            for each in sorted(points, key=lambda point: (point.priority, -point.weight)):
                address = await self._address(each.target.to_text())
                found += [Address(address, each.port)] if address is not None else []
        if not found and (address := await self._address(host)) is not None:
            found.append(Address(address, port or _SIGNALLING))
        return found

    async def _address(self, host: str) -> str | None:
        if is_address(host):
            return host
        return next((each.address for each in await self._asked(f"{host.rstrip('.')}.", "A")), None)

    async def _asked(self, name: str, kind: str) -> Sequence[Any]:
        try:
            return list(await self._resolver.resolve(name, kind))
        except _exception.DNSException:
            return ()


_PATIENCE_S: Final = 1.0
"""Time limit for a neighbour's answer; after that, it is asked once more."""
_ATTEMPTS: Final = 2
MOST_REQUESTS: Final = 1000
MOST_OF_HOST: Final = 100
"""Requests that are answered at once, of all hosts and of one; a gateway has one per call that begins."""


class GatekeeperService(asyncio.DatagramProtocol):
    """The gatekeeper's socket: requests, answers, and requests to neighbours."""

    def __init__(self, table: GatekeeperTable) -> None:
        resolver = Resolver()
        self.gatekeeper = Gatekeeper(table, resolver.records, resolver.places, self.ask, _tell)
        self._numbers = itertools.cycle(range(1, 65536))
        self._asked: dict[tuple[str, int], asyncio.Future[Address | str | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy: Counter[str] = Counter()
        """Requests that are being answered, by the host that asks."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # It is one of datagrams, and no instance of their class.
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        source = Address(*addr[:2])
        try:
            message = datagrams.read(data)
        except ras.NoMessage as error:
            _tell(f"{source.host}: {error}")
            return
        if isinstance(message, (ras.LocationConfirm, ras.LocationReject)):
            waiting = self._asked.get((source.host, message.number))
            if waiting is not None and not waiting.done():
                told = message.signalling if isinstance(message, ras.LocationConfirm) else message.reason
                waiting.set_result(told)
            return
        if self._busy[source.host] >= MOST_OF_HOST or len(self._tasks) >= MOST_REQUESTS:
            # It asks again (H.225.0, 7.8); by then there may be room.
            return
        self._busy[source.host] += 1
        task = asyncio.get_running_loop().create_task(self._answer(message, source))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._done(done, source.host))

    async def _answer(self, message: ras.RasMessage, source: Address) -> None:
        answer = await self.gatekeeper.answer(message, source.host, time.monotonic())
        if answer is None:
            return
        self._transport.sendto(datagrams.written(answer), reply_place(message, source))

    def _done(self, task: asyncio.Task[None], host: str) -> None:
        self._tasks.discard(task)
        self._busy[host] -= 1
        if not self._busy[host]:
            del self._busy[host]

    async def ask(
        self, neighbour: Address, digits: str, hops: int, callers: tuple[str, ...]
    ) -> Address | str | None:
        """The location of a number by ``neighbour``, or why it rejects; None if it does not answer."""
        number = next(self._numbers)
        request = datagrams.written(
            ras.LocationRequest(number, digits, self.gatekeeper.table.ras, hops, callers)
        )
        waiting: asyncio.Future[Address | str | None] = asyncio.get_running_loop().create_future()
        self._asked[neighbour.host, number] = waiting
        try:
            for _ in range(_ATTEMPTS):
                self._transport.sendto(request, neighbour)
                done, _ = await asyncio.wait({waiting}, timeout=_PATIENCE_S)
                if done:
                    return waiting.result()
        finally:
            del self._asked[neighbour.host, number]
        _tell(f"neighbour {neighbour.host} does not answer")
        return None


def reply_place(message: ras.RasMessage, source: Address) -> Address:
    """Where the answer to a message from ``source`` goes: another port of the same host, if it says so.

    To no other host: it may not have asked.
    """
    if isinstance(message, ras.LocationRequest) and same_host(message.reply.host, source.host):
        return message.reply
    return source


def _tell(line: str) -> None:
    print(line, flush=True)


async def _serve(table: GatekeeperTable) -> None:
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(
        lambda: GatekeeperService(table), local_addr=(table.address, table.ras_port)
    )
    _tell(f"gatekeeper {table.gatekeeper} of plan {table.plan} at {table.address}, port {table.ras_port}")
    await loop.create_future()


def main(path: Path) -> int:
    """Run until a signal ends it; returns 1 if it cannot run."""
    try:
        text = files.read_text(path, "a gatekeeper's table", limits.MOST_PLAN_BYTES)
        try:
            table = GatekeeperTable.of(json.loads(text))
        except ValueError as error:
            raise InputError(f"{files.shown(path)}: not the table of a gatekeeper: {error}") from None
        asyncio.run(_serve(table))
    except (WeirError, OSError) as error:
        print(f"gatekeeper: {error}", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
