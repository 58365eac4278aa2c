"""Two ports and nothing between them: the bed's own delay and error."""

from __future__ import annotations

from dataclasses import replace

from weirlab.base.errors import InputError
from weirlab.lab import wiring
from weirlab.lab.cores import Cores
from weirlab.lab.namespaces import BackendChoice, NamespaceBed
from weirlab.records import RuleSetup


class PlainPair(NamespaceBed):
    """Sender and receiver with nothing but a veth pair between them, to measure Weir's own error.

    The sending CPU also receives, so the cable adds no queue and no wake-up. With ``apart``, a kernel thread
    on the CPU that otherwise carries the device receives, which shows what the sender alone can do. Other
    programs that bind themselves to the sender's CPU need ``isolated`` to be False.
    """

    dut = "none"

    def __init__(
        self,
        backend: BackendChoice = "auto",
        cores: Cores | None = None,
        *,
        apart: bool = False,
        isolated: bool = True,
    ) -> None:
        self._apart = apart
        super().__init__(backend, cores, isolated)

    def set_rules(self, rules: RuleSetup) -> None:
        if replace(rules, both_ways=False) != RuleSetup():
            raise InputError(
                "a plain pair has no device under test: only matching position 0, stateless, is possible"
            )

    def set_cross_traffic(self, on: bool) -> None:
        if on:
            raise InputError("a plain pair has no device under test to hold a management session with")

    def _build(self) -> None:
        receiver_cpu = self._cores.dut if self._apart else None
        self._threads = wiring.build_plain(self._netns["tx"], self._netns["rx"], receiver_cpu)
