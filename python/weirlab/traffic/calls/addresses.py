"""Who calls whom: hosts and ports of every call, and the flows of the engine.

A call keeps one pair of hosts and one pair of ports. RTP calls between two hosts have the even ports from
20,000 to below 30,000, and RTCP the odd port above each; the next 5,000 calls are between the next two
hosts. IAX2 has one port for everything, so each call (or trunk) has its own pair of hosts. With
``Calls.one_flow``, all calls are between the hosts and ports of the first.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from weirlab.base.errors import InputError
from weirlab.traffic.calls.arrivals import Units, backs
from weirlab.traffic.calls.signalling import iax2, sip
from weirlab.traffic.calls.spec import Calls
from weirlab.traffic.flows import HOSTS, MAX_FLOWS, FlowAddresses, host_addresses
from weirlab.traffic.plan import CallFlows
from weirlab.traffic.spec import FlowEndpoints

I64 = npt.NDArray[np.int64]

FIRST_RTP_PORT: Final = 20_000
LAST_RTP_PORT: Final = 30_000
_CALLS_PER_PAIR: Final = (LAST_RTP_PORT - FIRST_RTP_PORT) // 2

_NONE: Final = -1


@dataclass(frozen=True)
class FlowMap:
    """Flows by purpose. Each purpose has ``ways`` consecutive flows, one per direction.

    ``control``, ``signals``
        Shape (units,): the first flow of a unit's RTCP, SIP or IAX2 messages; -1 if there are none.
        Calls between the same two hosts share the flows of SIP.
    ``pair``, ``port``
        Shape (units,): number of the pair of hosts, and the port of the speech.
    """

    calls: CallFlows
    addresses: FlowAddresses
    ways: int
    control: I64
    signals: I64
    pair: I64
    port: I64
    ip: Literal[4, 6]
    endpoints: FlowEndpoints | None = None
    """The source of the hosts' addresses, if not the default ranges."""

    def hosts(self, unit: int) -> tuple[str, str]:
        """Addresses of the two sides of a unit, the sender's side first, as text."""
        return _hosts(int(self.pair[unit]), self.ip, self.endpoints)


@lru_cache(maxsize=1024)
def _hosts(pair: int, ip: Literal[4, 6], endpoints: FlowEndpoints | None) -> tuple[str, str]:
    """The same of a pair, which thousands of calls share."""
    number, length = np.array([pair]), 4 if ip == 4 else 16
    both = (
        host_addresses("src", _src(number), ip, endpoints),
        host_addresses("dst", _dst(number), ip, endpoints),
    )
    first, second = (str(ipaddress.ip_address(side[0, :length].tobytes())) for side in both)
    return first, second


def flow_map(calls: Calls, units: Units, endpoints: FlowEndpoints | None = None) -> FlowMap:
    """Flows of all ``units``: speech first, by unit and direction, then control packets, then signalling.

    Raises
    ------
    InputError
        There are more flows than the engine has room for.
    """
    sides = backs(calls.directions)
    ways, n = len(sides), len(units)
    rtp = np.array([kind.transport == "rtp" for kind in calls.classes])[units.call_class]
    rank, iax_rank = np.cumsum(rtp) - 1, np.cumsum(~rtp) - 1
    spread = 0 if calls.one_flow else 1
    place = spread * rank
    rtp_pairs = 1 + int(place[rtp].max(initial=-1)) // _CALLS_PER_PAIR
    pair = np.where(rtp, place // _CALLS_PER_PAIR, rtp_pairs + spread * iax_rank)
    port = np.where(rtp, FIRST_RTP_PORT + 2 * (place % _CALLS_PER_PAIR), iax2.PORT)

    first_control = n * ways
    controlled = rtp & calls.rtcp
    control = np.where(controlled, first_control + rank * ways, _NONE)
    first_sip = first_control + int(controlled.sum()) * ways
    first_iax = first_sip + rtp_pairs * ways
    signals = np.full(n, _NONE, dtype=np.int64)
    last = first_sip
    if calls.signalling:
        signals = np.where(rtp, first_sip + pair * ways, first_iax + iax_rank * ways)
        last = first_iax + int((~rtp).sum()) * ways
    if last > MAX_FLOWS:
        most = calls.count * MAX_FLOWS // last
        raise InputError(
            f"{calls.count:,} calls need {last:,} flows of packets, more than {MAX_FLOWS:,}; up to {most:,} "
            "such calls are possible, and more with trunks, in one direction, or without control "
            "packets and signalling"
        )

    unit = np.zeros(last, dtype=np.int64)
    ports = np.zeros((last, 2), dtype=np.int64)
    every = np.arange(n, dtype=np.int64)
    # A flow shared by several calls gets the number of the first, which is therefore written last.
    for first, who, number in (
        (np.arange(n, dtype=np.int64) * ways, every, port),
        (control, every[controlled], port + 1),
        (signals, every[signals >= 0][::-1], np.where(rtp, sip.PORT, port)),
    ):
        for way in range(ways):
            unit[first[who] + way] = who
            ports[first[who] + way] = number[who, None]
    back = np.tile(np.array(sides), last // ways)
    src = host_addresses("src", _src(pair[unit]), calls.classes[0].stream.ip, endpoints)
    dst = host_addresses("dst", _dst(pair[unit]), calls.classes[0].stream.ip, endpoints)
    swap = back[:, None]
    packet_ns = np.array([kind.stream.packet_ns for kind in calls.classes])[units.call_class]
    carries_media = np.arange(last) < first_control
    return FlowMap(
        calls=CallFlows(
            back=back,
            carries_media=carries_media,
            call=units.call[unit].astype(np.uint32),
            calls_carried=np.where(carries_media, units.carried[unit], 1).astype(np.uint32),
            call_class=units.call_class[unit],
            packet_ns=packet_ns[unit],
        ),
        addresses=FlowAddresses(
            src_ip=np.where(swap, dst, src),
            dst_ip=np.where(swap, src, dst),
            # Both sides have the same port, so the other direction has the same two.
            src_port=ports[:, 0].astype(np.uint16),
            dst_port=ports[:, 1].astype(np.uint16),
        ),
        ways=ways,
        control=control,
        signals=signals,
        pair=pair,
        port=port,
        ip=calls.classes[0].stream.ip,
        endpoints=endpoints,
    )


def _src(pair: I64) -> I64:
    return pair % HOSTS


def _dst(pair: I64) -> I64:
    # Once all hosts have called, each calls the neighbour of the host it called before.
    return (pair + pair // HOSTS) % HOSTS
