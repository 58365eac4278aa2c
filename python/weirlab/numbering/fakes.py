"""A fake voice lab: calls take the way of the plan, or another one, and leave frames and logs."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from ipaddress import ip_address
from itertools import chain, pairwise, repeat
from pathlib import Path
from typing import Final, Self

from weirlab.numbering.configs.sipp import BYTES, NO_CALL, PAYLOADS
from weirlab.numbering.lab import engines
from weirlab.numbering.lab.device import PassageRow, Total, passed
from weirlab.numbering.lab.endpoints import CallFailure
from weirlab.numbering.lab.engines import OFF, Daemon, Fault
from weirlab.numbering.lab.loading import OTHERS, CallLoad, LoadResult
from weirlab.numbering.lab.passage import CallerPassage, DirectPassage
from weirlab.numbering.lab.switch import EARLY_SOURCE, Frame
from weirlab.numbering.plan.model import EnumEntry
from weirlab.numbering.plan.values import owner_name
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.routing.calls import calls
from weirlab.numbering.routing.wording import CallRoute, without_call


class FakePassage:
    """A fake :class:`~weirlab.numbering.lab.passage.DevicePassage`.

    Parameters
    ----------
    bypassing:
        So many of a hundred packets from the caller do not pass the device.
    dropping:
        So many of those that come to the device do not leave it.
    """

    title = "nftables with 50 rules"

    def __init__(self, bypassing: int = 0, dropping: int = 0) -> None:
        self._bypassing, self._dropping = bypassing, dropping

    @property
    def facts(self) -> Mapping[str, object]:
        return {"device": self.title}

    def carrying(self, address: str) -> AbstractContextManager[None]:
        return nullcontext()

    def beside_traffic(self) -> AbstractContextManager[None]:
        return nullcontext()

    def passed(self, index: int) -> list[PassageRow]:
        came = 100 - self._bypassing
        return passed(index, Total(), Total(100, 90, came, came - self._dropping, 90, 90))

    def close(self) -> None:
        pass


_BEGIN_NS: Final = 1_800_000_000_000_000_000
_HOP_NS: Final = 1_000_000
_PACKETS: Final = 50
_MEDIA_PORT: Final = 6000


class FakeLab:
    """A fake :class:`weirlab.numbering.lab.VoiceLab`.

    Parameters
    ----------
    astray:
        By number, the engines that a call passes instead of those of the plan.
    mute:
        Endpoints that send no speech.
    unheard:
        Endpoints whose speech does not arrive.
    lies:
        By name, the ENUM entry with which name servers answer instead of the plan's.
    """

    lab = "fake"

    def __init__(
        self,
        network: PlanNetwork,
        folder: Path,
        astray: Mapping[str, tuple[str, ...]] | None = None,
        mute: frozenset[str] = frozenset(),
        unheard: frozenset[str] = frozenset(),
        lies: Mapping[str, EnumEntry] | None = None,
    ) -> None:
        self.way: CallerPassage = DirectPassage()
        self.network = network
        self.folder = folder
        self.daemons: list[Daemon] = engines.daemons(network, str(folder))
        self.facts: Mapping[str, object] = {"kamailio_version": "5.6.3"}
        self._astray, self._lies = astray or {}, lies or {}
        self._mute, self._unheard = mute, unheard
        self._spoilt: Mapping[str, str] = {}
        self.called: list[str] = []
        self._logs = {daemon.name: "" for daemon in self.daemons}
        self._failing: tuple[str | None, Fault] = (None, OFF)

    def through(self, way: CallerPassage) -> Self:
        """With ``way`` between the caller and everybody else."""
        self.way = way
        self.facts = {**self.facts, **way.facts}
        return self

    def spoiling(self, numbers: Mapping[str, str]) -> Self:
        """Let calls to these numbers fail for a reason; with an empty one, the caller sends nothing."""
        self._spoilt = numbers
        return self

    def output(self, name: str) -> str:
        return self._logs[name]

    def last_words(self, name: str) -> str:
        return "nothing"

    @contextmanager
    def failing(self, name: str | None, how: Fault = OFF) -> Iterator[None]:
        self._failing = (name, how)
        yield
        self._failing = (None, OFF)

    def call(
        self, name: str, number: str, answer: int, codecs: Mapping[str, str], meanwhile: int = 0
    ) -> list[Frame]:
        """The frames of a call."""
        self.called.append(number)
        if why := self._spoilt.get(number):
            raise CallFailure(why)
        if number in self._spoilt:
            return []
        down, how = self._failing
        every = [*calls(self.network, number, name, meanwhile)]
        ways = [way for way in every if how == "486" or down not in way.engines]
        way = next((way for way in ways if way.end.good), ways[0])
        way = without_call(way) if answer == NO_CALL else way
        for step in way.steps:
            if step.what in ("prefix", "record"):
                by = "static" if step.what == "prefix" else step.facts["tree"]
                self._logs[step.engine] += f" 5(77) NOTICE: <script>: ROUTE num={number} via={by} target=x\n"
        passed = way.engines if answer == NO_CALL else self._astray.get(number, way.engines)
        frames = [*self._before(every[0], number, way), *self._questions(way)]
        status = (
            f"{how} Busy" if down and how == "486" else f"{way.answer} {'OK' if way.end.good else 'Refused'}"
        )
        numbers = [leg.number_on_wire for leg in way.legs]
        signals = [*self._signalling(passed, numbers, status)]
        frames += signals
        if self.way.title:
            frames += [signal._replace(delivered=True) for signal in signals]
        if status == "200 OK":
            frames += self._early(passed[-1], name, frames[-1].at_ns - _HOP_NS * len(passed))
            frames += self._speech(name, passed[-1], codecs, frames[-1].at_ns)
            frames += self._speech(passed[-1], name, codecs, frames[-1].at_ns)
        return frames

    def __enter__(self) -> FakeLab:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def _before(self, first: CallRoute, number: str, way: CallRoute) -> Iterator[Frame]:
        """The messages of engines that get the call before the one that answers."""
        down, how = self._failing
        at_ns = _BEGIN_NS + _HOP_NS // 2
        tried = [(step.engine, "302") for step in way.steps if step.what == "forwarded"]
        if down in self.network.plan.engines and how != "486":
            tried.append((str(down), "" if how == OFF else how))
        for engine, status in tried:
            way_there = first.engines if engine == down else (way.engines[1], engine)
            here = way_there[way_there.index(engine) - 1]
            lines = (
                f"INVITE sip:{number}@{engine} SIP/2.0",
                *_headers(here, "INVITE", "<sip:a@b>", engine),
                "",
                "",
            )
            yield self._sip(at_ns, here, engine, lines)
            if status:
                lines = (f"SIP/2.0 {status} No", *_headers(here, "INVITE", "<sip:a@b>;tag=3", engine), "", "")
                yield self._sip(at_ns + 1, engine, here, lines)

    def _questions(self, way: CallRoute) -> Iterator[Frame]:
        """A query for the tree that decides, and its answer from the server that is up."""
        servers = [daemon for daemon in self.daemons if daemon.program == "named"]
        for step in way.steps:
            if step.what == "tree" and servers:
                server = servers[-1 if self._failing[0] == servers[0].name else 0]
                name = str(step.facts["asked"])
                index = self.network.trees[str(step.facts["tree"])].lookup(step.number.removeprefix("+"))
                assert index is not None
                entry = self._lies.get(name) or self.network.plan.enum[index]
                here = (str(self.network.plan.engines[step.engine].address), 40000)
                there = (server.address, 53)
                question = _question(name)
                answer = _answer(question, entry, self.network)
                yield Frame(_BEGIN_NS, _datagram(here, there, question), delivered=False)
                yield Frame(_BEGIN_NS + _HOP_NS, _datagram(there, here, answer), delivered=False)

    def _early(self, here: str, there: str, at_ns: int) -> Iterator[Frame]:
        """A 183 and a packet of speech, if the callee sends them."""
        if not self.network.plan.engines[here].early_media:
            return
        lines = (
            "SIP/2.0 183 Progress",
            *_headers(there, "INVITE", "<sip:a@b>;tag=2"),
            "",
            "m=audio 6000 RTP/AVP 8",
        )
        yield self._sip(at_ns, here, there, lines)
        rtp = struct.pack(">BBHII", 0x80, 8, 1, 0, EARLY_SOURCE) + bytes(BYTES["alaw"])
        yield Frame(at_ns + 1, self._framed(here, there, _MEDIA_PORT, rtp), delivered=True)

    def _signalling(self, passed: tuple[str, ...], numbers: list[str], status: str) -> Iterator[Frame]:
        hops = [*pairwise(passed)]
        at_ns = _BEGIN_NS
        # A gateway answers with its own codecs, regardless of the callee.
        behind = [name for name in passed[1:] if self.network.plan.engines[name].kind == "gateway"]
        engines = (self.network.plan.engines[name] for name in (passed[0], (*behind, passed[-1])[0]))
        offered, accepted = (
            " ".join(str(PAYLOADS[codec][0]) for codec in engine.codecs or ("alaw",)) for engine in engines
        )
        for (here, there), number in zip(hops, chain(numbers, repeat(numbers[-1])), strict=False):
            lines = (f"INVITE sip:{number}@{there} SIP/2.0", *_headers(here, "INVITE", "<sip:a@b>"), "")
            yield self._sip(at_ns, here, there, (*lines, f"m=audio 6000 RTP/AVP {offered} 101", ""))
            at_ns += _HOP_NS
        body = (f"m=audio 6000 RTP/AVP {accepted} 101", "") if status == "200 OK" else ("",)
        for here, there in reversed(hops):
            lines = (f"SIP/2.0 {status}", *_headers(here, "INVITE", "<sip:a@b>;tag=2"), "")
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
        source, target = ((str(self.network.plan.engines[name].address), port) for name in (here, there))
        return _datagram(source, target, payload)


def _datagram(source: tuple[str, int], target: tuple[str, int], payload: bytes) -> bytes:
    """A frame from one address and port to another."""
    here, there = (ip_address(address).packed for address, _ in (source, target))
    udp = struct.pack(">HHHH", source[1], target[1], 8 + len(payload), 0) + payload
    if len(here) == 16:
        return bytes(12) + b"\x86\xdd" + struct.pack(">IHBB", 6 << 28, len(udp), 17, 64) + here + there + udp
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0)
    return bytes(12) + b"\x08\x00" + ip + here + there + udp


def _question(name: str) -> bytes:
    """A query for the NAPTR records of a name (RFC 1035, 4.1)."""
    return struct.pack(">HHHHHH", 7, 0, 1, 0, 0, 0) + _labels(name) + struct.pack(">HH", 35, 1)


def _answer(question: bytes, entry: EnumEntry, network: PlanNetwork) -> bytes:
    """The NAPTR records of an entry (RFC 3403, 4.1)."""
    records = b""
    for each in entry.naptr:
        refer = owner_name(entry.digits, network.plan.trees[each.refer].suffix) if each.refer else "."
        texts = ("" if each.refer else "u", each.service, each.expression)
        data = struct.pack(">HH", each.order, each.preference)
        data += b"".join(bytes([len(text)]) + text.encode() for text in texts) + _labels(refer)
        records += struct.pack(">HHHIH", 0xC00C, 35, 1, 300, len(data)) + data
    return struct.pack(">HHHHHH", 7, 0x8400, 1, len(entry.naptr), 0, 0) + question[12:] + records


def _labels(name: str) -> bytes:
    labels = [label for label in name.split(".") if label]
    return b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"


def _headers(here: str, method: str, to: str, branch: str = "") -> tuple[str, ...]:
    return (
        f"Via: SIP/2.0/UDP {here};branch=z9hG4bK{here}{branch}",
        f"To: {to}",
        "Call-ID: 1",
        f"CSeq: 1 {method}",
    )


class FakeLoadLab(FakeLab):
    """A fake :class:`weirlab.numbering.lab.VoiceLab` for load tests.

    Parameters
    ----------
    capacity_per_s:
        Above this rate, half of the calls fail.
    caller_per_s:
        SIPp begins no more calls than that.
    slow_from_per_s:
        From this rate on, set-ups take a second.
    others:
        CPU time of other work over the time of a trial.
    """

    def __init__(
        self,
        network: PlanNetwork,
        folder: Path,
        capacity_per_s: float = 640,
        caller_per_s: float = 5000,
        slow_from_per_s: float = 1e9,
        others: float | None = None,
    ) -> None:
        super().__init__(network, folder)
        self._capacity, self._fastest = capacity_per_s, caller_per_s
        self._slow_from, self._others = slow_from_per_s, others
        self.rates: list[int] = []

    def load(self, offered: CallLoad) -> LoadResult:
        rate_per_s, seconds = offered.rate_per_s, offered.seconds
        caller, callee, edges_ms = offered.caller, offered.callee, offered.edges_ms
        self.rates.append(rate_per_s)
        calls = round(min(rate_per_s, self._fastest) * seconds)
        failed = calls // 2 if rate_per_s > self._capacity else 0
        setup_ms = 1000 if rate_per_s >= self._slow_from else 5
        frames: list[Frame] = []
        if offered.speaking:
            frames = [*self._speech(caller, callee, {}, 0), *self._speech(callee, caller, {}, 0)]
        text = statistics(calls, failed, {setup_ms: calls - failed}, edges_ms, seconds)
        return LoadResult(text, frames, self._work(rate_per_s))

    def _work(self, rate_per_s: float) -> Mapping[str, float]:
        own = {**{daemon.name: rate_per_s / 2000 for daemon in self.daemons}, "sipp": rate_per_s / 3000}
        return own if self._others is None else {**own, OTHERS: self._others}


def statistics(
    calls: int, failed: int, setups: Mapping[int, int], edges_ms: list[int], seconds: float
) -> str:
    """SIPp's statistics: a row at the end of the trial."""
    classes = [setups.get(edge, 0) for edge in edges_ms]
    row = {
        "StartTime": "2026-11-23\t00:00:00.000000\t1795392000.000000",
        "CurrentTime": f"2026-11-23\t00:00:00.000000\t{1795392000 + seconds:.6f}",
        "OutgoingCall(C)": calls,
        "FailedCall(C)": failed,
        "Retransmissions(C)": failed,
        **{f"ResponseTimeRepartition1_<{edge}": count for edge, count in zip(edges_ms, classes, strict=True)},
        f"ResponseTimeRepartition1_>={edges_ms[-1]}": 0,
    }
    return f"{';'.join(row)};\n{';'.join(map(str, row.values()))};\n"
