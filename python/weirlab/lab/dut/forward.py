"""No filter: the kernel just forwards. The baseline, and an example for new drivers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weirlab.base.errors import InputError
from weirlab.lab.base import Driver, Site
from weirlab.records import RuleSetup


class Forward(Driver):
    """Plain forwarding. There are no rules, so the only position is 0, and nothing keeps state."""

    name = "forward"

    def check(self) -> list[str]:
        return []

    def apply(self, site: Site, rules: RuleSetup) -> None:
        if replace(rules, both_ways=False) != RuleSetup():
            raise InputError(
                "the device 'forward' has no rules: only matching position 0, stateless, is possible; "
                "choose another device, for example iptables"
            )

    def facts(self) -> Mapping[str, object]:
        return {"layout": "no filter"}
