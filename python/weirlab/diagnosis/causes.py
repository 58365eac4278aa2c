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
    """``held``: what happened, as a clause after "41 % of the time"."""

    key: str
    who: Who
    held: str


APPLICATION_WRITE: Final = Cause("application_write", "sender", "the application had nothing to send")
SEND_BUFFER: Final = Cause("send_buffer", "sender", "the send buffer was full")
NAGLE: Final = Cause("nagle", "sender", "Nagle's algorithm waited for an ACK")
PACING: Final = Cause("pacing", "sender", "pacing held data back")
SENDER_HOST: Final = Cause("sender_host", "sender", "the sender's host was late to send")
APPLICATION_READ: Final = Cause("application_read", "receiver", "the receiving application did not read")
RECEIVER_HOST: Final = Cause("receiver_host", "receiver", "the receiving application waited for a CPU")
RECEIVE_WINDOW: Final = Cause("receive_window", "receiver", "the receiver's window was full")
WINDOW_SCALING: Final = Cause(
    "window_scaling", "receiver", "the receiver's window was full, because window scaling is off"
)
RECEIVER_DROPS: Final = Cause(
    "receiver_drops", "receiver", "the congestion window was small after the receiver's host dropped data"
)
SLOW_START: Final = Cause("slow_start", "network", "the congestion window was still growing")
BOTTLENECK: Final = Cause("bottleneck", "network", "the bottleneck was saturated")
FOREIGN: Final = Cause("foreign", "network", "other traffic took part of the bottleneck")
ACK_QUEUE: Final = Cause("ack_queue", "network", "ACKs waited in a queue on their way back")
LOSS: Final = Cause("loss", "network", "the congestion window was small after loss")
MARKS: Final = Cause("marks", "network", "the congestion window was small after congestion marks")
REORDERING: Final = Cause("reordering", "network", "reordering was mistaken for loss")
TIMEOUT: Final = Cause("timeout", "network", "the sender waited for a retransmission time-out")
BLACK_HOLE: Final = Cause("black_hole", "network", "packets larger than the path carries were lost")
UNKNOWN: Final = Cause("unknown", "unknown", "the limit cannot be told from here")

CAUSES: Final = (
    APPLICATION_WRITE, SEND_BUFFER, NAGLE, PACING, SENDER_HOST, APPLICATION_READ, RECEIVER_HOST,
    RECEIVE_WINDOW, WINDOW_SCALING, RECEIVER_DROPS, SLOW_START, BOTTLENECK, FOREIGN, ACK_QUEUE, LOSS,
    MARKS,    REORDERING, TIMEOUT, BLACK_HOLE, UNKNOWN,
)  # fmt: skip
