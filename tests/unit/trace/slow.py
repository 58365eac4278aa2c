"""Made-up transfers that something holds up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from weirlab.testing.tcp import TcpConversation, TcpSide, write_pcap

RECEIVER = TcpSide("198.51.100.1", 80)


def window_limited(path: Path, place: float) -> Path:
    """Five segments of 1448 B fill a window of 8 kB in each of 30 round trips; ``place`` 0: at the sender."""
    talk = TcpConversation(b=replace(RECEIVER, window_bytes=8_192))
    talk.handshake(rtt_ms=20, place=place)
    for _ in range(30):
        for _ in range(5):
            talk.a.send(1448)
        talk.wait(20 * (1 - place))
        talk.b.ack(window_bytes=8_192)
        talk.wait(20 * place)
    return write_pcap(path, talk.packets())


def one_of(number: int, path: Path) -> Path:
    """``number`` short requests, and among them one transfer, from port 20,000, that the window holds up."""
    packets = []
    for index in range(number):
        slow = index == number // 2
        talk = TcpConversation(
            a=TcpSide("192.0.2.1", 20_000 if slow else 30_000 + index),
            b=replace(RECEIVER, window_bytes=8_192 if slow else 65_536),
        )
        talk.wait(index)
        talk.handshake(rtt_ms=20, place=0)
        for _ in range(60 if slow else 1):
            for _ in range(5 if slow else 1):
                talk.a.send(1448)
            talk.wait(20)
            talk.b.ack(window_bytes=8_192 if slow else 65_536)
        talk.a.fin()
        talk.wait(20)
        talk.b.fin()
        packets += talk.packets()
    return write_pcap(path, sorted(packets, key=lambda packet: packet[0]))


def five(path: Path) -> Path:
    """A transfer of five segments, of which the first is lost and sent again after three duplicate ACKs."""
    talk = TcpConversation()
    talk.handshake(rtt_ms=10)
    first = talk.a.send(1000, "lost")
    for _ in range(4):
        talk.a.send(1000)
        talk.wait(5)
        talk.b.ack()
    talk.a.again(first)
    talk.wait(10)
    talk.b.ack()
    talk.a.fin()
    talk.b.fin()
    return write_pcap(path, talk.packets())


def sixty(path: Path) -> Path:
    """A transfer in which 60 segments are lost and sent again after duplicate ACKs."""
    talk = TcpConversation()
    talk.handshake(rtt_ms=10)
    for _ in range(60):
        lost = talk.a.send(1000, "lost")
        acks = []
        for _ in range(4):
            talk.a.send(1000)
            acks.append(talk.b.ack("late"))
        talk.wait(10)
        for ack in acks:
            talk.arrive(ack)
        talk.a.again(lost)
        talk.wait(10)
        talk.b.ack()
    talk.a.fin()
    talk.b.fin()
    return write_pcap(path, talk.packets())
