"""What can hold a TCP sender back, and who is responsible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Who = Literal["sender", "receiver", "network", "unknown"]
Source = Literal["kernel", "both", "sender", "between", "receiver"]
"""What was observed: the sender's kernel, packets captured at one of these places, or at both ends."""
Confidence = Literal["high", "medium", "low"]

PLACES: Final = {
    "kernel": "the sender's kernel",
    "both": "the captures at both ends",
    "sender": "a capture at the sender",
    "between": "a capture between the two ends",
    "receiver": "a capture at the receiver",
}


@dataclass(frozen=True)
class Cause:
    """What held a sender back, in three lengths."""

    key: str
    who: Who
    held: str
    """What happened, as a clause after "41 % of the time"."""
    name: str = ""
    """Two or three words for a column or a graph."""
    remedy: str = ""
    """What to change, as an imperative clause; empty if there is nothing to advise."""

    @property
    def advice(self) -> str:
        """What to change, as a sentence."""
        return f"{self.remedy[0].upper()}{self.remedy[1:]}." if self.remedy else ""


APPLICATION_WRITE: Final = Cause(
    "application_write",
    "sender",
    "the application had nothing to send",
    "nothing to send",
    "look at the sending application: the path was idle meanwhile",
)
SEND_BUFFER: Final = Cause(
    "send_buffer",
    "sender",
    "the send buffer was full",
    "send buffer full",
    "enlarge the send buffer (net.ipv4.tcp_wmem, or SO_SNDBUF in the application)",
)
NAGLE: Final = Cause(
    "nagle",
    "sender",
    "Nagle's algorithm waited for an ACK",
    "Nagle's algorithm",
    "set TCP_NODELAY, or write each message in one call",
)
PACING: Final = Cause(
    "pacing",
    "sender",
    "pacing held data back",
    "pacing",
    "look for a rate limit on the socket, unless BBR sets the pace: that follows what the path delivers",
)
SENDER_HOST: Final = Cause(
    "sender_host",
    "sender",
    "the sender's host was late to send",
    "sender's host late",
    "look for what keeps the sender's CPUs busy",
)
CWND_LIMIT: Final = Cause(
    "cwnd_limit",
    "sender",
    "the congestion window was held at a limit",
    "congestion window held",
    "look for a limit of the route (cwnd lock in ip route show) and in ip tcp_metrics",
)
APPLICATION_ASK: Final = Cause(
    "application_ask",
    "receiver",
    "the sender had nothing to send until the receiver had sent something",
    "nothing asked for",
    "look at the application at the receiving end: it sends requests late, or requests little at a time",
)
APPLICATION_READ: Final = Cause(
    "application_read",
    "receiver",
    "the receiving application did not read",
    "receiver does not read",
    "look at the receiving application and its disk: the path could carry more",
)
RECEIVER_HOST: Final = Cause(
    "receiver_host",
    "receiver",
    "the receiving application waited for a CPU",
    "receiver without CPU",
    "give the receiving process more CPU time",
)
RECEIVE_WINDOW: Final = Cause(
    "receive_window",
    "receiver",
    "the receiver's window was full",
    "receiver's window full",
    "enlarge the receive buffer (net.ipv4.tcp_rmem, or SO_RCVBUF in the application)",
)
WINDOW_SCALING: Final = Cause(
    "window_scaling",
    "receiver",
    "the receiver's window was full, because window scaling is off",
    "window scaling off",
    "turn window scaling on at both ends, and look for a device that removes the option",
)
RECEIVER_DROPS: Final = Cause(
    "receiver_drops",
    "receiver",
    "the congestion window was small after the receiver's host dropped data",
    "receiver's host drops",
    "look at the drop counters of the receiver's host (ethtool -S, nstat)",
)
SLOW_START: Final = Cause(
    "slow_start",
    "network",
    "the congestion window was still growing",
    "still growing",
    "send more over one connection: this one ended before it had found its rate",
)
BOTTLENECK: Final = Cause(
    "bottleneck",
    "network",
    "the bottleneck was saturated",
    "bottleneck full",
    "nothing at the ends: the path carries no more",
)
FOREIGN: Final = Cause(
    "foreign",
    "network",
    "other traffic took part of the bottleneck",
    "other traffic",
    "find what else uses the bottleneck, or give this traffic a queue of its own",
)
ACK_QUEUE: Final = Cause(
    "ack_queue",
    "network",
    "ACKs waited in a queue on their way back",
    "ACKs queued",
    "relieve the way back, whose queue delays ACKs",
)
LOSS: Final = Cause(
    "loss",
    "network",
    "the congestion window was small after loss",
    "loss",
    "find where packets are lost: interface counters, radio links, policers",
)
POLICER: Final = Cause(
    "policer",
    "network",
    "a policer dropped what exceeded its rate",
    "policer",
    "ask for a higher rate, or shape to it in front of the policer, so that nothing is dropped",
)
MARKS: Final = Cause(
    "marks",
    "network",
    "the congestion window was small after congestion marks",
    "congestion marks",
    "compare the marking threshold of the bottleneck with the round trip",
)
REORDERING: Final = Cause(
    "reordering",
    "network",
    "reordering was mistaken for loss",
    "reordering",
    "look for parallel paths that reorder packets",
)
TIMEOUT: Final = Cause(
    "timeout",
    "network",
    "the sender waited for a retransmission time-out",
    "time-out",
    "find what is lost at the end of a burst, where no later packet reports it",
)
BLACK_HOLE: Final = Cause(
    "black_hole",
    "network",
    "packets larger than the path carries were lost",
    "packets too large",
    'let ICMP "fragmentation needed" (IPv6: "packet too big") through, or clamp the MSS',
)
UNKNOWN: Final = Cause("unknown", "unknown", "the limit cannot be told from here", "not known")

CAUSES: Final = (
    APPLICATION_WRITE, SEND_BUFFER, NAGLE, PACING, SENDER_HOST, CWND_LIMIT, APPLICATION_ASK, APPLICATION_READ,
    RECEIVER_HOST, RECEIVE_WINDOW, WINDOW_SCALING, RECEIVER_DROPS, SLOW_START, BOTTLENECK, FOREIGN,
    ACK_QUEUE, LOSS, POLICER, MARKS, REORDERING, TIMEOUT, BLACK_HOLE, UNKNOWN,
)  # fmt: skip
