"""The driver of a device that Weir does not build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from weirlab.base.errors import LabError
from weirlab.lab.base import Driver, Site
from weirlab.lab.remote.changes import Note, RuleChange, Unchanged
from weirlab.lab.remote.filters import ENTERED
from weirlab.lab.remote.readings import DeviceReading, check_ports, read
from weirlab.lab.remote.target import Target
from weirlab.records import RuleSetup

_CERTAIN_PACKETS: Final = 100
"""So many more packets at the device's ports are test traffic, not what neighbours say to each other."""


class ExternalDevice(Driver):
    """A device called ``name``, whose rules ``change`` sets; ``target`` is a login, None without one.

    ``ports`` are its test ports; without them, those to the networks of test traffic.
    """

    forwards = True

    def __init__(
        self,
        name: str,
        target: Target | None = None,
        change: RuleChange | None = None,
        ports: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.note: Note = lambda _: None
        """Tells the user something."""
        self._target = target
        self._change = change or Unchanged()
        self._ports = tuple(ports)
        self._rules = RuleSetup()
        self._last: DeviceReading | None = None
        self._kernel = ""

    def check(self) -> list[str]:
        if self._target is not None:
            self._kernel = self._target.run(["uname", "-sr"]).stdout.strip()
        return self._change.missing()

    def start(self, site: Site) -> Sequence[int]:
        if self._target is not None:
            self._ports = check_ports(self._target, self._ports)
        self._change.begin(self.note)
        return ()

    def stop(self) -> None:
        try:
            self._change.end(self.note)
        finally:
            if self._target is not None:
                self._target.close()

    def apply(self, site: Site, rules: RuleSetup) -> None:
        self._change.apply(rules)
        self._rules = rules
        self._last = None

    def keep(self, seconds: float) -> None:
        """Keep the rules in force for traffic of so many seconds."""
        self._change.confirm(seconds)

    def counters(self) -> Mapping[str, int]:
        """The device's own counters, and proof that its rules are those set last.

        Raises ``LabError`` if they are not, or if test traffic passes the device without meeting them.
        """
        self._change.confirm()
        if self._target is None:
            return {}
        reading = read(self._target, self._ports, self._change.entered())
        counters = dict(reading.counters)
        if (entered := self._change.packets(reading.printed)) is not None:
            counters[ENTERED] = entered
        self._check_path(self._last.counters if self._last else {}, counters)
        self._last = DeviceReading(counters, reading.frequency_mhz, reading.temperature_c)
        return counters

    @property
    def has_login(self) -> bool:
        """Whether the device can be asked how it is."""
        return self._target is not None

    @property
    def reading(self) -> DeviceReading:
        """The last one."""
        return self._last or DeviceReading()

    def facts(self) -> Mapping[str, object]:
        return {
            "layout": self._change.layout,
            **({"at": self._target.name, "kernel": self._kernel} if self._target is not None else {}),
            **({"ports": ", ".join(self._ports)} if self._ports else {}),
        }

    def _check_path(self, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        if ENTERED not in before or not self._rules.position:
            return
        if ENTERED not in after:
            # The device may have restored its own rules since they were confirmed.
            self._change.confirm()
            raise LabError(
                f"{self.name}: Weir's rules are no longer on the device; something else there has loaded its "
                "own (a reload of the firewall?). Keep that from happening during a test, and resume the run"
            )
        names = [f"device_{port}_tx_packets" for port in self._ports]
        forwarded = sum(after.get(name, 0) - before.get(name, 0) for name in names)
        if forwarded > _CERTAIN_PACKETS and after[ENTERED] == before[ENTERED]:
            raise LabError(
                f"{self.name}: the device forwarded {forwarded:,} packets, and none of them met Weir's "
                "rules: it bridges, or it offloads flows. Switch offloading off, or measure with change: none"
            )
