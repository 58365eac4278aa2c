"""Conversations for each case that an analysis of TCP has to tell from others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from weirlab.testing.tcp import Packet, TcpConversation, TcpSegment, TcpSide

RTT_MS = 10.0
A = TcpSide("192.0.2.1", 40_000, isn=1_000_000)
B = TcpSide("198.51.100.2", 80, isn=9_000_000)
MSS = 1000


def opened(a: TcpSide = A, b: TcpSide = B, *, place: float = 0.0) -> TcpConversation:
    """After the handshake; ``place`` of the capture: 0 at ``a``, 1 at ``b``."""
    talk = TcpConversation(a, b)
    talk.handshake(rtt_ms=RTT_MS, place=place)
    return talk


def exchange(talk: TcpConversation, segments: int, size: int = MSS) -> None:
    """Data of ``a``, each packet acknowledged a round trip later."""
    for _ in range(segments):
        talk.a.send(size)
        talk.wait(RTT_MS)
        talk.b.ack()


def burst(
    talk: TcpConversation, segments: int, lost: Iterable[int] = ()
) -> tuple[list[TcpSegment], list[TcpSegment]]:
    """Data of ``a`` at once, and the ACKs of what arrives, still under way."""
    gone, sent, acks = set(lost), [], []
    for i in range(segments):
        sent.append(talk.a.send(MSS, "lost" if i in gone else "arrives"))
        if i not in gone:
            acks.append(talk.b.ack("late"))
    return sent, acks


def arrive(talk: TcpConversation, segments: Iterable[TcpSegment]) -> None:
    for segment in segments:
        talk.arrive(segment)


def closed(talk: TcpConversation) -> list[Packet]:
    """Both say FIN; what was captured."""
    talk.a.fin()
    talk.wait(RTT_MS)
    talk.b.fin()
    talk.a.ack()
    return talk.packets()


def nothing_special() -> list[Packet]:
    talk = opened()
    exchange(talk, 10)
    return closed(talk)


def fast_retransmission() -> list[Packet]:
    talk = opened()
    exchange(talk, 5)
    sent, acks = burst(talk, 6, lost=[1])
    talk.wait(RTT_MS)
    arrive(talk, acks)
    talk.a.again(sent[1])
    talk.wait(RTT_MS)
    talk.b.ack()
    return closed(talk)


def timeout() -> list[Packet]:
    talk = opened()
    exchange(talk, 5)
    sent, _ = burst(talk, 3, lost=[0, 1, 2])
    talk.wait(230)
    for segment in sent:
        talk.a.again(segment)
        talk.wait(RTT_MS)
        talk.b.ack()
    return closed(talk)


def tail_loss_probe() -> list[Packet]:
    talk = opened()
    exchange(talk, 5)
    sent, acks = burst(talk, 4, lost=[3])
    talk.wait(RTT_MS)
    arrive(talk, acks)
    talk.wait(2.2 * RTT_MS)
    talk.a.again(sent[3])
    talk.wait(RTT_MS)
    talk.b.ack()
    return closed(talk)


def spurious_timeout() -> list[Packet]:
    """The path stalls; everything arrives, then the first is sent again and reported by DSACK."""
    talk = opened()
    exchange(talk, 5)
    sent, acks = burst(talk, 2)
    talk.wait(230)
    talk.a.again(sent[0])
    arrive(talk, acks)
    talk.wait(RTT_MS)
    talk.b.ack()
    return closed(talk)


def sender_goes_on() -> list[Packet]:
    """Two losses of a flight, repaired by SACK while new data are sent in between."""
    talk = opened()
    exchange(talk, 5)
    sent, acks = burst(talk, 10, lost=[1, 4])
    talk.wait(RTT_MS)
    arrive(talk, acks)
    last = []
    for again in (sent[1], sent[4]):
        talk.a.again(again)
        last.append(talk.b.ack("late"))
        talk.wait(0.1)
        talk.a.send(MSS)
        last.append(talk.b.ack("late"))
        talk.wait(0.1)
    talk.wait(RTT_MS)
    arrive(talk, last)
    return closed(talk)


def handshake_again() -> list[Packet]:
    talk = TcpConversation(A, B)
    talk.a.syn("lost")
    talk.wait(1000)
    talk.a.syn()
    talk.wait(RTT_MS)
    talk.b.syn()
    talk.a.ack()
    exchange(talk, 3)
    return closed(talk)


def reordering() -> list[Packet]:
    """Captured at the receiver: the third packet of a burst is overtaken by one."""
    talk = opened(place=1.0)
    exchange_at_receiver(talk, 5)
    for i in range(5):
        if i == 2:
            late = talk.a.send(MSS, "late")
            continue
        talk.a.send(MSS)
        talk.b.ack()
        if i == 3:
            talk.wait(0.2)
            talk.arrive(late)
            talk.b.ack()
    return closed(talk)


def loss_before_the_capture() -> list[Packet]:
    """Captured at the receiver: a packet never comes, its repair comes a round trip later."""
    talk = opened(place=1.0)
    exchange_at_receiver(talk, 5)
    gone = talk.a.send(MSS, "late")
    for _ in range(4):
        talk.a.send(MSS)
        talk.b.ack()
    talk.wait(RTT_MS)
    talk.a.again(gone)
    talk.b.ack()
    return closed(talk)


def exchange_at_receiver(talk: TcpConversation, segments: int) -> None:
    for _ in range(segments):
        talk.a.send(MSS)
        talk.b.ack()
        talk.wait(RTT_MS)


def copies() -> list[Packet]:
    """A mirror port delivers two packets twice."""
    talk = opened()
    for i in range(8):
        segment = talk.a.send(MSS)
        if i in (3, 5):
            talk.segments.append(replace(segment, time_ns=talk.now_ns))
            talk.wait(0.01)
        talk.wait(RTT_MS)
        talk.b.ack()
    return closed(talk)


def zero_window() -> list[Packet]:
    """The reader stops: window full, closed, probed by Linux's kind of probe, opened."""
    talk = opened(A, replace(B, window_bytes=4 * MSS, window_scale=0))
    for _ in range(4):
        talk.a.send(MSS)
    talk.wait(RTT_MS)
    talk.b.ack(window_bytes=0)
    for _ in range(2):
        talk.wait(200)
        talk.a.keep_alive()
        talk.wait(RTT_MS)
        talk.b.ack()
    talk.wait(100)
    talk.b.ack(window_bytes=4 * MSS)
    exchange(talk, 2)
    return closed(talk)


def one_byte_probe() -> list[Packet]:
    """The probe of RFC 9293: a byte of new data that does not fit."""
    talk = opened(A, replace(B, window_bytes=2 * MSS, window_scale=0))
    for _ in range(2):
        talk.a.send(MSS)
    talk.wait(RTT_MS)
    talk.b.ack(window_bytes=0)
    talk.wait(300)
    talk.a.probe()
    talk.wait(RTT_MS)
    talk.b.ack()
    talk.wait(100)
    talk.b.ack(window_bytes=4 * MSS)
    exchange(talk, 2)
    return closed(talk)


def keep_alive() -> list[Packet]:
    talk = opened()
    exchange(talk, 3)
    for payload_bytes in (0, 1):
        talk.wait(75_000)
        talk.a.keep_alive(payload_bytes)
        talk.wait(RTT_MS)
        talk.b.ack()
    talk.wait(1000)
    exchange(talk, 1)
    return closed(talk)


def wrap() -> list[Packet]:
    """Sequence numbers wrap in the middle of a flight with a loss."""
    talk = opened(replace(A, isn=2**32 - 8_500))
    exchange(talk, 5)
    sent, acks = burst(talk, 8, lost=[2])
    talk.wait(RTT_MS)
    arrive(talk, acks)
    talk.a.again(sent[2])
    talk.wait(RTT_MS)
    talk.b.ack()
    exchange(talk, 3)
    return closed(talk)


def window_scale() -> list[Packet]:
    talk = opened(A, replace(B, window_scale=10, window_bytes=5_701_632))
    exchange(talk, 3)
    return closed(talk)


def window_scale_of_one_side() -> list[Packet]:
    """Offered by one end only: nobody scales."""
    talk = opened(replace(A, window_scale=None), replace(B, window_scale=10, window_bytes=60_000))
    exchange(talk, 3)
    return closed(talk)


def port_reuse() -> list[Packet]:
    first = opened()
    exchange(first, 3)
    packets = closed(first)
    again = TcpConversation(
        replace(A, isn=77_000_000), replace(B, isn=99_000_000), start_ns=first.now_ns + 2_000_000_000
    )
    again.handshake(rtt_ms=RTT_MS)
    exchange(again, 2)
    return packets + closed(again)


def reset() -> list[Packet]:
    talk = opened()
    exchange(talk, 3)
    talk.a.send(MSS)
    talk.wait(RTT_MS)
    talk.b.reset()
    return talk.packets()


def one_sided() -> list[Packet]:
    """Asymmetric routing: nothing of ``b`` was captured; a segment is sent again after a time-out."""
    talk = opened()
    exchange(talk, 3)
    lost = talk.a.send(MSS, "lost")
    talk.wait(230)
    talk.a.again(lost)
    talk.wait(RTT_MS)
    talk.b.ack()
    exchange(talk, 3)
    talk.segments = [segment for segment in talk.segments if segment.sender == "a"]
    return talk.packets()


def missed_by_the_capture() -> list[Packet]:
    talk = opened()
    exchange(talk, 3)
    talk.a.send(MSS)
    talk.a.send(MSS, "unseen")
    talk.a.send(MSS)
    talk.wait(RTT_MS)
    talk.b.ack()
    exchange(talk, 2)
    return closed(talk)


def begun_before() -> list[Packet]:
    """The capture begins in the middle of the connection."""
    talk = opened()
    exchange(talk, 6)
    talk.segments = talk.segments[5:]
    return closed(talk)


def vlan() -> list[Packet]:
    return _tagged([100])


def vlan_in_vlan() -> list[Packet]:
    return _tagged([10, 100])


def _tagged(vlans: Sequence[int]) -> list[Packet]:
    talk = TcpConversation(A, B, vlans=vlans)
    talk.handshake(rtt_ms=RTT_MS)
    exchange(talk, 4)
    return closed(talk)


def ipv6() -> list[Packet]:
    talk = opened(replace(A, address="2001:db8::1"), replace(B, address="2001:db8::2"))
    exchange(talk, 5)
    sent, acks = burst(talk, 6, lost=[1])
    talk.wait(RTT_MS)
    arrive(talk, acks)
    talk.a.again(sent[1])
    talk.wait(RTT_MS)
    talk.b.ack()
    return closed(talk)


def fragments() -> list[Packet]:
    talk = opened()
    exchange(talk, 4, size=1400)
    talk.a.fin()
    talk.wait(RTT_MS)
    talk.b.fin()
    talk.a.ack()
    return talk.packets(mtu_bytes=576)


def marked() -> list[Packet]:
    """A congested router marks two packets (RFC 3168)."""
    talk = opened()
    for i in range(6):
        talk.a.send(MSS, ecn=3 if i in (2, 4) else 2)
        talk.wait(RTT_MS)
        talk.b.ack()
    return closed(talk)
