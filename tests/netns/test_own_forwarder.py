"""A driver whose device forwards in user space fits the lab as it is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from weirlab.base.errors import InputError, LabError
from weirlab.lab.base import Driver, Site
from weirlab.lab.netns import NetnsLab
from weirlab.records import RuleSetup
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Rate, Traffic

pytestmark = pytest.mark.netns

TRAFFIC = Traffic(Rate(500.0), Constant(128), warmup_s=0.02, duration_s=1.0)

PROGRAM = """
import os, select, socket, sys
ways = {}
for here, there, source, destination in (sys.argv[1:5], sys.argv[5:9]):
    came, goes = (socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) for _ in range(2))
    came.bind((here, 0)); goes.bind((there, 0))
    ways[came] = goes, bytes.fromhex(destination) + bytes.fromhex(source)
print("ready", flush=True)
while True:
    for came in select.select([*ways, sys.stdin], [], [])[0]:
        if came is sys.stdin:
            sys.exit()
        frame, address = came.recvfrom(4096)
        goes, addresses = ways[came]
        if address[2] == socket.PACKET_HOST:
            goes.send(addresses + frame[12:])
"""
"""Forwards each frame that is for this host, with other addresses; ends when its input does."""


class Forwarder(Driver):
    """Two sockets and a loop. There are no rules."""

    name = "forwarder"
    forwards = True

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def check(self) -> list[str]:
        return []

    def start(self, site: Site) -> Sequence[int]:
        there = _way(site.inward.name, site.outward.name, site.outward.mac, site.receiver.mac)
        back = _way(site.outward.name, site.inward.name, site.inward.mac, site.sender.mac)
        bound = ["taskset", "-c", str(site.cpu), sys.executable, "-c", PROGRAM, *there, *back]
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", site.netns, *bound],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        if self.process.stdout.readline() != "ready\n":
            raise LabError("the forwarder did not start")
        return [self.process.pid]

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.communicate()

    def apply(self, site: Site, rules: RuleSetup) -> None:
        if replace(rules, both_ways=False) != RuleSetup():
            raise InputError("the device 'forwarder' has no rules: only matching position 0 is possible")

    def facts(self) -> Mapping[str, object]:
        return {"layout": "user space"}


def _way(here: str, there: str, source: str, destination: str) -> list[str]:
    return [here, there, source.replace(":", ""), destination.replace(":", "")]


def test_what_it_forwards_is_measured() -> None:
    driver = Forwarder()
    with NetnsLab(driver) as lab:
        assert driver.process is not None
        process = driver.process
        result = lab.run(TRAFFIC)
        assert result.received > 0
        assert lab.facts["dut_layout"] == "user space"
        with pytest.raises(InputError, match="has no rules"):
            lab.set_rules(RuleSetup(position=5))
    assert process.poll() == 0


def test_the_kernel_does_not_forward_beside_it() -> None:
    class Idle(Forwarder):
        def start(self, site: Site) -> Sequence[int]:
            return ()

    with NetnsLab(Idle()) as lab:
        assert lab.run(TRAFFIC).received == 0


def test_a_driver_that_fails_leaves_nothing_behind() -> None:
    class Broken(Forwarder):
        def start(self, site: Site) -> Sequence[int]:
            super().start(site)
            raise LabError("it does not answer")

    driver = Broken()
    with pytest.raises(LabError, match="does not answer"):
        NetnsLab(driver)
    assert driver.process is None
