"""Runs of the user's own rules: their names, and frames that the rules' packets fit into."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from weirlab.jobs.testbeds import roomy
from weirlab.testing import FakeBed
from weirlab.traffic.sizes import SIMPLE_IMIX, Constant
from weirlab.traffic.spec import Flows, Traffic

from ..conftest import Weir


class TcpBed(FakeBed):
    """A bed whose traffic is made to match a rule for TCP."""

    position = 3
    drops = False

    def as_sent(self, traffic: Traffic) -> Traffic:
        return replace(traffic, flows=replace(traffic.flows, l4="tcp"))

    def dropped(self, counters: Mapping[str, int]) -> None:
        return None

    def rules_met(self, counters: Mapping[str, int], sent: int) -> None:
        return None


def test_frames_are_as_long_as_packets_of_the_rule_need() -> None:
    sizes = (Constant(64), Constant(70), Constant(512), SIMPLE_IMIX)
    assert roomy(TcpBed(), Flows(), sizes) == (Constant(76), Constant(512))
    assert roomy(FakeBed(), Flows(), sizes) == sizes


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("trial", "--rate", "1kpps", "--duration", "0.01"), "trial with office.rules"),
        (("search", "--max-rate", "10kpps"), "search of office.rules"),
        (("rfc2544", "--tests", "throughput", "--max-rate", "10kpps"), "RFC 2544 tests of office.rules"),
        (("profile", "--quick", "--frame", "64"), "profile of office.rules"),
    ],
)
def test_a_run_is_named_after_the_file_of_the_rules_or_as_the_user_says(
    command: tuple[str, ...], name: str, weir: Weir, bed: Callable[..., object], tmp_path: Path
) -> None:
    path = tmp_path / "office.rules"
    path.write_text("*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n")
    bed()
    for more, wanted in ((), name), (("--name", "Friday"), "Friday"):
        document = weir(*command, "--ruleset", path, *more, "--json").json
        manifest = weir("show", document["run_id"], "--json").json["manifest"]
        assert manifest["scenario"]["name"] == wanted
