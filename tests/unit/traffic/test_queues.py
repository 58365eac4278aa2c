"""Which receive queue takes in a flow."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Literal

import numpy as np
import pytest

from weirlab.traffic import flows
from weirlab.traffic.flows import FlowAddresses, queues, shares, toeplitz
from weirlab.traffic.spec import Flows


def one(source: str, destination: str) -> tuple[FlowAddresses, Literal[4, 6]]:
    """A flow between two addresses with ports."""
    ends = [each.rpartition(":") for each in (source, destination)]
    addresses = [ip_address(each[0].strip("[]")) for each in ends]
    ips = [np.frombuffer(each.packed.ljust(16, b"\0"), dtype=np.uint8)[None] for each in addresses]
    ports = [np.array([int(each[2])], dtype=np.uint16) for each in ends]
    return FlowAddresses(ips[0], ips[1], ports[0], ports[1]), addresses[0].version


@pytest.mark.parametrize(
    ("source", "destination", "found"),
    [
        ("66.9.149.187:2794", "161.142.100.80:1766", 0x51CCC178),
        ("199.92.111.2:14230", "65.69.140.83:4739", 0xC626B0EA),
        ("24.19.198.95:12898", "12.22.207.184:38024", 0x5C2B394A),
        ("[3ffe:2501:200:1fff::7]:2794", "[3ffe:2501:200:3::1]:1766", 0x40207D3D),
    ],
)
def test_hashes_are_those_that_microsoft_publishes(source: str, destination: str, found: int) -> None:
    """Windows drivers documentation, "Verifying the RSS hash calculation"."""
    assert toeplitz(*one(source, destination)) == [found]


@pytest.mark.parametrize("count", [2, 3, 4, 8])
@pytest.mark.parametrize("ip", [4, 6])
def test_many_flows_are_spread_over_all_queues_about_equally(ip: Literal[4, 6], count: int) -> None:
    found = shares(flows.table(Flows(4096, ip=ip)), ip, count)
    assert sum(found) == pytest.approx(1.0)
    assert max(found) < 1.1 / count
    assert min(found) > 0.9 / count


def test_a_flow_stays_in_its_queue() -> None:
    table = flows.table(Flows(100))
    assert queues(table, 4, 1).tolist() == [0] * 100
    assert queues(table, 4, 4).tolist() == queues(table, 4, 4).tolist()
    assert shares(flows.table(Flows(1)), 4, 4).count(1.0) == 1
