"""Devices without rules that Weir makes: plain forwarding, and a device that Weir changes nothing at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weirlab.lab.base import Driver, Site
from weirlab.lab.dut.rules import INSTEAD, check_none
from weirlab.records import RuleSetup


class Forward(Driver):
    """Plain forwarding. There are no rules, so the only position is 0, and nothing keeps state."""

    name = "forward"

    def check(self) -> list[str]:
        return []

    def apply(self, site: Site, rules: RuleSetup) -> None:
        check_none(rules, self.name, "has no rules", INSTEAD)

    def facts(self) -> Mapping[str, object]:
        return {"layout": "no filter"}


class BlackBox(Driver):
    """Whatever is between two ports of this machine. It has its own rules: the only position is 0."""

    name = "blackbox"

    def check(self) -> list[str]:
        return ["it is a device of your own between two ports of this machine: --lab wired --between A B"]

    def apply(self, site: Site, rules: RuleSetup) -> None:
        check_none(replace(rules, answered=False), self.name, "has its own rules, which Weir does not change")

    def facts(self) -> Mapping[str, object]:
        return {"layout": "its own, unknown"}
