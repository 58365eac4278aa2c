"""The programs that handle calls: their commands, their packages, and what their logs mean."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from weirlab.base import extras, programs
from weirlab.numbering import zones
from weirlab.numbering.configs import asterisk, h323
from weirlab.numbering.lab import chroot
from weirlab.numbering.plan.model import Engine
from weirlab.numbering.routing import PlanNetwork

if TYPE_CHECKING:
    from weirlab.lab.finding import Finding

Fault = Literal["off", "503", "486"]
"""How an engine fails: it is off, or it refuses every call with this answer."""

OFF: Final = "off"

PACKAGES: Final = {"named": "bind9", "kamailio": "kamailio", "sipp": "sip-tester"}
"""Debian's packages by program."""

_TERMINAL: Final = ("env", "TERM=vt100")
"""SIPp draws on a terminal even if there is none, and does not start without a terminal type."""

_VERSION: Final = re.compile(r"v?(\d+(?:\.\d+)+)")


@dataclass(frozen=True)
class Daemon:
    """An engine of a plan, or its name server, as a program."""

    name: str
    """The name of the engine, or of a name server: ``named``, ``named-2``."""
    program: str
    address: str
    port: int
    command: tuple[str, ...]
    file: str = ""
    """Its configuration file, which no other engine uses."""
    log: str = ""
    """Its log file, below the lab's folder; empty if it logs to standard output."""

    @property
    def title(self) -> str:
        """``kamailio of core``."""
        return self.program if self.name == self.program else f"{self.program} of {self.name}"


DECIDING: Final = ("kamailio", "asterisk", "gatekeeper")
"""Programs whose logs say what they decide by."""

_KINDS: Final = ("proxy", "gatekeeper", "gateway", "endpoint")
"""The order in which they start, as gateways and H.323 telephones register with gatekeepers."""

WITH_ORDERS: Final = "telephone"
"""The program of endpoints that run as long as the lab and get orders to call."""


def daemons(network: PlanNetwork, root: str) -> list[Daemon]:
    """The programs that run as long as the lab: name servers, then engines by :data:`_KINDS`."""
    plan = network.plan
    found = []
    for server in zones.servers(network):
        file = f"{root}/{server.name}/named.conf"
        serve = ("named", "-g", "-u", "root", "-c", file)
        found.append(Daemon(server.name, "named", server.address or "", 53, serve, file))
    for kind in _KINDS:
        for name, engine in plan.engines.items():
            runs = kind != "endpoint" or h323.is_one(engine)
            if engine.kind == kind and runs and engine.address is not None and not impossible(engine):
                found.append(_engine(name, engine, engine.address, f"{root}/{name}"))
    return found


def _engine(name: str, engine: Engine, address: str, folder: str) -> Daemon:
    if engine.kind == "proxy":
        file = f"{folder}/kamailio.cfg"
        # Its own folder: if two make the usual one at the same time, one gives up.
        command = ("kamailio", "-f", file, "-DD", "-E", "-m", "512", "-M", "16", "-Y", f"{folder}/run")
        return Daemon(name, "kamailio", address, engine.port("sip"), command, file)
    if engine.kind == "gatekeeper":
        file = f"{folder}/gatekeeper.json"
        service = tuple(programs.own("weirlab.numbering.gatekeeper", file))
        return Daemon(name, "gatekeeper", address, h323.RAS_PORT, service, file)
    if engine.kind == "endpoint":
        file = f"{folder}/telephone.json"
        service = tuple(programs.own("weirlab.numbering.telephone", file))
        return Daemon(name, WITH_ORDERS, address, engine.port("h323"), service, file)
    file = f"{folder}/asterisk.conf"
    port = engine.port(engine.speaks[0]) if engine.speaks[0] != "mgcp" else asterisk.CALL_AGENT_PORT
    log = f"{name}/log/{asterisk.LOG}"
    return Daemon(name, "asterisk", address, port, in_chroot("-f", "-C", file), file, log)


def in_chroot(*arguments: str) -> tuple[str, ...]:
    """Asterisk with these arguments, in its root folder."""
    return ("chroot", str(chroot.root()), chroot.PROGRAM, *arguments)


def asking_channels(file: str) -> tuple[str, ...]:
    """The command that asks the Asterisk with this configuration for its channels; see :func:`channels`."""
    # An Asterisk with too many channels may never answer.
    return ("timeout", "5", *in_chroot("-C", file, "-rx", "core show channels count"))


def channels(said: Sequence[str]) -> int | None:
    """The number of channels in Asterisk's answer; None if it has none."""
    found = (_CHANNELS.fullmatch(line) for line in said)
    return next((int(match[1]) for match in found if match is not None), None)


_CHANNELS: Final = re.compile(r"(\d+) active channels?")


def listing(file: str) -> tuple[str, ...]:
    """The command that lists the threads of chan_ooh323 in this Asterisk; see :func:`takers`."""
    return ("sh", "-c", '"$@" | grep ooh323c_', "sh", *in_chroot("-C", file, "-rx", "core show threads"))


def takers(threads: Sequence[str]) -> list[str]:
    """The threads of chan_ooh323 that start calls, out of those that Asterisk lists."""
    found = (_TAKER.match(line) for line in threads)
    return [match[1] for match in found if match is not None]


_TAKER: Final = re.compile(r"0x[0-9a-f]+ (\d+) ooh323c_(?:stack|cmd)_thread\b")


def undisturbed(thread: str, cpu: int) -> tuple[tuple[str, ...], ...]:
    """Commands that keep the threads of calls from getting ahead of a thread of :func:`takers`.

    chan_ooh323 (``ooAcceptH225Connection`` in Asterisk 16) starts the thread of a call before it gives that
    thread the connection. If the new thread is the faster one, it waits for all but the caller's Setup,
    and looks again after 3 s. The threads of calls begin on the same CPU, and without the priority.
    """
    return (("chrt", "--reset-on-fork", "--rr", "--pid", "1", thread), ("taskset", "-cp", str(cpu), thread))


def yielding(thread: str) -> tuple[str, ...]:
    """The command if no thread may be real-time: the threads of calls then yield the CPU to others."""
    return ("chrt", "--batch", "--pid", "0", thread)


def sockets(engine: Engine) -> list[tuple[str, int]]:
    """The transports and ports at which a gateway listens."""
    places = {"sip": ("udp", engine.port("sip")), "h323": ("tcp", engine.port("h323"))}
    return [places.get(protocol, ("udp", asterisk.CALL_AGENT_PORT)) for protocol in engine.speaks]


def impossible(engine: Engine) -> str:
    """Why the lab has no program for an engine; empty if it has."""
    if engine.kind == "gateway":
        return f"it is a gateway, and {why}" if (why := chroot.missing()) else ""
    own = (
        "a gatekeeper" if engine.kind == "gatekeeper" else "an H.323 telephone" if h323.is_one(engine) else ""
    )
    if own and (lacking := extras.VOICE.missing()):
        return f"it is {own}, which needs {' and '.join(lacking)}: {extras.VOICE.remedy}"
    return ""


def lacking(wanted: Sequence[str]) -> str:
    """What to install so that all ``wanted`` programs are available; empty if they are."""
    missing = [name for name in dict.fromkeys(wanted) if name in PACKAGES and programs.find(name) is None]
    if not missing:
        return ""
    packages = " ".join(PACKAGES[name] for name in missing)
    verb = "is" if len(missing) == 1 else "are"
    return f"{', '.join(missing)} {verb} not installed: apt-get install {packages}"


def finding() -> Finding:
    """The finding of ``weir doctor`` about the voice lab."""
    from weirlab.lab.finding import Finding

    name = "voice lab"
    if what := lacking([*PACKAGES]):
        return Finding(name, False, what, "everything else works without it", essential=False)
    found = version("asterisk")
    asterisk_there = f"asterisk {found}" if found else "no asterisk, for gateways (weir voice install)"
    packages = extras.VOICE.missing()
    needed = f"no {' and no '.join(packages)}, for gatekeepers ({extras.VOICE.remedy})"
    there = [*(f"{program} {version(program)}" for program in PACKAGES), asterisk_there]
    there += [needed] if packages else []
    return Finding(name, True, ", ".join(there))


def version(name: str) -> str:
    """The version of a program; empty if unknown."""
    if name == "asterisk":
        found = chroot.installed()
        return "" if found is None else found.version
    if name not in PACKAGES:
        return ""
    said = programs.run([name, "-v"], capture_output=True, text=True, errors="replace")
    match = _VERSION.search(said.stdout + said.stderr)
    return match[1] if match else ""


def caller(
    scenario: str, host: str, port: int, home: str, number: str, timeout_s: int, *more: str
) -> tuple[str, ...]:
    """The command with which SIPp at ``host`` calls through ``home``, ``address:port``."""
    return (
        *_TERMINAL, "sipp", "-sf", scenario, home, "-i", host, "-p", str(port), "-mi", host, "-s", number,
        "-nostdin", "-timeout", str(timeout_s), "-timeout_error", *more,
    )  # fmt: skip


def callee(scenario: str, host: str, port: int, *more: str) -> tuple[str, ...]:
    """The command with which SIPp answers at ``host``."""
    return (*_TERMINAL, "sipp", "-sf", scenario, "-i", host, "-p", str(port), "-mi", host, "-nostdin", *more)


def order(folder: str, wanted: Mapping[str, object]) -> tuple[str, ...]:
    """The command that gives an order to the telephone in that folder; see ``telephone/settings.py``."""
    return tuple(programs.script(_ORDERING, f"{folder}/{h323.ORDERS}", json.dumps(wanted)))


_ORDERING: Final = Path(__file__).parent.parent / "telephone" / "ordering.py"

_LINE: Final = Path(__file__).with_name("line.py")


def line(settings: Mapping[str, object]) -> tuple[str, ...]:
    """The command of an MGCP gateway with one line; see ``line.py`` for its settings."""
    return tuple(programs.script(_LINE, json.dumps(settings)))


def refused(log: str) -> list[str]:
    """Zones that named does not load, from its log."""
    return [*dict.fromkeys(match[1] for match in _REFUSED.finditer(log))]


def untransferred(log: str) -> dict[str, str]:
    """Zones that a secondary does not get, and why, from its log."""
    return {match[1]: match[2] for match in _UNTRANSFERRED.finditer(log)}


_UNTRANSFERRED: Final = re.compile(
    r"\btransfer of '(\S+)/IN' from \S+: failed while receiving responses: (.+)$", re.MULTILINE
)
_REFUSED: Final = re.compile(r"\bzone (\S+)/IN(?: \(\w+\))?: not loaded due to errors")
