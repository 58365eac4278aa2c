"""Endpoints of the lab: SIPp, MGCP lines and H.323 telephones, which call and answer with speech."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from weirlab.base import files
from weirlab.base.errors import LabError
from weirlab.base.quantities import plural
from weirlab.lab.linux.namespace import Namespace
from weirlab.numbering.configs import asterisk, h323, sipp
from weirlab.numbering.configs.parts import address, call_agent, refuse
from weirlab.numbering.lab import engines, probes, switch
from weirlab.numbering.lab.probes import bracketed
from weirlab.numbering.routing import PlanNetwork

_CAUSES: Final = {486: 17, 503: 34}
"""Causes (Q.850) with which an H.323 telephone refuses calls, by the SIP answers they stand for."""

_MORE_HOLD_S: Final = 0.5
"""A caller hangs up this long after the last packet of speech is due."""

_HOLDING_PORT: Final = 5092
_HOLDING_MEDIA_PORT: Final = 6800
"""Ports of the calls that SIPp holds; the call that the same endpoint then makes uses others."""
_HELD: Final = "weir-held-"
"""Prefix of their Call-IDs; a number follows."""


class CallFailure(LabError):
    """A call could not be made or did not end, although all engines run; the message is a phrase."""


class Programs(Protocol):
    """What endpoints need from the lab."""

    network: PlanNetwork
    folder: Path
    patience_s: float

    def inside(self, name: str) -> str: ...

    @property
    def running(self) -> frozenset[str]: ...

    def at(self, engine: str) -> Namespace: ...

    def start(
        self, title: str, command: Sequence[str], inside: Namespace, log: str, *, ends_by_itself: bool = False
    ) -> None: ...

    def stop(self, title: str, *, by: int) -> None: ...

    def output(self, name: str) -> str: ...

    def until(self, done: Callable[[], bool], otherwise: str, name: str) -> None: ...

    def within(self, seconds: float, done: Callable[[], bool]) -> bool: ...


class LabEndpoints:
    """The endpoints of ``lab``; caller and callee talk for ``talk_s``."""

    def __init__(self, lab: Programs, talk_s: float) -> None:
        self.network: PlanNetwork = lab.network
        self.talk_s = talk_s
        self.refusing: dict[str, int] = {}
        """The answers with which endpoints refuse every call."""
        self._lab = lab

    @property
    def names(self) -> list[str]:
        """Endpoints that can call here, and be called."""
        listed = self.network.plan.engines.items()
        return [name for name, each in listed if each.kind == "endpoint" and not engines.impossible(each)]

    def write(self) -> None:
        """Write the speech of the endpoints, as captures."""
        for codec in sipp.BYTES:
            files.write_bytes(self._lab.folder / f"{codec}.pcap", switch.speech(codec, self.talk_s))
            early = switch.speech(codec, switch.EARLY_S, switch.EARLY_SOURCE)
            files.write_bytes(self._lab.folder / f"early-{codec}.pcap", early)

    @contextmanager
    def waiting(self, codecs: Mapping[str, str], names: Sequence[str]) -> Iterator[None]:
        """Within the context, the endpoints ``names`` answer calls; their calls end with it."""
        try:
            before = {name: len(self._lab.output(self.log(name))) for name in names}
            for name in names:
                self._wait(name, codecs)
            for name in names:
                self._until_it_waits(name, before[name])
            yield
        finally:
            kill(self._lab, *map(self._title, names))

    def call(
        self,
        name: str,
        number: str,
        answer: int,
        codecs: Mapping[str, str],
        *more: str,
        port: int | None = None,
    ) -> str:
        """Let ``name`` call ``number``; returns the title of the program, which ends with the call.

        It expects ``answer``, and ends the call after any other.
        """
        plan = self.network.plan
        engine = plan.engines[name]
        assert engine.home is not None
        if self.program(name) == "telephone":
            title = f"telephone calling from {name}"
            self._order(
                name, title, {"calls": number.removeprefix("+"), "hold_s": self.talk_s + _MORE_HOLD_S}
            )
            return title
        if self.program(name) == "line":
            title = f"line calling from {name}"
            dials = number.removeprefix("+")
            held_s = {"hold_s": self.talk_s + _MORE_HOLD_S, "longest_s": self.longest_s}
            command = self._line(name, codecs, {"dials": dials, **held_s})
            self._lab.start(title, command, self._lab.at(name), self.log(name), ends_by_itself=True)
            return title
        scenario = self._scenario(name, sipp.caller(self.network, name, answer), codecs)
        command = engines.caller(
            scenario, address(self.network, name), port or engine.port("sip"), home_of(self.network, name),
            number, round(self.longest_s), *sipp.over(engine), *(more or ("-m", "1")),
        )  # fmt: skip
        title = f"sipp calling from {name}"
        self._lab.start(title, command, self._lab.at(name), self.log(name), ends_by_itself=True)
        return title

    @contextmanager
    def holding(self, name: str, number: str, times: int) -> Iterator[None]:
        """Within the context, an endpoint holds ``times`` calls to ``number``.

        Raises ``CallFailure`` if they are not answered, or do not end by BYE.
        """
        if times == 0:
            yield
        elif self.program(name) == "sipp":
            with self._held_by_sipp(name, number, times):
                yield
        else:
            with self._held_by_telephone(name, number, times):
                yield

    @contextmanager
    def _held_by_sipp(self, name: str, number: str, times: int) -> Iterator[None]:
        log, host = self.log(name), address(self.network, name)
        answered = self._lab.folder / f"held-{name}.log"
        answered.unlink(missing_ok=True)
        path = self._lab.folder / f"held-{name}.xml"
        files.write_bytes(path, switch.held(sipp.caller(self.network, name, 200), str(answered)).encode())
        command = engines.caller(
            str(path), host, _HOLDING_PORT, home_of(self.network, name), number, round(3 * self.longest_s),
            "-m", str(times), "-r", str(times), "-mp", str(_HOLDING_MEDIA_PORT), "-cid_str", f"{_HELD}%u",
        )  # fmt: skip
        title = f"sipp holding calls from {name}"
        self._lab.start(title, command, self._lab.at(name), log, ends_by_itself=True)
        try:
            self._await_held(title, partial(_has_lines, answered, times), times)
            yield
            # They must end by BYE, because engines that count calls would otherwise count them for ever.
            ends = [probes.info(host, _HOLDING_PORT, f"{_HELD}{call}") for call in range(1, times + 1)]
            self._lab.at(name).call(partial(probes.send, host, _HOLDING_PORT, ends))
            patience_s = self._lab.patience_s
            if not self._lab.within(patience_s, lambda: title not in self._lab.running):
                raise CallFailure(
                    f"the {plural(times, 'call')} up meanwhile did not end by BYE within {patience_s:g} s, "
                    "and engines may still count them"
                )
        finally:
            kill(self._lab, title)

    @contextmanager
    def _held_by_telephone(self, name: str, number: str, times: int) -> Iterator[None]:
        log, titles = self.log(name), []
        before = len(self._lab.output(log))
        try:
            for count in range(1, times + 1):
                title = f"telephone holding call {count} from {name}"
                self._order(name, title, {"calls": number.removeprefix("+")})
                titles.append(title)
                self._await_held(title, partial(self._answered, log, before, count), times)
            yield
        finally:
            kill(self._lab, *titles)

    def _await_held(self, title: str, up: Callable[[], bool], times: int) -> None:
        """Wait until calls are up; raises ``CallFailure`` if their program gives up, or on timeout."""
        patience_s = self._lab.patience_s
        self._lab.within(patience_s, lambda: up() or title not in self._lab.running)
        if not up():
            which = "the call" if times == 1 else f"not all of the {times} calls"
            raise CallFailure(f"{which} to be up meanwhile {'was not' if times == 1 else 'were'} answered")

    def _answered(self, log: str, before: int, count: int) -> bool:
        return self._lab.output(log)[before:].splitlines().count("answered") >= count

    def program(self, name: str) -> str:
        """The program of an endpoint: ``sipp``, ``line`` (MGCP) or ``telephone`` (H.323)."""
        return program(self.network, name)

    def log(self, name: str) -> str:
        """The name of an endpoint's log."""
        return f"{self.program(name)}-{name}"

    @property
    def longest_s(self) -> float:
        """The longest that a call can take."""
        return self.talk_s + self._lab.patience_s

    def _wait(self, name: str, codecs: Mapping[str, str]) -> None:
        engine = self.network.plan.engines[name]
        if self.program(name) == "telephone":
            refuses = _CAUSES.get(self.refusing.get(name, 0), 0)
            self._order(name, self._title(name), {"takes": True, "refuses": refuses})
            return
        if self.program(name) == "line":
            command = self._line(name, codecs, {})
        else:
            text = sipp.callee(self.network, name, self.refusing.get(name))
            host = address(self.network, name)
            command = engines.callee(
                self._scenario(name, text, codecs), host, engine.port("sip"), *sipp.over(engine)
            )
        self._lab.start(self._title(name), command, self._lab.at(name), self.log(name))

    def _until_it_waits(self, name: str, before: int) -> None:
        """Wait until an endpoint listens; ``before`` is the length of its log before it was started."""
        engine, log = self.network.plan.engines[name], self.log(name)
        what = f"{self._title(name)} does not listen at {address(self.network, name)}"
        if self.program(name) != "sipp":
            self._lab.until(lambda: "ready\n" in self._lab.output(log)[before:], what, log)
            return
        port = engine.port("sip")
        waits = partial(self._lab.at(name).call, partial(switch.bound, port, engine.transport))
        self._lab.until(waits, f"{what}:{port}", log)

    def _line(self, name: str, codecs: Mapping[str, str], more: Mapping[str, object]) -> tuple[str, ...]:
        """The command of an MGCP line, which speaks one codec."""
        engine = self.network.plan.engines[name]
        codec = codecs.get(name, (engine.codecs or ("alaw",))[0])
        agent = call_agent(self.network, name)
        if agent is None:
            raise refuse(
                self.network,
                ("engines", name),
                f"{name} has no call agent; see {self.network.command('check')}",
            )
        return engines.line(
            {
                "host": address(self.network, name),
                "port": engine.port("mgcp"),
                "agent": [address(self.network, agent), asterisk.CALL_AGENT_PORT],
                "name": name,
                "line": engine.line,
                "payload": sipp.PAYLOADS[codec][0],
                "bytes": sipp.BYTES[codec],
                **more,
            }
        )

    def _order(self, name: str, title: str, wanted: Mapping[str, object]) -> None:
        """Start the program that gives a telephone an order and ends with the order."""
        command = engines.order(self._lab.inside(name), {"longest_s": self.longest_s, **wanted})
        self._lab.start(title, command, self._lab.at(name), self.log(name), ends_by_itself=True)

    def _title(self, name: str) -> str:
        return f"{self.program(name)} {'answering at' if self.program(name) == 'telephone' else 'of'} {name}"

    def _scenario(self, name: str, text: str, codecs: Mapping[str, str]) -> str:
        """The file of an endpoint's scenario, with speech in it."""
        own = self.network.plan.engines[name].codecs or ("alaw",)
        codec = codecs.get(name, own[0])
        folder = self._lab.folder
        early = str(folder / f"early-{codec}.pcap")
        spoken = switch.talking(text, str(folder / f"{codec}.pcap"), self.talk_s + _MORE_HOLD_S, early)
        path = folder / f"{name}.xml"
        files.write_bytes(path, spoken.encode())
        return str(path)


def program(network: PlanNetwork, name: str) -> str:
    """The program of an endpoint in the lab: ``sipp``, ``line`` or ``telephone``."""
    engine = network.plan.engines[name]
    if "sip" in engine.speaks:
        return "sipp"
    return "telephone" if h323.is_one(engine) else "line"


def one_call(network: PlanNetwork, name: str) -> str:
    """Why an endpoint of the lab cannot have several calls at once; empty if it can."""
    match program(network, name):
        case "line":
            return f"{name} is an MGCP line, which carries one call at a time"
        case "sipp" if network.plan.engines[name].transport == "tcp":
            return f"{name} calls over TCP, and only endpoints with SIP over UDP or H.323 hold calls"
    return ""


def home_of(network: PlanNetwork, name: str) -> str:
    """Where a SIP endpoint sends its calls: ``address:port``."""
    home = network.plan.engines[name].home
    assert home is not None
    return f"{bracketed(address(network, home))}:{network.plan.engines[home].port('sip')}"


def kill(lab: Programs, *titles: str) -> None:
    """End those of these programs that run."""
    for title in titles:
        if title in lab.running:
            lab.stop(title, by=signal.SIGKILL)


def _has_lines(path: Path, count: int) -> bool:
    return path.exists() and path.read_bytes().count(b"\n") >= count
