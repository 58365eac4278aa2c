"""A firewall that is switched on."""

from __future__ import annotations

from collections.abc import Callable

from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.machines import machine
from weirlab.lab.redundant.terms import Firewall


class FirewallMachine(machine.Machine):
    """The programs of one firewall; ``firewall`` says which one."""

    def __init__(
        self, firewall: Firewall, namespace: Namespace, cpu: int, news: Callable[[str], None]
    ) -> None:
        self.firewall: Firewall = firewall
        super().__init__(f"firewall {firewall}", namespace, cpu, news)
