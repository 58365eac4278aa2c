"""Devices without rules that Weir makes: plain forwarding, and a device that Weir changes nothing at."""

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


class BlackBox(Driver):
    """Whatever is between two ports of this machine. It has its own rules: the only position is 0."""

    name = "blackbox"

    def check(self) -> list[str]:
        return ["it is a device of your own between two ports of this machine: --lab wired --between A B"]

    def apply(self, site: Site, rules: RuleSetup) -> None:
        if replace(rules, both_ways=False, answered=False) != RuleSetup():
            raise InputError(
                "the device 'blackbox' has its own rules, which Weir does not change: only matching position "
                "0, stateless, is possible"
            )

    def facts(self) -> Mapping[str, object]:
        return {"layout": "its own, unknown"}
