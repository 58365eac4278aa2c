"""The columns of a measurement's tables, as rows; times are ns since 1970, by the client's clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OfTransfer:
    """Something of a transfer."""

    trial_id: str
    """The attempt in `trials`."""


@dataclass(frozen=True)
class OfConnection(OfTransfer):
    """Something of a connection of a transfer."""

    connection: int
    """The connection's number, from 0."""


@dataclass(frozen=True)
class TransferRow(OfTransfer):
    """A transfer: when it was, how the clocks of its ends were compared, what was captured."""

    start_ns: int
    """The start."""
    host: str
    """The server; empty for one in a namespace of this host."""
    port: int
    """Its port."""
    client: str
    """The client, if it is neither this host nor in a namespace of this host; else empty."""
    every_ns: int
    """Period of the kernels' reports."""
    period_ns: int
    """Period of the table `axis`."""
    interrupted: bool
    """The transfer was stopped early."""
    same_clock: bool
    """Both ends are on one host."""
    offset_ns: int | None
    """How far the server's clock is ahead of the client's; null if they could not be compared."""
    bound_ns: int | None
    """Greatest error of the offset."""
    exchanges: int
    """Exchanges of times from which the offset was found."""
    drifted: bool
    """No single offset fits all exchanges."""
    interface: str
    """Where packets were captured at the client; empty without a capture there."""
    why_no_capture: str
    """Why there is none there; empty with one."""


@dataclass(frozen=True)
class CaptureRow(OfTransfer):
    """A capture of the transfer at one place, or why there is none."""

    end: str
    """Where: `client`, `server` or `between`."""
    interface: str
    """The interface; empty without a capture."""
    why_not: str
    """Why there is none; empty with one."""
    packets: int | None = None
    """Packets in it."""
    lost_packets: int = 0
    """Packets that came too fast to be recorded, or could not be written to disk."""
    left_out_packets: int = 0
    """Packets beyond its size limit."""
    ended_early: bool = False
    """It reached its time limit before the end of the transfer."""
    shift_ns: int = 0
    """What to add to its times to get those of the client's clock, which all tables use."""


@dataclass(frozen=True)
class CrossingRow(OfConnection):
    """What happened to a connection's data between two captures."""

    sent_bytes: int
    """Payload in the sender's capture, retransmissions included."""
    again_bytes: int
    """Of this, retransmitted."""
    arrived_bytes: int
    """Payload in the receiver's capture."""
    twice_bytes: int
    """Of this, had already arrived before."""
    lost_bytes: int | None
    """Sent but not arrived; null if packets are missing from a capture."""
    there_packets: int
    """Segments whose delay from the sender's capture to the receiver's is known."""
    there_min_us: float
    """The least of these delays, in µs."""
    there_mean_us: float
    """Their mean."""
    there_max_us: float
    """The greatest."""
    back_packets: int
    """ACKs whose delay from the receiver's capture to the sender's is known."""
    back_min_us: float
    """The least of these delays, in µs."""
    back_mean_us: float
    """Their mean."""
    back_max_us: float
    """The greatest."""
    section: str = "all"
    """Between which captures: `all` from the sender's to the receiver's, `before` from the sender's to the
    one in between, `behind` from there on. The columns call the two captures sender and receiver."""


@dataclass(frozen=True)
class AgreementRow(OfConnection):
    """The same quantity of a connection from the sender's kernel and from a capture."""

    quantity: str
    """Which one."""
    unit: str
    """`segments`, `bytes` or `us`."""
    place: str
    """Where the capture was made: `sender` or `receiver`."""
    kernel: float
    """By the kernel."""
    capture: float
    """By the capture."""
    agrees: bool
    """Counts are the same; round trips differ by no more than the two ways of measuring explain."""
    why: str
    """Why they differ, or may differ; empty if there is nothing to say."""


@dataclass(frozen=True)
class DirectionRow(OfTransfer):
    """All connections of one direction together."""

    direction: str
    """`up`: to the server; `down`: from it."""
    connections: int
    """How many."""
    received_bytes: int
    """Bytes that the receiving application read."""
    sent_bytes: int
    """Bytes that the sending application wrote."""
    lasted_s: float
    """From the start to the last byte."""
    throughput_bps: float
    """Received bytes over that time, in bit/s."""
    retransmissions: int | None
    """Retransmitted segments."""
    retransmitted_bytes: int | None
    """Retransmitted bytes."""
    rtt_min_us: float
    """Least round-trip time, by the sender's kernel, in µs."""
    rtt_mean_us: float
    """Mean of the smoothed round-trip times, in µs."""
    rtt_max_us: float
    """Greatest of the smoothed round-trip times, in µs."""
    cwnd_min_bytes: float
    """Least congestion window."""
    cwnd_mean_bytes: float
    """Mean congestion window."""
    cwnd_max_bytes: float
    """Greatest congestion window."""
    latency_blocks: int
    """Blocks whose one-way latency is known; 0 with two clocks."""
    latency_min_ns: float
    """Least block latency."""
    latency_mean_ns: float
    """Mean block latency."""
    latency_p50_ns: float
    """Median block latency: the greatest of any connection and report."""
    latency_p99_ns: float
    """The same of the 99th percentile."""
    latency_max_ns: float
    """Greatest block latency."""
    application_share: float
    """Nothing to send, by the kernel's own counters; so for the other shares."""
    receiver_share: float
    """The receiver's window was full."""
    send_buffer_share: float
    """The send buffer was full."""
    network_share: float
    """Everything else."""
    failure: str
    """Why it broke off; empty if it did not."""


@dataclass(frozen=True)
class ConnectionRow(OfConnection):
    """One data connection."""

    direction: str
    """`up`: to the server; `down`: from it."""
    local: str
    """The client's end: address and port; empty if unknown."""
    remote: str
    """The server's end."""
    congestion: str
    """Congestion control at the client; empty if unknown."""
    received_bytes: int
    """Bytes that the receiving application read."""
    lasted_s: float
    """From the start to the last byte."""
    throughput_bps: float
    """Received bytes over that time, in bit/s."""
    retransmissions: int | None
    """Retransmitted segments."""
    retransmitted_bytes: int | None
    """Retransmitted bytes."""
    rtt_min_us: float
    """Least round-trip time, in µs."""
    rtt_mean_us: float
    """Mean of the smoothed round-trip times, in µs."""
    options: str
    """Socket options that were set at the client, with the values that the kernel then reported, as JSON."""


@dataclass(frozen=True)
class DiagnosisRow(OfConnection):
    """Why a connection was not faster, seen from one place."""

    source: str
    """`kernel`, or where the capture was made: `sender`, `between`, `receiver`."""
    cause: str
    """The cause with the largest share of the time."""
    cause_share: float
    """That share."""
    sentence: str
    """Why, in a sentence."""
    document: str
    """The whole diagnosis as JSON."""


@dataclass(frozen=True)
class FindingRow(OfConnection):
    """A cause in a diagnosis, and its share of the time."""

    source: str
    """As in `diagnoses`."""
    cause: str
    """What held the sender back, as in docs/diagnosis.md."""
    who: str
    """Who was the limit: `sender`, `receiver`, `network`, `unknown`."""
    time_share: float
    """Share of the time."""
    lasted_s: float
    """The same as a time."""
    confidence: str
    """`high`, `medium` or `low`."""
    sentence: str
    """Why, in a sentence."""


@dataclass(frozen=True)
class PacketsRow(OfConnection):
    """What a capture shows of a connection's data and ACKs in one period."""

    end: str
    """Where the capture was made: `client`, `server` or `between`."""
    time_ns: int
    """Beginning of the period."""
    acked_bytes: int | None
    """Highest acknowledgement number so far."""
    flight_bytes: int | None
    """The most data that was sent and not acknowledged."""
    window_bytes: int | None
    """The smallest receive window."""
    rtt_us: float
    """Mean round-trip time, in µs; null if there was none."""
    rtt_max_us: float
    """Greatest round-trip time, in µs."""
    retransmissions: int | None
    """Retransmitted segments so far."""
    delay_us: float
    """Mean one-way delay of what came from the other end, in µs; null without a capture there."""
    delay_max_us: float
    """The greatest, in µs."""
    duplicate_acks: int | None = None
    """Duplicate ACKs so far."""
    cwnd_bytes: int | None = None
    """Greatest estimate of the congestion window: the most data in flight of a round trip; null while the
    receiver's window is the limit."""
