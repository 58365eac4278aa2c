"""DNS queries of a gatekeeper: NAPTR records of numbers, addresses of hosts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from weirlab.base import extras
from weirlab.numbering.gatekeeper.ras import Address
from weirlab.numbering.gatekeeper.table import NaptrRecord
from weirlab.numbering.plan.numbers import owner_name
from weirlab.numbering.plan.values import is_address

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
