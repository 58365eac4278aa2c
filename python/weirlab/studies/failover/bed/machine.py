"""A firewall that is switched on: what runs in it, and what it says."""

from __future__ import annotations

from collections.abc import Callable

from weirlab.lab import machine
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.machine import CRITICAL, NEWS
from weirlab.studies.failover.bed.terms import Firewall

__all__ = ["CRITICAL", "NEWS", "Machine"]


class Machine(machine.Machine):
    """The programs of one firewall, from switching on to :meth:`power_off`."""

    def __init__(
        self, firewall: Firewall, namespace: Namespace, cpu: int, news: Callable[[str], None]
    ) -> None:
        self.firewall: Firewall = firewall
        super().__init__(f"firewall {firewall}", namespace, news, cpu=cpu)
