from __future__ import annotations

import ipaddress
from typing import Literal

import numpy as np
import pytest

from weirlab.base.errors import InputError
from weirlab.traffic.flows import MAX_FLOWS, FlowAddresses, min_frame_bytes, table
from weirlab.traffic.spec import Flows

Order = Literal["advance", "random"]


def different_tuples(addresses: FlowAddresses) -> int:
    ports = np.stack([addresses.src_port, addresses.dst_port], axis=1).view(np.uint8)
    rows = np.concatenate([addresses.src_ip, addresses.dst_ip, ports.reshape(len(addresses), 4)], axis=1)
    return len({row.tobytes() for row in rows})


@pytest.mark.parametrize(
    ("flows", "expected"),
    [
        (Flows(l4="udp", ip=4), 64),
        (Flows(l4="tcp", ip=4), 76),
        (Flows(l4="udp", ip=6), 84),
        (Flows(l4="tcp", ip=6), 96),
    ],
)
def test_smallest_frame_holds_headers_probe_and_fcs(flows: Flows, expected: int) -> None:
    assert min_frame_bytes(flows) == expected


@pytest.mark.parametrize("order", ["advance", "random"])
@pytest.mark.parametrize("ip", [4, 6])
def test_no_two_flows_share_addresses_and_ports(order: Order, ip: Literal[4, 6]) -> None:
    addresses = table(Flows(count=150_000, order=order, ip=ip))
    assert len(addresses) == 150_000
    assert different_tuples(addresses) == 150_000


def test_a_million_flows_have_a_million_tuples() -> None:
    addresses = table(Flows(count=1_000_001))
    key = addresses.src_ip[:, :4].copy().view(">u4")[:, 0].astype(np.int64) << 16 | addresses.src_port
    assert len(np.unique(key)) == 1_000_001


@pytest.mark.parametrize("order", ["advance", "random"])
def test_ipv4_addresses_come_from_the_benchmarking_range(order: Order) -> None:
    addresses = table(Flows(count=70_000, order=order))
    assert set(map(tuple, addresses.src_ip[:, :2].tolist())) == {(198, 18)}
    assert set(map(tuple, addresses.dst_ip[:, :2].tolist())) == {(198, 19)}
    assert not addresses.src_ip[:, 4:].any()
    for column in (addresses.src_ip[:, 2], addresses.src_ip[:, 3], addresses.dst_ip[:, 2]):
        assert column.min() >= 1, "x.y.0.0/24 belongs to the lab's own interfaces"
        assert column.max() <= 254


@pytest.mark.parametrize("order", ["advance", "random"])
def test_ipv6_addresses_come_from_the_benchmarking_range(order: Order) -> None:
    addresses = table(Flows(count=1000, order=order, ip=6))
    source = ipaddress.ip_network("2001:2:0:1::/64")
    destination = ipaddress.ip_network("2001:2:0:2::/64")
    for src, dst in zip(addresses.src_ip, addresses.dst_ip, strict=True):
        assert ipaddress.ip_address(src.tobytes()) in source
        assert ipaddress.ip_address(dst.tobytes()) in destination


def test_advancing_flows_count_the_source_address_up_and_then_the_port() -> None:
    addresses = table(Flows(count=254 * 254 + 1))
    assert addresses.src_ip[0, :4].tolist() == [198, 18, 1, 1]
    assert addresses.src_ip[1, :4].tolist() == [198, 18, 1, 2]
    assert addresses.src_ip[254, :4].tolist() == [198, 18, 2, 1]
    assert addresses.src_ip[-1, :4].tolist() == [198, 18, 1, 1]
    assert addresses.src_port[-1] == addresses.src_port[0] + 1


def test_random_flows_depend_on_the_seed_alone() -> None:
    first = table(Flows(count=100, order="random", seed=5))
    again = table(Flows(count=100, order="random", seed=5))
    other = table(Flows(count=100, order="random", seed=6))
    assert (first.src_ip == again.src_ip).all()
    assert (first.src_port == again.src_port).all()
    assert (first.src_port != other.src_port).any()


@pytest.mark.parametrize("count", [0, -1, MAX_FLOWS + 1])
def test_flow_counts_out_of_range_are_refused(count: int) -> None:
    with pytest.raises(InputError, match=str(count)):
        table(Flows(count=count))
