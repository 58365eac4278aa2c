"""Two endpoints in network namespaces of their own, joined by a veth pair.

::

    near                        far
    e0  ──────────────────────  e1
    198.18.0.1                  198.18.0.2
"""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from weirlab.base import programs
from weirlab.base.errors import LabError, MissingCapability
from weirlab.base.interrupts import shielded
from weirlab.calls.ipsec.endpoints import hog
from weirlab.calls.ipsec.endpoints.plan import BYPASS, HOG, REAL_TIME, SOCKETS, EndpointCalls
from weirlab.calls.ipsec.endpoints.rows import EndpointObservation, times
from weirlab.lab import cores
from weirlab.lab.host import HostReader
from weirlab.lab.linux import interface, syscalls
from weirlab.lab.linux.interface import Port
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.lab.linux.syscalls import explained
from weirlab.lab.wiring import mac_bytes, quiet

MTU_BYTES: Final = 1500
ESP_PORT: Final = 4500
"""Of ESP in UDP (RFC 3948)."""
_NEAR: Final = Port("e0", "02:77:65:69:65:01", "198.18.0.1/24", "2001:2:0:1::1/120")
_FAR: Final = Port("e1", "02:77:65:69:65:02", "198.18.0.2/24", "2001:2:0:1::2/120")
_TRIED_PACKETS: Final = 5
"""Of a call that shows whether sockets can poll."""
_FIRST_SPI: Final = 0x1000
LINGER_S: Final = 0.25
_HOG_BEYOND_S: Final = 20.0
"""So much longer than the calls a hog would go on if nobody ended it."""


class EndpointBed(Protocol):
    """Where attempts are made."""

    @property
    def lab(self) -> str:
        """Kind of lab."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """What else the manifest is to say."""

    def talk(self, talk: EndpointCalls) -> EndpointObservation:
        """Make an attempt.

        Raises
        ------
        MissingCapability, LabError
            The endpoints could not talk.
        """


OpenBed = Callable[[], AbstractContextManager[EndpointBed]]


@dataclass
class JoinedEndpoints:
    """The real one."""

    near: Namespace
    far: Namespace
    cpus: tuple[int, int]
    linger_s: float
    """How long an endpoint waits for packets when it has sent everything, at most."""
    lab: str = "netns"
    polls: bool | None = None
    """Whether sockets can serve the interfaces' queues by polling; None until it was tried."""

    @property
    def facts(self) -> Mapping[str, Any]:
        return {"cpus": list(self.cpus)}

    def talk(self, talk: EndpointCalls) -> EndpointObservation:
        """See :meth:`Bed.talk`."""
        if talk.arm == BYPASS and self.polls is None:
            try:
                self._learn_to_poll(talk)
            except MissingCapability as error:
                others = f"--arms {SOCKETS},{REAL_TIME}"
                raise MissingCapability(
                    f"{error}; without these endpoints: {others}; see weir doctor"
                ) from None
        host = HostReader({"near": self.cpus[0], "far": self.cpus[1]})
        with ExitStack() as stack:
            hogs = []
            if talk.beside == HOG:
                for cpu in self.cpus:
                    hogs.append(stack.enter_context(hogged(cpu, talk.lasts_s + _HOG_BEYOND_S)))
            before, taken_s = host.sample(), [each.cpu_s() for each in hogs]
            begun_ns = time.monotonic_ns()
            found = self._talk(talk)
            lasted_s = (time.monotonic_ns() - begun_ns) / 1e9
            had_s = [each.cpu_s() - taken for each, taken in zip(hogs, taken_s, strict=True)]
            after = host.sample()
        near, far = found["logs"]
        begins_ns = int(found["begins_ns"])
        ways = [
            times(begins_ns, phases, talk.stream.packet_ns, sender["sent_ns"], receiver["heard_ns"])
            for phases, sender, receiver in zip(talk.phases_ns, (near, far), (far, near), strict=True)
        ]
        lengths = [each["shortest_bytes"] for each in (near, far)]
        return EndpointObservation(
            ways=(ways[0], ways[1]),
            since_1970_ns=begins_ns + time.time_ns() - time.monotonic_ns(),
            damaged=near["damaged"] + far["damaged"],
            refused=near["refused"] + far["refused"],
            ip_bytes=(min(lengths), max(near["longest_bytes"], far["longest_bytes"])),
            cpu_s=(near["cpu_ns"] + far["cpu_ns"]) / 1e9,
            work_s=(near["work_ns"] + far["work_ns"]) / 1e9,
            hog_share=min(had_s) / lasted_s if hogs else float("nan"),
            steal_s={
                role: after.cpu_s[role].get("steal", 0.0) - before.cpu_s[role].get("steal", 0.0)
                for role in after.cpu_s
            },
            wall_s=after.wall_s - before.wall_s,
            real_time=talk.arm != SOCKETS and not found["real_time_refused"],
            real_time_refused=found["real_time_refused"],
            polls=found["polls"],
            zero_copy=found["zero_copy"],
        )

    def _talk(self, talk: EndpointCalls) -> dict[str, Any]:
        from weirlab._engine import talk_between

        return talk_between(
            bypass=talk.arm == BYPASS,
            real_time=talk.arm != SOCKETS,
            places=(self._place(self.near, _NEAR, 0), self._place(self.far, _FAR, 1)),
            period_ns=talk.stream.packet_ns,
            packets=talk.packets,
            payload_bytes=talk.stream.payload_bytes,
            payload_type=talk.stream.codec.payload_type,
            stamp_units=talk.stream.stamp_units,
            phases_ns=(talk.phases_ns[0].tolist(), talk.phases_ns[1].tolist()),
            linger_ns=round(self.linger_s * 1e9),
            **_security(talk),
        )

    def _learn_to_poll(self, talk: EndpointCalls) -> None:
        """Put interrupts off if sockets serve the queues; else packets would wait for the interrupts."""
        first = (talk.phases_ns[0][:1], talk.phases_ns[1][:1])
        self.polls = bool(self._talk(replace(talk, phases_ns=first, packets=_TRIED_PACKETS))["polls"])
        if self.polls:
            for namespace, port in ((self.near, _NEAR), (self.far, _FAR)):
                namespace.call(partial(_leave_to_pollers, port))

    def _place(self, namespace: Namespace, port: Port, number: int) -> tuple[str, str, bytes, str, int]:
        return namespace.name, port.name, mac_bytes(port.mac), port.address, self.cpus[number]


def _security(talk: EndpointCalls) -> Mapping[str, Any]:
    """Keys for this attempt alone."""
    if not talk.suite:
        return {}
    from weirlab._engine import esp_key_bytes

    encryption, authentication = esp_key_bytes(talk.suite)
    keys = [
        (_FIRST_SPI + number, secrets.token_bytes(encryption[0]), secrets.token_bytes(authentication))
        for number in (0, 1)
    ]
    return {
        "suite": talk.suite,
        "tunnel": talk.is_tunnel,
        "port": ESP_PORT,
        "keys": keys,
        "iv_key": secrets.token_bytes(16),
    }


@dataclass(frozen=True)
class CpuHog:
    """A program that takes all the time of a CPU that it can get."""

    process: programs.Program[Any]
    cpu: int

    def cpu_s(self) -> float:
        """CPU time that it had so far.

        Raises ``LabError`` where it has ended.
        """
        try:
            ran_ns = Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0]
        except OSError as error:
            raise LabError(f"the CPU hog on CPU {self.cpu} has ended before the calls") from error
        return int(ran_ns) / 1e9


@contextmanager
@shielded
def hogged(cpu: int, seconds: float) -> Iterator[CpuHog]:
    """Have a program take ``cpu`` for as long as the block lasts; by itself it ends after ``seconds``.

    Raises
    ------
    LabError
        It cannot run there.
    """
    command = programs.script(Path(hog.__file__), str(cpu), f"{seconds:.1f}")
    process = programs.start(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise LabError(f"no CPU hog can be started on CPU {cpu}: {_last_words(process)}")
        yield CpuHog(process, cpu)
    finally:
        process.kill()
        with process:
            pass


def _last_words(process: programs.Program[Any]) -> str:
    assert process.stderr is not None
    said: list[bytes] = process.stderr.read().splitlines()
    return said[-1].decode(errors="replace") if said else "it ended at once"


@contextmanager
@shielded
def opened(linger_s: float = LINGER_S) -> Iterator[EndpointBed]:
    """The namespaces, for as long as the block lasts.

    Raises
    ------
    MissingCapability, LabError
        They cannot be made.
    """
    from weirlab.lab.doctor import need_namespaces

    need_namespaces("endpoints need")
    chosen = cores.choose()
    with ExitStack() as stack:
        with explained("a pair of endpoints"):
            near, far = stack.enter_context(quiet("near", "far"))
            with far.descriptor() as fd:
                near.call(partial(interface.create_pair, _NEAR, _FAR, fd, MTU_BYTES))
            for namespace, port, other in ((near, _NEAR, _FAR), (far, _FAR, _NEAR)):
                namespace.call(partial(_bring_up, port, other))
        yield JoinedEndpoints(near, far, (chosen.sender, chosen.dut), linger_s)


def _bring_up(port: Port, other: Port) -> None:
    interface.bring_up([port], [])
    # Calls that wait for address resolution say nothing of the endpoints.
    interface.know(other, port.name)
    # Neither does what IPv6 sends by itself.
    write_sysctls({"net/ipv6/conf/all/disable_ipv6": 1})


def _leave_to_pollers(port: Port) -> None:
    sysfs = syscalls.mount_sysfs()
    try:
        interface.leave_to_pollers(port.name, sysfs)
    finally:
        os.close(sysfs)
