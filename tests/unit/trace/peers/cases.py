"""What is true of each script, and where tshark and tcptrace say something else and why.

A difference that is not listed fails, and so does one that is listed and no longer there. ``tcptrace``
differs from Weir in three numbers of every connection (``USUAL``); what a case says stands above that, and
``None`` means that they agree there after all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weirlab.testing.tcp import Packet

from . import scripts


@dataclass(frozen=True)
class Said:
    """Another number than Weir's: ``value``, or so much ``more``."""

    because: str
    value: float | None = None
    more: float = 0.0

    def of(self, mine: float) -> float:
        return mine + self.more if self.value is None else self.value


Otherwise = Mapping[str, Said | None]


@dataclass(frozen=True)
class Case:
    script: Callable[[], list[Packet]]
    truth: Sequence[Mapping[str, Any]]
    """By connection: names of ``numbers`` or paths into the answer."""
    tshark: Sequence[Otherwise] = ({},)
    tcptrace: Sequence[Otherwise] = ({},)
    tcptrace_blind: str = ""
    """Why it sees no connection at all."""
    snap_bytes: int = 262_144
    name: str = ""

    @property
    def title(self) -> str:
        return self.name or self.script.__name__


OWIN = "tcptrace counts the byte that was acknowledged last as outstanding"
SYN_FIN_RTT = "tcptrace takes SYN and FIN for samples"
FIN_DUPLICATE = "tcptrace takes a FIN without data for a duplicate ACK"
USUAL: Mapping[str, Said] = {
    "a.flight_max": Said(OWIN, more=1),
    "b.flight_max": Said(OWIN, more=1),
    "a.rtt_samples": Said(SYN_FIN_RTT, more=2),
    "b.rtt_samples": Said(SYN_FIN_RTT, more=2),
    "a.duplicate_acks": Said(FIN_DUPLICATE, more=1),
}

NO_KARN = (
    "tshark measures from the first copy of a segment that was sent twice, or that waited for one, to the "
    "ACK: the time of the repair and not the round trip (Karn, RFC 6298 section 3)"
)
SACKED_FLIGHT = "tshark takes off what SACK reported, and counts no gap"
GAP_FLIGHT = "tshark gives no flight for a packet behind a gap"
NOT_OUTSTANDING = "an ACK is a duplicate while data are outstanding (RFC 5681 section 2); {0} counts any"
PACKETS_WITH_ZERO = "{0} counts packets that advertise 0, Weir how often the window was closed"
PROBES_ARE_DATA = "{} counts the byte of a keep-alive or of a probe as data"
LOOKS_LIKE_KEEP_ALIVE = "only the closed window tells a probe of Linux, which has no data, from a keep-alive"
PLACE_RTT = "captured at the receiver, data are answered at once; the handshake's RTT is counted by tcptrace"


def rtt(samples: int, mean_ms: float, max_ms: float | None = None, because: str = NO_KARN) -> dict[str, Said]:
    """Round trips of ``a``, as another has them."""
    found = {"a.rtt_samples": Said(because, samples), "a.rtt_mean_ms": Said(because, mean_ms)}
    return found if max_ms is None else found | {"a.rtt_max_ms": Said(because, max_ms)}


AT_RECEIVER: Mapping[str, Said] = {
    "a.rtt_max_ms": Said(PLACE_RTT, 10.0),
    "b.rtt_max_ms": Said(PLACE_RTT, 10.0),
    "b.rtt_mean_ms": Said(PLACE_RTT, 5.0),
}
ONE_FAST = {"a.retransmitted": 1, "a.fast": 1, "a.unique_bytes": 11_000, "b.duplicate_acks": 4}

CASES = [
    Case(
        scripts.nothing_special,
        [{
            "a.data_packets": 10, "a.unique_bytes": 10_000, "a.retransmitted": 0, "a.out_of_order": 0,
            "b.duplicate_acks": 0, "a.rtt_samples": 10, "a.rtt_min_ms": 10.01, "a.rtt_max_ms": 10.01,
            "a.flight_max": 1000, "a.mss": 1460, "b.pure_acks": 10, "begin": "handshake", "end": "closed",
        }],
    ),
    Case(
        scripts.fast_retransmission,
        [ONE_FAST | {"a.flight_max": 6000, "a.rtt_samples": 6, "b.sack_blocks": 4}],
        tshark=[rtt(7, 11.454286, 20.07)],
    ),
    Case(
        scripts.timeout,
        [{"a.retransmitted": 3, "a.retransmissions.timeout": 3, "a.fast": 0, "a.rtt_samples": 5}],
        tshark=[rtt(8, 100.025, 260.06)],
    ),
    Case(
        scripts.tail_loss_probe,
        [{"a.retransmitted": 1, "a.retransmissions.tail_probe": 1, "a.retransmissions.timeout": 0}],
        tshark=[rtt(9, 13.58, 42.05)],
    ),
    Case(
        scripts.spurious_timeout,
        [{"a.retransmitted": 1, "a.spurious": 1, "a.retransmissions.timeout": 1, "b.dsacks": 1}],
        tshark=[rtt(7, 72.872857) | {
            "a.spurious": Said("tshark calls spurious what was acknowledged before; it looks at no DSACK", 0),
            "b.duplicate_acks": Said(NOT_OUTSTANDING.format("tshark"), 1),
        }],
        tcptrace=[rtt(7, 10.0, 10.0, "tcptrace takes no sample of a flight with a retransmission") | {
            "b.duplicate_acks": Said(NOT_OUTSTANDING.format("tcptrace"), 1),
        }],
    ),
    Case(
        scripts.sender_goes_on,
        [{"a.retransmitted": 2, "a.fast": 2, "a.out_of_order": 0, "a.flight_max": 11_000}],
        tshark=[rtt(9, 11.247778, 20.59) | {
            name: Said(
                "tshark calls a segment out of order that is not what the last ACK asks for and follows new "
                "data within a round trip, even if it had been sent before",
                value,
            )
            for name, value in {"a.retransmitted": 1, "a.fast": 1, "a.out_of_order": 1}.items()
        } | {"a.flight_max": Said(SACKED_FLIGHT, 10_000)}],
    ),
    Case(
        scripts.handshake_again,
        [{"a.syns": 2, "a.retransmitted": 1, "a.retransmissions.handshake": 1, "a.data_packets": 3}],
        tcptrace=[{"a.rtt_samples": Said("tcptrace takes the FIN for a sample, no SYN sent twice", more=1)}],
    ),
    Case(
        scripts.reordering,
        [{"a.out_of_order": 1, "a.retransmitted": 0, "b.duplicate_acks": 1, "a.unique_bytes": 10_000}],
        tshark=[rtt(9, 0.034444, 0.23) | {"a.flight_max": Said(SACKED_FLIGHT, 1000)}],
        tcptrace=[{**AT_RECEIVER, "a.rtt_mean_ms": Said(PLACE_RTT, 1.0)}],
    ),
    Case(
        scripts.loss_before_the_capture,
        [{"a.out_of_order": 0, "a.retransmitted": 1, "a.unique_bytes": 10_000, "b.duplicate_acks": 4}],
        tshark=[rtt(6, 1.68, 10.03) | {"a.flight_max": Said(SACKED_FLIGHT, 1000)}],
        tcptrace=[{
            **AT_RECEIVER,
            "a.rtt_mean_ms": Said(PLACE_RTT, 1.4),
            **{
                name: Said("tcptrace calls everything late out of order that it has not seen before", value)
                for name, value in {"a.retransmitted": 0, "a.out_of_order": 1}.items()
            },
        }],
    ),
    Case(
        scripts.copies,
        [{"a.copies": 2, "a.retransmitted": 0, "a.unique_bytes": 8000, "a.rtt_samples": 8}],
        tshark=[{"a.retransmitted": Said("tshark does not compare the IP identification of copies", 2)}],
        tcptrace=[{
            "a.retransmitted": Said("tcptrace does not compare the IP identification of copies", 2),
            "a.rtt_samples": None,
        }],
    ),
    Case(
        scripts.zero_window,
        [{
            "b.zero_windows": 1, "b.zero_window_ns": 520_050_000, "a.window_probes": 2, "a.keep_alives": 0,
            "b.window_full": 1, "b.window_max": 4000, "a.flight_max": 4000,
        }],
        tshark=[{
            "a.keep_alives": Said(LOOKS_LIKE_KEEP_ALIVE, 2),
            "a.window_probes": Said(LOOKS_LIKE_KEEP_ALIVE, 0),
            "b.zero_windows": Said(PACKETS_WITH_ZERO.format("tshark"), 3),
        }],
        tcptrace=[{
            "a.window_probes": Said("tcptrace knows probes with data only", 0),
            "b.zero_windows": Said(PACKETS_WITH_ZERO.format("tcptrace"), 3),
            "a.duplicate_acks": Said("tcptrace takes probes without data for duplicate ACKs, and the FIN", 3),
            "b.duplicate_acks": Said(NOT_OUTSTANDING.format("tcptrace"), 2),
        }],
    ),
    Case(
        scripts.one_byte_probe,
        [{"b.zero_windows": 1, "a.window_probes": 1, "a.unique_bytes": 4000, "a.data_bytes": 4000}],
        tshark=[{
            "b.zero_windows": Said(PACKETS_WITH_ZERO.format("tshark"), 2),
            "a.data_packets": Said(PROBES_ARE_DATA.format("tshark"), more=1),
            "a.data_bytes": Said(PROBES_ARE_DATA.format("tshark"), more=1),
        }],
        tcptrace=[{
            "b.zero_windows": Said(PACKETS_WITH_ZERO.format("tcptrace"), 2),
            "a.data_packets": Said(PROBES_ARE_DATA.format("tcptrace"), more=1),
            "a.data_bytes": Said(PROBES_ARE_DATA.format("tcptrace"), more=1),
            "b.duplicate_acks": Said(NOT_OUTSTANDING.format("tcptrace"), 1),
        }],
    ),
    Case(
        scripts.keep_alive,
        [{"a.keep_alives": 2, "a.retransmitted": 0, "a.unique_bytes": 4000, "b.duplicate_acks": 0}],
        tshark=[{
            "a.rtt_samples": Said("tshark takes the answer to a keep-alive for a round trip", 5),
            "a.data_packets": Said(PROBES_ARE_DATA.format("tshark"), more=1),
            "a.data_bytes": Said(PROBES_ARE_DATA.format("tshark"), more=1),
        }],
        tcptrace=[{
            "a.data_packets": Said(PROBES_ARE_DATA.format("tcptrace"), more=1),
            "a.data_bytes": Said(PROBES_ARE_DATA.format("tcptrace"), more=1),
            "a.retransmitted": Said("tcptrace takes the byte of a keep-alive for data sent again", 1),
            "a.duplicate_acks": Said("tcptrace takes a keep-alive without data for a duplicate ACK", 2),
            "b.duplicate_acks": Said(NOT_OUTSTANDING.format("tcptrace"), 2),
        }],
    ),
    Case(
        scripts.wrap,
        [{
            "a.unique_bytes": 16_000, "a.retransmitted": 1, "a.fast": 1, "a.flight_max": 8000, "b.dsacks": 0,
            "a.rtt_samples": 10,
        }],
        tshark=[rtt(11, 10.939091, 20.09)],
        tcptrace=[{
            "a.flight_max": Said("tcptrace subtracts without regard to the wrap", 2**64 - 2**32 + 8001),
            "b.dsacks": Said("tcptrace compares SACK blocks with the ACK without regard to the wrap", 5),
        }],
    ),
    Case(scripts.window_scale, [{"b.window_max": 5_701_632, "b.options.window_scale": 10}]),
    Case(scripts.window_scale_of_one_side, [{"b.window_max": 60_000, "a.window_max": 65_535}]),
    Case(
        scripts.port_reuse,
        [
            {"a.data_packets": 3, "a.retransmitted": 0, "end": "closed"},
            {"a.data_packets": 2, "a.retransmitted": 0, "begin": "handshake"},
        ],
        tshark=[{}, {}],
        tcptrace=[{}, {}],
    ),
    Case(
        scripts.reset,
        [{"b.resets": 1, "end": "reset", "a.rtt_samples": 3}],
        tshark=[{"a.rtt_samples": Said("tshark takes the ACK of a RST for an answer", 4)}],
        tcptrace=[{
            "a.rtt_samples": Said("tcptrace takes the SYN and the ACK of the RST for samples", 5),
            "b.rtt_samples": Said("tcptrace takes the SYN for a sample", 1),
            "a.duplicate_acks": None,
        }],
    ),
    Case(
        scripts.one_sided,
        [{"a.packets": 10, "b.packets": 0, "a.retransmitted": 1, "a.unique_bytes": 7000, "a.rtt_samples": 0}],
        tshark=[{
            "a.flight_max": Said("nothing was acknowledged: tshark adds up all that was sent", 7001),
            "a.window_max": Said("tshark takes the peer's consent to scaling for granted", 65_536),
        }],
        tcptrace=[{
            "a.flight_max": Said("nothing was acknowledged: tcptrace adds up all that was sent", 7002),
            "b.flight_max": None,
            "a.window_max": Said("tcptrace takes the SYN's window, which is never scaled, for one", 65_535),
            "a.rtt_samples": None,
            "b.rtt_samples": None,
            "a.duplicate_acks": None,
        }],
    ),
    Case(
        scripts.missed_by_the_capture,
        [{"a.missed_bytes": 1000, "a.unique_bytes": 7000, "a.retransmitted": 0, "a.flight_max": 3000}],
        tshark=[{"a.flight_max": Said(GAP_FLIGHT, 1000)}],
    ),
    Case(
        scripts.begun_before,
        [{"begin": "middle", "a.data_packets": 5, "a.retransmitted": 0, "a.missed_bytes": 0}],
        tcptrace=[{
            "a.rtt_samples": Said("tcptrace takes the FIN for a sample", more=1),
            "b.rtt_samples": Said("tcptrace takes the FIN for a sample", more=1),
            "a.duplicate_acks": None,
        }],
    ),
    Case(scripts.vlan, [{"vlan": "100", "a.data_packets": 4}]),
    Case(
        scripts.vlan_in_vlan,
        [{"vlan": "10.100", "a.data_packets": 4}],
        tcptrace_blind="tcptrace knows one tag of 802.1Q, and not 802.1ad",
    ),
    Case(
        scripts.ipv6,
        [ONE_FAST | {"a.addr": "2001:db8::1", "a.flight_max": 6000}],
        tshark=[rtt(7, 11.454286, 20.07)],
    ),
    Case(
        scripts.fragments,
        [{"a.data_packets": 4, "a.unique_bytes": 5600, "a.payload_max": 1400, "a.missed_bytes": 0}],
        tcptrace=[{
            name: Said("tcptrace takes the first fragment for the segment and puts nothing together", value)
            for name, value in {
                "a.unique_bytes": 2080, "a.data_bytes": 2080, "a.payload_max": 520, "a.flight_max": 521,
                "a.missed_bytes": 3520, "a.rtt_samples": 2,
            }.items()
        }],
    ),
    Case(scripts.marked, [{"a.congestion_marks": 2, "b.congestion_marks": 0}]),
    Case(
        scripts.fast_retransmission,
        [ONE_FAST | {"b.sack_blocks": 4}],
        tshark=[rtt(7, 11.454286, 20.07)],
        snap_bytes=96,
        name="truncated_behind_the_headers",
    ),
    Case(
        scripts.fast_retransmission,
        [ONE_FAST | {"b.sack_blocks": 0}],
        tshark=[rtt(7, 11.454286, 20.07) | {
            "b.duplicate_acks": Said("tshark ends its look at a packet where the options are cut", 0),
        }],
        snap_bytes=70,
        name="truncated_inside_the_options",
    ),
]  # fmt: skip
