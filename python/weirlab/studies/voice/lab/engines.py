"""The programs that handle calls: how each is started, what package brings it, what its log says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from weirlab import programs
from weirlab.studies.voice.configs import named
from weirlab.studies.voice.plan.model import Engine
from weirlab.studies.voice.routing import Network

if TYPE_CHECKING:
    from weirlab.lab.doctor import Finding

Fault = Literal["off", "503", "486"]
"""How an engine fails: without power, or it refuses every call by this answer."""

OFF: Final = "off"

PACKAGES: Final = {"named": "bind9", "kamailio": "kamailio", "sipp": "sip-tester"}
"""Debian's packages by program."""

_TERMINAL: Final = ("env", "TERM=vt100")
"""SIPp draws on a terminal even if there is none, and does not start without a name of one."""

_VERSION: Final = re.compile(r"v?(\d+(?:\.\d+)+)")


@dataclass(frozen=True)
class Daemon:
    """An engine of a plan, or its name server, as a program."""

    name: str
    """The engine's, or that of a name server: ``named``, ``named-2``."""
    program: str
    address: str
    port: int
    command: tuple[str, ...]

    @property
    def file(self) -> str:
        """Its configuration, which is no other engine's."""
        return next(word for word in self.command if word.startswith("/"))

    @property
    def title(self) -> str:
        """``kamailio of core``."""
        return self.program if self.name == self.program else f"{self.program} of {self.name}"


def daemons(network: Network, root: str) -> list[Daemon]:
    """What runs for as long as the lab: the name servers first, then the proxies."""
    plan = network.plan
    found = []
    for server in named.servers(network):
        serve = ("named", "-g", "-u", "root", "-c", f"{root}/{server.name}/named.conf")
        found.append(Daemon(server.name, "named", server.address or "", 53, serve))
    for name, engine in plan.engines.items():
        if engine.kind == "proxy" and engine.address is not None:
            command = ("kamailio", "-f", f"{root}/{name}/kamailio.cfg", "-DD", "-E", "-m", "64", "-M", "8")
            found.append(Daemon(name, "kamailio", engine.address, engine.port("sip"), command))
    return found


def impossible(engine: Engine) -> str:
    """Why the lab has no program for an engine; empty if it has."""
    if engine.kind in ("gateway", "gatekeeper"):
        return f"it is a {engine.kind}"
    return "" if "sip" in engine.speaks else "it speaks no SIP"


def lacking(wanted: Sequence[str]) -> str:
    """What to install so that all ``wanted`` programs are there; empty if they are."""
    missing = [name for name in dict.fromkeys(wanted) if programs.find(name) is None]
    if not missing:
        return ""
    packages = " ".join(PACKAGES[name] for name in missing)
    verb = "is" if len(missing) == 1 else "are"
    return f"{', '.join(missing)} {verb} not installed: apt-get install {packages}"


def finding() -> Finding:
    """What ``weir doctor`` says about the voice lab."""
    from weirlab.lab.doctor import Finding

    name = "voice lab"
    if what := lacking([*PACKAGES]):
        return Finding(name, False, what, "all else works without", essential=False)
    return Finding(name, True, ", ".join(f"{program} {version(program)}" for program in PACKAGES))


def version(name: str) -> str:
    """Of one of the programs; empty if it does not tell."""
    said = programs.run([name, "-v"], capture_output=True, text=True, errors="replace")
    found = _VERSION.search(said.stdout + said.stderr)
    return found[1] if found else ""


def caller(
    scenario: str, host: str, port: int, home: str, number: str, timeout_s: int, *more: str
) -> tuple[str, ...]:
    """Calls from SIPp at ``host`` by ``home``, ``address:port``; ``more`` says how many."""
    return (
        *_TERMINAL, "sipp", "-sf", scenario, home, "-i", host, "-p", str(port), "-mi", host, "-s", number,
        "-nostdin", "-timeout", str(timeout_s), "-timeout_error", *more,
    )  # fmt: skip


def callee(scenario: str, host: str, port: int, *more: str) -> tuple[str, ...]:
    """SIPp that answers at ``host``."""
    return (*_TERMINAL, "sipp", "-sf", scenario, "-i", host, "-p", str(port), "-mi", host, "-nostdin", *more)


def refused(log: str) -> list[str]:
    """Zones that named does not load, by its log."""
    return [*dict.fromkeys(match[1] for match in _REFUSED.finditer(log))]


def untransferred(log: str) -> dict[str, str]:
    """Zones that a secondary does not get, by its log, and why."""
    return {match[1]: match[2] for match in _UNTRANSFERRED.finditer(log)}


_UNTRANSFERRED: Final = re.compile(
    r"\btransfer of '(\S+)/IN' from \S+: failed while receiving responses: (.+)$", re.MULTILINE
)
_REFUSED: Final = re.compile(r"\bzone (\S+)/IN(?: \(\w+\))?: not loaded due to errors")
