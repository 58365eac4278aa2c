"""What a gatekeeper asks the domain name system: NAPTR records of numbers, addresses of hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from weirlab import extras
from weirlab.studies.voice.gatekeeper.table import Record
from weirlab.studies.voice.plan.numbers import owner_name
from weirlab.studies.voice.plan.values import is_address

_LONGEST_S: Final = 3.0
"""Of a question and its repetitions."""

_dns: Any = extras.VOICE.deferred("dns.asyncresolver")
_exception: Any = extras.VOICE.deferred("dns.exception")


class Resolver:
    """The host's resolver."""

    def __init__(self) -> None:
        self._resolver = _dns.Resolver()
        self._resolver.lifetime = _LONGEST_S
        self._resolver.search = []

    async def records(self, digits: str, suffix: str) -> Sequence[Record]:
        """The NAPTR records of a number; none if there are none, or nobody tells."""
        return [
            Record(
                each.order,
                each.preference,
                each.service.decode("ascii", "replace"),
                each.regexp.decode("utf-8", "replace"),
                each.replacement.to_text(omit_final_dot=True).strip("."),
            )
            for each in await self._asked(owner_name(digits, suffix), "NAPTR")
        ]

    async def host(self, name: str) -> str | None:
        """The address of a host; None if there is none, or nobody tells."""
        if is_address(name):
            return name
        return next((each.address for each in await self._asked(f"{name}.", "A")), None)

    async def _asked(self, name: str, kind: str) -> Sequence[Any]:
        try:
            return list(await self._resolver.resolve(name, kind))
        except _exception.DNSException:
            return ()
