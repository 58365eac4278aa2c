"""The Rust engine: XDP live frames, packet sockets, and the simulated device."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from weirlab.traffic.schedule import Plan

class Engine:
    """Sender and receiver on two interfaces.

    ``tx_netns`` and ``rx_netns`` are names of network namespaces (``None``: this one);
    ``tx_cpu`` pins the sender; ``spin_cpu`` is kept awake during trials by a thread of class
    SCHED_IDLE. Raises ``MissingCapability`` when no allowed back end works and ``LabError``
    when a namespace or an interface is missing.
    """

    def __init__(
        self,
        *,
        tx_netns: str | None,
        tx_if: str,
        rx_netns: str | None,
        rx_if: str,
        tx_cpu: int | None = None,
        spin_cpu: int | None = None,
        backend: Literal["auto", "xdp", "af_packet"] = "auto",
    ) -> None: ...
    @property
    def backend(self) -> Literal["xdp", "af_packet"]: ...
    @property
    def xdp_mode(self) -> Literal["native", "generic", ""]: ...
    @property
    def fallback_reason(self) -> str | None: ...
    def run(
        self,
        plan: Plan,
        src_mac: bytes,
        dst_mac: bytes,
        back_src_mac: bytes | None = None,
        back_dst_mac: bytes | None = None,
    ) -> dict[str, Any]:
        """Play ``plan``; blocks. Ctrl-C raises ``KeyboardInterrupt`` within some 20 ms.

        The addresses ``back_...`` are for flows that are sent from the receiver's side. The answer to
        a plan with ``media`` has every arrival under ``packets``, and ``first_seq`` among ``flows``.
        Raises ``InputError`` for a plan that cannot be sent; it names the packet.
        """

    def close(self) -> None: ...

def frames(
    plan: Plan,
    src_mac: bytes,
    dst_mac: bytes,
    back_src_mac: bytes | None = None,
    back_dst_mac: bytes | None = None,
) -> dict[str, Any]:
    """Every frame of ``plan`` as it would be sent, without sending: what a capture of it shows.

    ``due_ns`` (u64, from the start), ``length`` (u32, without FCS), ``flow`` (u32) and ``bytes``
    (u8, all frames one after the other). ``ValueError`` for a plan that repeats or cannot be sent.
    """

def simulate(plan: Plan, device: Mapping[str, object]) -> dict[str, Any]:
    """Send ``plan`` through a simulated device. ``ValueError`` names a bad parameter, ``InputError`` a
    packet of a call that cannot be sent.

    ``positions`` of the device has the matching position of each flow.
    """

def handover_ns(cpu: int, other: int) -> float | None:
    """Time in ns for a cache line to pass between two CPUs and back; about a millisecond.

    None where it cannot be told (one CPU, or no right to pin threads).
    """

def rtp_packets(path: str, decode_as: Sequence[tuple[int, int]] = ()) -> dict[str, Any]:
    """Every packet of every voice stream in a capture file; see ``docs/quality.md``.

    ``path``: pcap or pcapng, bare or in gzip or zstd. ``decode_as``: ranges of UDP ports, ends
    included, whose packets are taken for RTP if they look like one packet of it; elsewhere a
    stream has to prove itself. Runs without the GIL. Raises ``weirlab.errors.InputError`` for a
    file that cannot be read or is damaged, with the offset.

    The answer has three dicts. ``packets``, one element per packet, streams one after the other
    in the order of their first packet, packets of a stream in order of arrival:

    - ``stream`` (u32): index into ``streams``.
    - ``arrival_ns`` (i64): since 1970, as captured.
    - ``seq`` (i64): sequence number carried on beyond 16 bits; the first packet of a stream has
      its own 16 bits, a packet before it may be negative. Copies have the same number.
    - ``timestamp`` (i64): RTP time stamp carried on beyond 32 bits, in units of the stream's
      ``clock_hz``.
    - ``payload_type`` (u8), ``marker`` (bool), ``payload_bytes`` (u16, as sent, even where the
      capture cut it short).
    - ``speech`` (bool): neither comfort noise nor a telephone event nor a payload type that is
      not known in this stream, whose time stamps do not follow the packets. Only these tell jitter.

    ``streams``, one element per stream: arrays ``first`` and ``packets`` (u64: its rows are
    ``first .. first + packets``), ``ssrc`` (u32; IAX2: source call number), ``src_port``,
    ``dst_port`` (u16), ``payload_type`` (u8, the usual one), ``clock_hz`` (u32, 0: not known),
    ``part`` (u32: how often the source had started anew before, RFC 3550 A.1; each part is a stream
    of its own), ``strays`` (u64: packets that belong to no place in the sequence, left out); lists of
    str ``src``, ``dst``, ``vlan`` (``10.100``; empty: untagged), ``interface`` (where it was captured),
    ``protocol`` (``rtp``, ``iax2``), ``media`` (``audio``, ``video``, ``unknown``), ``codec``
    (encoding name as in SDP: ``PCMU``, ``opus``; empty where not known), ``known_by`` (``sdp``,
    ``static``, ``iax2``, ``estimated``: clock rate alone, from the stamps; empty);
    ``payload_types`` (list of a list of ``(payload type, packets, encoding name)``). In IAX2 streams
    ``seq`` is estimated from the time stamps: speech left out in silence counts as lost.

    ``capture``: what was read and what was passed over: ``format`` (``pcap``, ``pcapng``, with ``+gzip``
    or ``+zstd``), ``packets``, ``bytes`` of the packets as sent, ``first_ns``, ``last_ns``
    (0 without packets), ``truncated`` (cut by the capture length), ``fragments``, ``not_ip``,
    ``not_udp``, ``malformed``, ``unknown_link`` and ``unknown_links`` (their LINKTYPE numbers),
    ``timeless`` (packets without a time), ``rtcp``, ``sip``, ``iax2`` (its signalling), ``other_udp``
    (no voice), ``cut_short`` (bool: the file ends inside a packet).
    """
