"""The engines of a plan in namespaces: BIND, Kamailio, Asterisk, gatekeepers; SIPp and lines of MGCP."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weirlab.base import files
from weirlab.base.closing import Closable
from weirlab.base.errors import LabError, MissingCapability
from weirlab.base.interrupts import interruptible, shielded
from weirlab.lab import clean
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.linux.syscalls import explained
from weirlab.lab.machines.machine import Machine
from weirlab.numbering.configs import configs
from weirlab.numbering.configs.parts import address, gatekeeper, refuse
from weirlab.numbering.lab import chroot, engines, switch
from weirlab.numbering.lab.endpoints import CallFailure, LabEndpoints
from weirlab.numbering.lab.engines import OFF, Fault
from weirlab.numbering.lab.probes import Readiness, quoted
from weirlab.numbering.lab.switch import Frame, LabSwitchRecorder
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.zones import servers

if TYPE_CHECKING:
    from weirlab.numbering.lab.device import PassageDevice
    from weirlab.numbering.lab.passage import CallerPassage


PATIENCE_S: Final = 30.0
"""Time limit for what a program surely does if it works."""

_AGAIN_S: Final = 120.0
"""Time limit for a gateway to find its gatekeeper again, which it tries now and then."""

_BIND: Final = Path("/var/cache/bind")
"""Where engines find their files: Debian's AppArmor profile lets named write there, and not below /tmp."""
_ELSE: Final = Path("/mnt")
"""Where they find them without BIND; the root folder of Asterisk has both folders."""

_POLL_S: Final = 0.05


class Host(Machine):
    """All programs of the lab, with their own /run and resolver."""

    def called(self, daemon: str) -> str:
        return daemon


class VoiceLab(Closable):
    """Name server, proxies and endpoints of ``network``, each at its address; see ``switch.py``.

    Parameters
    ----------
    network:
        The plan on a day.
    talk_s:
        How long caller and callee send speech in a call.
    device:
        The device between the caller of each call and everybody else; None for none.

    Raises
    ------
    InputError
        The plan has no address for an engine, or requires something that it cannot do.
    MissingCapability
        A program or a privilege is missing.
    LabError
        An engine does not start, or a zone does not load; with the engine's last output.
    """

    lab = "netns"
    patience_s = PATIENCE_S

    def __init__(self, network: PlanNetwork, talk_s: float, device: PassageDevice | None = None) -> None:
        self.network = network
        self.talk_s = talk_s
        self._addresses = _addresses(network)
        if what := engines.lacking([*(daemon.program for daemon in engines.daemons(network, "")), "sipp"]):
            raise MissingCapability(what)
        clean.clean()
        self._opened = ExitStack()
        self._machine: Host | None = None
        self._claim = clean.LabOwnership()
        try:
            self.folder = Path(tempfile.mkdtemp(prefix="weir-"))
            self._claim.own(self.folder)
            self._opened.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self._root = str(_BIND if _BIND.is_dir() else _ELSE)
            self.daemons = engines.daemons(network, self._root)
            self._endpoints = LabEndpoints(self, talk_s)
            self._write()
            with explained("the voice lab"):
                self._wire()
            self.way = self._between(device)
            self._opened.callback(self.way.close)
            self._start()
        except BaseException:
            self.close()
            raise

    @property
    def facts(self) -> Mapping[str, object]:
        """Versions of the programs."""
        programs = dict.fromkeys([*(daemon.program for daemon in self.daemons), "sipp"])
        found = {f"{name}_version": engines.version(name) for name in programs}
        return {**{name: version for name, version in found.items() if version}, **self.way.facts}

    @property
    def endpoints(self) -> list[str]:
        """Endpoints that can call here, and be called."""
        return self._endpoints.names

    @property
    def left_out(self) -> list[str]:
        """Engines that the lab has no program for."""
        return [name for name, each in self.network.plan.engines.items() if engines.impossible(each)]

    @property
    def hosts(self) -> Mapping[str, str]:
        """Names of the namespaces by address."""
        return {where: host.name for where, host in self._hosts.items()}

    def inside(self, name: str) -> str:
        """The folder of an engine, as the programs of the lab see it."""
        return f"{self._root}/{name}"

    def at(self, engine: str) -> Namespace:
        """The namespace of an engine."""
        return self._hosts[address(self.network, engine)]

    def check(self) -> None:
        """Raise ``LabError``, with its last output, if an engine has ended by itself."""
        self._up.check()

    def log(self, name: str) -> Path:
        """The log file of an engine."""
        own = next((daemon.log for daemon in self.daemons if daemon.name == name), "")
        return self.folder / (own or f"{name}.log")

    def output(self, name: str) -> str:
        """The log of an engine so far."""
        path = self.log(name)
        return path.read_text(errors="replace") if path.exists() else ""

    def last_words(self, name: str) -> str:
        """The last lines of an engine's log, as one line."""
        return quoted(self.output(name).splitlines())

    @contextmanager
    def failing(self, name: str | None, how: Fault = OFF) -> Iterator[None]:
        """Let an engine or a name server fail within the context; None for none.

        If it is off, it cannot be reached. An endpoint can instead refuse all calls.
        """
        if name is None:
            yield
            return
        if how != OFF:
            self._endpoints.refusing[name] = int(how)
            try:
                yield
            finally:
                del self._endpoints.refusing[name]
            return
        where = next((each.address for each in self.daemons if each.name == name), None)
        number = [*self._hosts].index(where or address(self.network, name))
        self._switch.call(partial(switch.set_link, number, up=False))
        try:
            yield
        finally:
            self._switch.call(partial(switch.set_link, number, up=True))
        for daemon in self.daemons:
            if daemon.program == "asterisk" and gatekeeper(self.network, daemon.name) == name:
                what = f"{daemon.title} does not register again with {name}"
                self.until(partial(self._ready.registered, daemon), what, daemon.name, _AGAIN_S)

    @interruptible
    def call(
        self, name: str, number: str, answer: int, codecs: Mapping[str, str], meanwhile: int = 0
    ) -> list[Frame]:
        """Let the endpoint ``name`` call ``number``; returns every frame that crossed the switch.

        All other endpoints wait for calls. The device, if there is one, is in front of ``name``.
        The caller expects ``answer``, and ends the call after any other.
        ``codecs`` are the codecs in which endpoints talk; others use their first one. ``meanwhile`` is how
        many calls to that number the caller already has.

        Raises
        ------
        CallFailure
            The call does not end, or the earlier calls of the caller are not answered or do not end.
        """
        spoilt = None
        others = [other for other in self.endpoints if other != name]
        with self.way.carrying(address(self.network, name)), self._endpoints.waiting(codecs, others):
            # Packets that passed a device are counted for a spoilt call, too.
            try:
                frames = self._called(name, number, answer, codecs, meanwhile)
            except CallFailure as error:
                spoilt = error
        self.check()
        if spoilt is not None:
            raise spoilt
        return frames

    def _called(
        self, name: str, number: str, answer: int, codecs: Mapping[str, str], meanwhile: int
    ) -> list[Frame]:
        with self._endpoints.holding(name, number, meanwhile):
            self._watcher.begin()
            with self.way.beside_traffic():
                title = self._endpoints.call(name, number, answer, codecs)
                longest_s = 2 * self._endpoints.longest_s
                has_ended = self.within(longest_s, lambda: title not in self.running)
                if not has_ended:
                    self.stop(title, by=signal.SIGKILL)
            # Events of the device end only now.
            if not has_ended:
                raise CallFailure(f"the call did not end within {longest_s:g} s")
            return self._watcher.end()

    def speech_only(self) -> AbstractContextManager[LabSwitchRecorder]:
        """Within the context, only RTP is recorded."""
        return self._watcher.speech_only()

    @property
    def _up(self) -> Host:
        assert self._machine is not None
        return self._machine

    @property
    def processes(self) -> list[int]:
        """PIDs of all processes in the lab."""
        return self._up.processes

    def start(
        self, title: str, command: Sequence[str], inside: Namespace, log: str, *, ends_by_itself: bool = False
    ) -> None:
        """Start a program whose output goes to the log of that name."""
        self._up.start(title, command, inside=inside, log=self.log(log), ends_by_itself=ends_by_itself)

    def stop(self, title: str, *, by: int) -> None:
        """End a program by a signal, and wait for its end."""
        self._up.stop(title, by=by)

    @property
    def running(self) -> frozenset[str]:
        """Titles of the programs that run."""
        return self._up.running

    def until(
        self, done: Callable[[], bool], otherwise: str, name: str, within_s: float = PATIENCE_S
    ) -> None:
        """Wait until something is ``done``.

        Raises ``LabError`` if an engine ends meanwhile, or after ``within_s``, with ``otherwise`` and the
        last output of ``name``.
        """
        if not self.within(within_s, done):
            words = self.last_words(name)
            raise LabError(f"{otherwise} within {within_s:g} s; its last output: {words}")

    @interruptible
    def within(self, seconds: float, done: Callable[[], bool]) -> bool:
        """Whether something is ``done`` in time; raises ``LabError`` if an engine ends meanwhile."""
        end_s = time.monotonic() + seconds
        while not done():
            self.check()
            if time.monotonic() > end_s:
                return False
            time.sleep(_POLL_S)
        return True

    @shielded
    def close(self) -> None:
        """End all programs and remove everything. May be called twice."""
        machine, self._machine = self._machine, None
        try:
            if machine is not None:
                machine.power_off()
        finally:
            self._opened.close()
            self._claim.release()

    def _write(self) -> None:
        """Write the files that the engines read."""
        for name, text in configs(self.network, self._root).items():
            path = self.folder / name
            files.make_folder(path.parent)
            files.write_bytes(path, text.encode())
        for daemon in self.daemons:
            if daemon.program == "asterisk":
                for part in ("db", "spool", "run", "log"):
                    files.make_folder(self.folder / daemon.name / part)
        server = [daemon.address for daemon in self.daemons if daemon.program == "named"]
        resolver = "".join(f"nameserver {each}\n" for each in server) + "options timeout:1 attempts:2\n"
        files.write_bytes(self.folder / "resolv.conf", resolver.encode())
        self._endpoints.write()

    @shielded
    def _wire(self) -> None:
        self._switch = Namespace(self._claim.namespace_name("sw"))
        names = switch.parts(len(self._addresses))
        self._hosts = {
            where: Namespace(self._claim.namespace_name(part))
            for where, part in zip(self._addresses, names, strict=True)
        }
        switch.build(self._switch, self._hosts)
        ports = {switch.port(number): where for number, where in enumerate(self._hosts)}
        self._watcher = LabSwitchRecorder(self._switch, ports)
        self._opened.callback(self._watcher.close)
        self._machine = Host("the voice lab", self._switch, others=[*self._hosts.values()])

    def _between(self, device: PassageDevice | None) -> CallerPassage:
        from weirlab.numbering.lab.passage import DevicePassage, DirectPassage

        return (
            DirectPassage()
            if device is None
            else DevicePassage(device, self._claim, self._switch, self._hosts)
        )

    @property
    def _ready(self) -> Readiness:
        return Readiness(
            self.network, self.daemons, self.folder, self._up, self._hosts, self.output, self.until
        )

    @interruptible
    def _start(self) -> None:
        machine = self._up
        resolver = self.folder / "resolv.conf"
        machine.show(resolver, "/etc/resolv.conf")
        machine.show(self.folder, self._root)
        if any(each.program == "asterisk" for each in self.daemons):
            root = chroot.root()
            machine.show(resolver, f"{root}/etc/resolv.conf")
            for folder in ("/proc", "/dev", self._root):
                machine.show(Path(folder), f"{root}{folder}")
        # A secondary without a primary tries again only after a while, and so does a gateway without
        # a gatekeeper.
        secondaries = [each for each in self.daemons if each.program == "named"][1:]
        gateways = [each for each in self.daemons if each.program in ("asterisk", engines.WITH_ORDERS)]
        first = [each for each in self.daemons if each not in (*secondaries, *gateways)]
        for group in filter(None, (first, [*secondaries, *gateways])):
            for daemon in group:
                self.start(daemon.title, daemon.command, self._hosts[daemon.address], daemon.name)
            for daemon in group:
                self._ready.wait(daemon)


def _addresses(network: PlanNetwork) -> list[str]:
    """All addresses in the lab, each once."""
    plan = network.plan
    found = []
    for server in servers(network):
        if server.address is None:
            what = f"{server.host} has no address: name it under hosts: of its domain"
            raise refuse(network, ("dns", "primary"), what)
        found.append(server.address)
    found += [address(network, name) for name, each in plan.engines.items() if not engines.impossible(each)]
    return [*dict.fromkeys(found)]
