"""CARP by ucarp."""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final, Literal

from weirlab.base import programs
from weirlab.base.errors import InputError
from weirlab.lab.dut import tool
from weirlab.lab.machines.machine import CRITICAL, NEWS
from weirlab.lab.redundant import wiring
from weirlab.lab.redundant.base import FIREWALLS, ROLES, SIDES, Firewall, FirewallMachine, Role, Side

_DAEMON: Final = "ucarp"
_HOST_ID: Final[dict[Side, int]] = {"lan": 51, "wan": 52}
_PASSWORD: Final = "weir"
_NEWS: Final = re.compile(r"ucarp (lan|wan) (master|backup)$")
_SHELL: Final = "/bin/sh"


@dataclass(frozen=True)
class Ucarp:
    """Settings of ucarp. Raises ``InputError`` for those that cannot work.

    A daemon runs for each side, independently.

    Attributes
    ----------
    advbase_s, advskews:
        Advertisement interval: whole seconds, and for ``a`` and ``b`` 256ths of a second on top. The
        shorter one is the preferred master's.
    deadratio:
        After how many times ``advbase_s`` (plus its skew) without an advertisement a backup takes over.
    preempt:
        Whether the preferred master takes the addresses back from one that advertises more slowly.
    step_down:
        ``demote``: the signal that makes a master a backup (SIGUSR2); ``stop``: the daemons end in
        good order. None: ``stop`` with preemption, as a demoted master would come back, else ``demote``.
    """

    advbase_s: int = 1
    advskews: tuple[int, int] = (0, 50)
    deadratio: int = 3
    preempt: bool = False
    step_down: Literal["demote", "stop"] | None = None

    def __post_init__(self) -> None:
        if self.advbase_s == 0:
            raise InputError(
                "ucarp with an advertisement base of 0 s flaps: both firewalls become master in turn; "
                "use 1 or more, or keepalived, which supports shorter intervals"
            )
        if not 1 <= self.advbase_s <= 255 or int(self.advbase_s) != self.advbase_s:
            raise InputError(f"advertisement base {self.advbase_s:g} s: ucarp takes whole ones from 1 to 255")
        for firewall, skew in zip(FIREWALLS, self.advskews, strict=True):
            if not 0 <= skew <= 255:
                raise InputError(f"skew {skew} of firewall {firewall}: must be between 0 and 255")
        if self.advskews[0] == self.advskews[1]:
            raise InputError(f"both firewalls have skew {self.advskews[0]}: the master needs the lower one")
        if not 1 <= self.deadratio <= 255:
            raise InputError(f"a dead ratio of {self.deadratio}: must be between 1 and 255")
        if self.step_down == "demote" and self._comes_back:
            raise InputError(
                "with preemption, or a dead ratio of 1, a demoted master comes back at once: "
                "let it step down by stop"
            )

    @property
    def name(self) -> str:
        return _DAEMON

    @property
    def preferred(self) -> Firewall:
        return "a" if self.advskews[0] < self.advskews[1] else "b"

    @property
    def expected_failover_s(self) -> tuple[float, float]:
        """Earliest and latest take-over when the preferred master dies, by ucarp's timers.

        The backup's timer runs for ``deadratio`` x advbase + advskew / 256 s from the last
        advertisement on (``carp_setrun`` in ucarp's carp.c). It looks at the timer, though, only when
        its own interval of advbase + advskew / 256 s, truncated to ms, has passed again (``docarp``). If
        the timer expires within a millisecond of that, which look sees it depends on how late the look is.
        """
        quick, slow = min(self.advskews), max(self.advskews)
        timer_s = self.deadratio * self.advbase_s + slow / 256
        look_s = self.advbase_s + slow * 1000 // 256 / 1000
        first = math.ceil(timer_s / (look_s + 0.001)) * look_s
        last = math.ceil(timer_s / look_s) * look_s
        return first - (self.advbase_s + quick / 256), last

    @property
    def patience_s(self) -> float:
        """The longest wait of a firewall that hears nothing; a demoted one first pauses for 3 s."""
        return self.expected_failover_s[1] + (3.0 if self._way_down == "demote" else 0.0)

    @property
    def ends_to_step_down(self) -> bool:
        return self._way_down == "stop"

    def links(self, side: Side) -> tuple[str, ...]:
        return (wiring.NETWORKS[side].link,)

    def check(self) -> list[str]:
        return [] if programs.find(_DAEMON) else ["ucarp is not installed: apt install ucarp"]

    def facts(self) -> Mapping[str, object]:
        return {"tool": tool.version(_DAEMON, "-h"), **asdict(self), "step_down": self._way_down}

    def start(self, machine: FirewallMachine, scripts: Mapping[Role, str]) -> None:
        """Start a daemon per side; ``scripts`` run when the firewall takes their role."""
        for side in SIDES:
            for role in ROLES:
                # States belong to both sides: one side represents the firewall.
                script = scripts.get(role) if side == "wan" else None
                machine.write(_script(side, role), change(side, role, script), executable=True)
        self._launch(machine)

    def lower(self, machine: FirewallMachine) -> str:
        if self.ends_to_step_down:
            for side in SIDES:
                machine.stop(_daemon(side))
            return "ucarp ended in good order"
        for side in SIDES:
            machine.signal(_daemon(side), signal.SIGUSR2)
        return "SIGUSR2: master to backup"

    def raise_again(self, machine: FirewallMachine, other: FirewallMachine) -> str:
        """Undo :meth:`lower`."""
        if self.ends_to_step_down:
            self._launch(machine)
            return "ucarp started"
        return self.lower(other)

    def role(self, news: str) -> tuple[Side, Role] | None:
        """Side and role in a line of news, if it has any."""
        if (match := _NEWS.fullmatch(news)) is None:
            return None
        return ("lan" if match[1] == "lan" else "wan"), ("master" if match[2] == "master" else "backup")

    @property
    def _comes_back(self) -> bool:
        """Whether a demoted master takes over again on its own."""
        return self.preempt or self.deadratio == 1

    @property
    def _way_down(self) -> Literal["demote", "stop"]:
        return self.step_down or ("stop" if self._comes_back else "demote")

    def _launch(self, machine: FirewallMachine) -> None:
        for side in SIDES:
            machine.start(_daemon(side), command(self, machine.firewall, side), nice=CRITICAL)


def command(settings: Ucarp, firewall: Firewall, side: Side) -> list[str]:
    """The daemon of one side, with its options (ucarp(8))."""
    network = wiring.NETWORKS[side]
    options = [
        f"--interface={network.link}",
        f"--srcip={network.address(firewall)}",
        f"--vhid={_HOST_ID[side]}",
        f"--pass={_PASSWORD}",
        f"--addr={network.virtual}",
        f"--advbase={settings.advbase_s}",
        f"--advskew={settings.advskews[FIREWALLS.index(firewall)]}",
        f"--deadratio={settings.deadratio}",
        f"--upscript={_script(side, 'master')}",
        f"--downscript={_script(side, 'backup')}",
        "--shutdown",
        "--facility=none",
    ]
    return [_DAEMON, *options, *(["--preempt"] if settings.preempt else [])]


def change(side: Side, role: Role, script: str | None) -> str:
    """Shell script for a change of role, which has to move the address for ucarp."""
    verb = "add" if role == "master" else "del"
    network = wiring.NETWORKS[side]
    ip = programs.find("ip") or "ip"
    lines = [
        f"#!{_SHELL}",
        # A daemon starts as a backup, which has no address to remove.
        f"{ip} address {verb} {network.virtual}/{wiring.PREFIX_LENGTH} dev {network.link} 2>/dev/null",
        f"echo ucarp {side} {role} >{NEWS}",
        *([f"exec {script}"] if script else []),
    ]
    return "\n".join(lines) + "\n"


def _daemon(side: Side) -> str:
    return f"{_DAEMON} {side}"


def _script(side: Side, role: Role) -> str:
    return f"/run/{side}-{role}"
