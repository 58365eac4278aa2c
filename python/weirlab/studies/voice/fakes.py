"""A voice lab without engines: calls take the way of the plan, or another one, and leave frames and logs."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

from weirlab.studies.voice.configs.sipp import PAYLOADS
from weirlab.studies.voice.lab import engines
from weirlab.studies.voice.lab.engines import Daemon
from weirlab.studies.voice.lab.media import BYTES
from weirlab.studies.voice.lab.seen import Frame
from weirlab.studies.voice.routing import Network, Way
from weirlab.studies.voice.routing.calls import calls

_BEGIN_NS: Final = 1_800_000_000_000_000_000
_HOP_NS: Final = 1_000_000
_PACKETS: Final = 50
_MEDIA_PORT: Final = 6000


class FakeLab:
    """What :class:`weirlab.studies.voice.lab.VoiceLab` offers.

    Parameters
    ----------
    astray:
        By number, the engines that a call passes instead of those of the plan.
    mute:
        Endpoints that send no speech.
    unheard:
        Endpoints whose speech does not arrive.
    """

    lab = "fake"

    def __init__(
        self,
        network: Network,
        folder: Path,
        astray: Mapping[str, tuple[str, ...]] | None = None,
        mute: frozenset[str] = frozenset(),
        unheard: frozenset[str] = frozenset(),
    ) -> None:
        self.network = network
        self.folder = folder
        self.daemons: list[Daemon] = engines.daemons(network, str(folder))
        self.facts: Mapping[str, object] = {"kamailio_version": "5.6.3"}
        self._astray = astray or {}
        self._mute, self._unheard = mute, unheard
        self.called: list[str] = []
        self._logs = {daemon.name: "" for daemon in self.daemons}
        self._down: str | None = None

    def said(self, name: str) -> str:
        return self._logs[name]

    def last_words(self, name: str) -> str:
        return "nothing"

    @contextmanager
    def down(self, engine: str | None) -> Iterator[None]:
        self._down = engine
        yield
        self._down = None

    def call(self, name: str, number: str, answer: int, codecs: Mapping[str, str]) -> list[Frame]:
        """The frames of a call."""
        self.called.append(number)
        ways = [way for way in calls(self.network, number, name) if self._down not in way.engines]
        way = next((way for way in ways if way.end.good), ways[0])
        for step in way.steps:
            if step.what in ("prefix", "record"):
                by = "static" if step.what == "prefix" else step.facts["tree"]
                self._logs[step.engine] += f" 5(77) NOTICE: <script>: ROUTE num={number} via={by} target=x\n"
        passed = self._astray.get(number, way.engines)
        frames = [*self._signalling(passed, number, way)]
        if way.end.good:
            frames += self._speech(name, passed[-1], codecs, frames[-1].at_ns)
            frames += self._speech(passed[-1], name, codecs, frames[-1].at_ns)
        return frames

    def __enter__(self) -> FakeLab:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def _signalling(self, passed: tuple[str, ...], number: str, way: Way) -> Iterator[Frame]:
        hops = [*pairwise(passed)]
        at_ns = _BEGIN_NS
        for here, there in hops:
            lines = (f"INVITE sip:{number}@{there} SIP/2.0", *_headers(here, "INVITE", "<sip:a@b>"), "")
            yield self._sip(at_ns, here, there, (*lines, "m=audio 6000 RTP/AVP 8 0 101", ""))
            at_ns += _HOP_NS
        codecs = self.network.plan.engines[passed[-1]].codecs or ("alaw",)
        accepted = " ".join(str(PAYLOADS[codec][0]) for codec in codecs)
        status = f"SIP/2.0 {way.answer} {'OK' if way.end.good else 'Refused'}"
        body = (f"m=audio 6000 RTP/AVP {accepted} 101", "") if way.end.good else ("",)
        for here, there in reversed(hops):
            lines = (status, *_headers(here, "INVITE", "<sip:a@b>;tag=2"), "")
            yield self._sip(at_ns, there, here, (*lines, *body))
            at_ns += _HOP_NS

    def _sip(self, at_ns: int, here: str, there: str, lines: tuple[str, ...]) -> Frame:
        payload = "\r\n".join(lines).encode()
        return Frame(at_ns, self._framed(here, there, 5060, payload), delivered=False)

    def _speech(self, here: str, there: str, codecs: Mapping[str, str], from_ns: int) -> Iterator[Frame]:
        if here in self._mute:
            return
        codec = codecs.get(here) or (self.network.plan.engines[here].codecs or ("alaw",))[0]
        for number in range(_PACKETS):
            rtp = struct.pack(">BBHII", 0x80, PAYLOADS[codec][0], number + 1, 160 * number, 7) + bytes(
                BYTES[codec]
            )
            at_ns = from_ns + number * 20_000_000
            content = self._framed(here, there, _MEDIA_PORT, rtp)
            yield Frame(at_ns, content, delivered=False)
            if here not in self._unheard:
                yield Frame(at_ns, content, delivered=True)

    def _framed(self, here: str, there: str, port: int, payload: bytes) -> bytes:
        source, target = (
            bytes(map(int, str(self.network.plan.engines[name].address).split("."))) for name in (here, there)
        )
        udp = struct.pack(">HHHH", port, port, 8 + len(payload), 0) + payload
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0)
        return bytes(12) + b"\x08\x00" + ip + source + target + udp


def _headers(here: str, method: str, to: str) -> tuple[str, ...]:
    return (
        f"Via: SIP/2.0/UDP {here};branch=z9hG4bK{here}",
        f"To: {to}",
        "Call-ID: 1",
        f"CSeq: 1 {method}",
    )
