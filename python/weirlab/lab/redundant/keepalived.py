"""VRRP by keepalived."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Final, Literal

from weirlab.base import programs
from weirlab.base.errors import InputError
from weirlab.lab.dut import tool
from weirlab.lab.machines.machine import CRITICAL, NEWS
from weirlab.lab.redundant import wiring
from weirlab.lab.redundant.base import FIREWALLS, SIDES, Firewall, FirewallMachine, Role, Side

_DAEMON: Final = "keepalived"
_CONFIG: Final = "/run/keepalived.conf"
_STAND_DOWN: Final = "/run/stand-down"
_ROUTER_ID: Final[dict[Side, int]] = {"lan": 51, "wan": 52}
_LOWEST: Final = -253
"""The most that a tracked file can subtract from a priority (keepalived.conf(5)); the minimum is 1."""

_NEWS: Final = re.compile(r'INSTANCE "(lan|wan)" (MASTER|BACKUP|FAULT|STOP)\b')
_ADVERTS_S: Final = {2: (1.0, 255.0), 3: (0.01, 40.95)}
"""VRRPv2 counts whole seconds in 8 bits, VRRPv3 hundredths in 12 (RFC 3768 section 5.3.7, RFC 5798 5.2.7)."""


@dataclass(frozen=True)
class Keepalived:
    """Settings of keepalived. Raises ``InputError`` for those that cannot work.

    Attributes
    ----------
    advert_s:
        Advertisement interval in s: hundredths with VRRPv3, whole seconds with VRRPv2.
    priorities:
        Of ``a`` and ``b``, 1 to 254; the higher one marks the preferred master.
    preempt, preempt_delay_s:
        Whether (and how much later) the preferred master takes the addresses back.
    version:
        VRRP version.
    use_vmac:
        Whether the virtual addresses move with a virtual MAC address, so that no neighbour has
        to learn another one. A backup's virtual interface receives what reaches it: if the switch
        forgets a dead master's port and floods, packets pass before the addresses have moved.
    sync_group:
        Whether the two sides always change together (``vrrp_sync_group``).
    garp_repeat, garp_delay_s, garp_refresh_s:
        Gratuitous ARP: number per round, delay before the second round, and interval from then on (0: off).
    step_down:
        ``priority``: a tracked file lowers the master's priority; ``stop``: the daemon ends in
        good order, which it announces with priority 0. None: ``priority`` if the other one
        would preempt, else ``stop``.
    """

    advert_s: float = 1.0
    priorities: tuple[int, int] = (150, 100)
    preempt: bool = True
    preempt_delay_s: float = 0.0
    version: Literal[2, 3] = 3
    use_vmac: bool = False
    sync_group: bool = True
    garp_repeat: int = 5
    garp_delay_s: int = 5
    garp_refresh_s: int = 0
    step_down: Literal["priority", "stop"] | None = None

    def __post_init__(self) -> None:
        if self.version not in _ADVERTS_S:
            raise InputError(f"VRRP version {self.version}: must be 2 or 3")
        low, high = _ADVERTS_S[self.version]
        unit = 1.0 if self.version == 2 else 0.01
        whole = round(self.advert_s / unit)
        if not low <= self.advert_s <= high or abs(whole * unit - self.advert_s) > 1e-9:
            raise InputError(
                f"an advertisement interval of {self.advert_s:g} s: VRRPv{self.version} allows {low:g} "
                f"to {high:g} s, in steps of {unit:g} s"
                + ("; version 3 allows shorter ones" if self.version == 2 else "")
            )
        for firewall, priority in zip(FIREWALLS, self.priorities, strict=True):
            if not 1 <= priority <= 254:
                raise InputError(f"priority {priority} of firewall {firewall}: must be between 1 and 254")
        if self.priorities[0] == self.priorities[1]:
            raise InputError(
                f"both firewalls have priority {self.priorities[0]}: neither is the preferred master"
            )
        if not 0 <= self.preempt_delay_s <= 1000:
            raise InputError(f"a preemption delay of {self.preempt_delay_s:g} s: must be between 0 and 1000")
        if self.preempt_delay_s and not self.preempt:
            raise InputError("a preemption delay has no effect without preemption")
        if self.step_down == "priority" and not self.preempt:
            raise InputError("without preemption, a lower priority has no effect: use step_down stop")
        for what, value in (
            ("repeat", self.garp_repeat),
            ("delay", self.garp_delay_s),
            ("refresh", self.garp_refresh_s),
        ):
            if not 0 <= value <= 3600:
                raise InputError(f"gratuitous ARP, {what} {value}: must be between 0 and 3600")
        if self.garp_repeat < 1:
            raise InputError("gratuitous ARP, repeat 0: no host would learn where the address went")

    @property
    def name(self) -> str:
        return _DAEMON

    @property
    def preferred(self) -> Firewall:
        return "a" if self.priorities[0] > self.priorities[1] else "b"

    @property
    def expected_failover_s(self) -> tuple[float, float]:
        """Earliest and latest take-over when the preferred master dies, one interval apart.

        Master_Down_Interval = 3 Advertisement_Interval + Skew_Time after the last advertisement,
        with Skew_Time = (256 - priority) / 256 intervals (RFC 5798 section 6.1) or as many
        seconds (RFC 3768 section 6.1).
        """
        unit_s = 1.0 if self.version == 2 else self.advert_s
        skew_s = (256 - min(self.priorities)) / 256 * unit_s
        down_s = 3 * self.advert_s + skew_s
        return down_s - self.advert_s, down_s

    @property
    def patience_s(self) -> float:
        """The longest wait of a backup that hears nothing, not even the other's start."""
        return self.expected_failover_s[1] + self.preempt_delay_s

    @property
    def ends_to_step_down(self) -> bool:
        return self._way_down == "stop"

    def links(self, side: Side) -> tuple[str, ...]:
        """Interfaces on which packets of ``side`` may arrive."""
        link = wiring.NETWORKS[side].link
        return (link, _vmac(side)) if self.use_vmac else (link,)

    def check(self) -> list[str]:
        return [] if programs.find(_DAEMON) else ["keepalived is not installed: apt install keepalived"]

    def facts(self) -> Mapping[str, object]:
        settings = asdict(self)
        settings["step_down"] = self._way_down
        return {"tool": tool.version(_DAEMON), **settings}

    def start(self, machine: FirewallMachine, scripts: Mapping[Role, str]) -> None:
        """Start the daemon; ``scripts`` run when the firewall takes their role."""
        machine.write(_STAND_DOWN, "0\n")
        machine.write(_CONFIG, config(self, machine.firewall, scripts))
        self._launch(machine)

    def lower(self, machine: FirewallMachine) -> str:
        if self.ends_to_step_down:
            machine.stop(_DAEMON)
            return "keepalived ended in good order"
        machine.write(_STAND_DOWN, f"{_LOWEST}\n")
        return f"priority lowered by {-_LOWEST}"

    def raise_again(self, machine: FirewallMachine, other: FirewallMachine) -> str:
        """Undo :meth:`lower`."""
        if self.ends_to_step_down:
            self._launch(machine)
            return "keepalived started"
        machine.write(_STAND_DOWN, "0\n")
        return "own priority again"

    def role(self, news: str) -> tuple[Side, Role] | None:
        """Side and role in a line of news, if it has any."""
        if (match := _NEWS.match(news)) is None:
            return None
        side: Side = "lan" if match[1] == "lan" else "wan"
        return side, "master" if match[2] == "MASTER" else "backup"

    @property
    def _way_down(self) -> Literal["priority", "stop"]:
        return self.step_down or ("priority" if self.preempt else "stop")

    def _launch(self, machine: FirewallMachine) -> None:
        command = [_DAEMON, "--dont-fork", "--log-console", "--log-detail", "--vrrp", "--use-file", _CONFIG]
        command += ["--pid=/run/keepalived.pid", "--vrrp_pid=/run/keepalived-vrrp.pid"]
        machine.start(_DAEMON, command, nice=CRITICAL)


def config(settings: Keepalived, firewall: Firewall, scripts: Mapping[Role, str]) -> str:
    """The configuration file of one firewall (keepalived.conf(5); one keyword per line)."""
    return "\n".join(_lines(settings, firewall, scripts)) + "\n"


def _lines(settings: Keepalived, firewall: Firewall, scripts: Mapping[Role, str]) -> Iterator[str]:
    notify = [f"notify_{role} {script}" for role, script in scripts.items()]
    track = ["track_file {", "  stand_down weight 1", "}"] if settings._way_down == "priority" else []
    yield "global_defs {"
    yield f"  router_id {firewall}"
    yield "  script_user root"
    yield f"  vrrp_notify_fifo {NEWS}"
    yield f"  vrrp_version {settings.version}"
    yield f"  vrrp_garp_master_repeat {settings.garp_repeat}"
    yield f"  vrrp_garp_master_delay {settings.garp_delay_s}"
    yield f"  vrrp_garp_master_refresh {settings.garp_refresh_s}"
    yield "}"
    yield "track_file stand_down {"
    yield f"  file {_STAND_DOWN}"
    yield "}"
    if settings.sync_group:
        yield "vrrp_sync_group pair {"
        yield "  group {"
        yield from (f"    {side}" for side in SIDES)
        yield "  }"
        if track:
            yield "  sync_group_tracking_weight"
        yield from (f"  {line}" for line in (*track, *notify))
        yield "}"
    for side in SIDES:
        network = wiring.NETWORKS[side]
        yield f"vrrp_instance {side} {{"
        yield "  state BACKUP"
        yield f"  interface {network.link}"
        if settings.use_vmac:
            yield f"  use_vmac {_vmac(side)}"
        yield f"  virtual_router_id {_ROUTER_ID[side]}"
        yield f"  priority {settings.priorities[FIREWALLS.index(firewall)]}"
        yield f"  advert_int {settings.advert_s:g}"
        if not settings.preempt:
            yield "  nopreempt"
        elif settings.preempt_delay_s:
            yield f"  preempt_delay {settings.preempt_delay_s:g}"
        yield "  virtual_ipaddress {"
        yield f"    {network.virtual}/{wiring.PREFIX_LENGTH}"
        yield "  }"
        if not settings.sync_group:
            yield from (f"  {line}" for line in track)
            # States belong to both sides: one side represents the firewall.
            yield from (f"  {line}" for line in notify if side == "wan")
        yield "}"


def _vmac(side: Side) -> str:
    return f"vrrp-{side}"
