"""The driver of a device that Weir does not build, and what it reports of itself before and after a trial."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from weirlab.base.errors import InputError, LabError
from weirlab.lab.base import Driver, Site
from weirlab.lab.remote.changes import Note, RuleChange
from weirlab.lab.remote.filters import ENTERED
from weirlab.lab.remote.target import Target
from weirlab.records import RuleSetup

_TICK_MS: Final = 10
"""USER_HZ and the BSDs' stathz are 100 on the platforms that Weir knows; see proc(5)."""
_STATES: Final = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_BSD_STATES: Final = ("user", "nice", "system", "irq", "idle")
_NETWORKS: Final = ("198.18.0.2", "198.19.0.2")
"""Behind the two test ports of a routing device."""


@dataclass(frozen=True)
class DeviceReading:
    """One reading; counters are cumulative."""

    counters: dict[str, int] = field(default_factory=dict)
    frequency_mhz: float | None = None
    temperature_c: float | None = None
    printed: str = ""
    """What the filter's own command printed."""


def script(ports: Sequence[str], entered: str) -> str:
    """A shell script that prints a reading, for any device; ``entered`` is the filter's own command."""
    names = " ".join(map(shlex.quote, ports))
    return f"""\
if [ -r /proc/stat ]; then
  sed -n 's/^cpu  */cpu /p' /proc/stat
  sed -n 's/^intr \\([0-9]*\\).*/interrupts \\1/p; s/^softirq \\([0-9]*\\).*/softirqs \\1/p' /proc/stat
  for port in {names}; do
    sed -n "s/^ *$port: */port $port /p" /proc/net/dev
  done
  cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq 2>/dev/null | sed 's/^/khz /'
  cat /sys/class/thermal/thermal_zone*/temp 2>/dev/null | sed 's/^/millicelsius /'
else
  sysctl -n kern.cp_time 2>/dev/null | tr -d , | sed 's/^/bsdcpu /'
  for port in {names}; do
    netstat -I "$port" -bn | sed -n "/<Link/s/^/bsdport /p"
  done
  sysctl -n dev.cpu.0.freq 2>/dev/null | sed 's/^/mhz /'
  sysctl -n dev.cpu.0.temperature 2>/dev/null | sed 's/^/celsius /'
fi
echo filter
{entered or ":"}
"""


def parse(text: str) -> DeviceReading:
    """Read what :func:`script` prints. What the device does not tell is left out."""
    told, _, printed = text.partition("filter\n")
    counters: dict[str, int] = {}
    megahertz: list[float] = []
    celsius: list[float] = []
    for line in told.splitlines():
        kind, _, rest = line.partition(" ")
        words = rest.split()
        match kind:
            case "cpu" | "bsdcpu":
                states = _STATES if kind == "cpu" else _BSD_STATES
                for state, ticks in zip(states, words, strict=False):
                    counters[f"device_cpu_{state}_ms"] = int(ticks) * _TICK_MS
            case "interrupts" | "softirqs":
                counters[f"device_{kind}"] = int(words[0])
            case "port":
                # Columns of /proc/net/dev.
                for name, column in (
                    ("rx_packets", 2),
                    ("rx_dropped", 4),
                    ("tx_packets", 10),
                    ("tx_dropped", 12),
                ):
                    counters[f"device_{words[0]}_{name}"] = int(words[column])
            case "bsdport":
                # Name Mtu Network Address Ipkts Ierrs Idrop Ibytes Opkts Oerrs Obytes Coll (netstat(1)).
                for name, column in (("rx_packets", 4), ("rx_dropped", 6), ("tx_packets", 8)):
                    counters[f"device_{words[0]}_{name}"] = int(words[column])
            case "khz":
                megahertz.append(float(words[0]) / 1e3)
            case "mhz":
                megahertz.append(float(words[0]))
            case "millicelsius":
                celsius.append(float(words[0]) / 1e3)
            case "celsius":
                celsius.append(float(words[0].rstrip("C")))
    return DeviceReading(counters, max(megahertz, default=None), max(celsius, default=None), printed)


def read(target: Target, ports: Sequence[str], entered: str = "") -> DeviceReading:
    """Take a reading; raises ``LabError`` if the device does not give one."""
    done = target.run(["sh", "-s"], script(ports, entered))
    try:
        return parse(done.stdout)
    except (ValueError, IndexError) as error:
        raise LabError(f"{target.name} reports its counters in an unknown form: {error}") from error


def check_ports(target: Target, ports: Sequence[str]) -> tuple[str, ...]:
    """The device's two test ports: ``ports``, or those behind which the networks of test traffic are.

    Raises ``InputError`` if one does not exist, if they are not given and cannot be told, or if the login
    comes in through one of them: the load would cut it off.
    """
    login = _route(target, target.client())
    known = tuple(ports) or tuple(
        dict.fromkeys(filter(None, (_route(target, network) for network in _NETWORKS)))
    )
    if not ports and (len(known) < len(_NETWORKS) or login in known):
        raise InputError(
            f"{target.name} has no two ports with routes to {_NETWORKS[0]} and {_NETWORKS[1]}: name its test "
            "ports with --ports, for example --ports eth1,eth2"
        )
    for port in known:
        if login == port:
            raise InputError(
                f"the login to {target.name} comes in through {port}, a test port: the load would cut it "
                "off. Log in through another port, or name the right test ports with --ports"
            )
        if target.run(
            ["ifconfig" if _is_bsd(target) else "ip", *([] if _is_bsd(target) else ["link", "show"]), port]
        ).returncode:
            raise InputError(f"{target.name} has no port {port}: name its test ports with --ports")
    return known


def _is_bsd(target: Target) -> bool:
    return target.run(["test", "-r", "/proc/stat"]).returncode != 0


def _route(target: Target, address: str) -> str:
    """The port through which the device sends to ``address``; empty if there is none."""
    if not address:
        return ""
    if "%" in address:
        # The zone of a link-local address is the port itself.
        return address.partition("%")[2]
    done = target.run(
        ["sh", "-c", f"ip route get {shlex.quote(address)} || route -n get {shlex.quote(address)}"]
    )
    match = re.search(r"\bdev (\S+)|interface: (\S+)", done.stdout)
    return (match[1] or match[2]) if match else ""


_CERTAIN_PACKETS: Final = 100
"""So many more packets at the device's ports are test traffic, not what neighbours say to each other."""


class ExternalDevice(Driver):
    """A device called ``name``, whose rules ``change`` sets; ``target`` is a login, None without one.

    ``ports`` are its test ports; without them, those to the networks of test traffic.
    """

    forwards = True

    def __init__(
        self,
        name: str,
        target: Target | None = None,
        change: RuleChange | None = None,
        ports: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.note: Note = lambda _: None
        """Tells the user something."""
        self._target = target
        self._change = change or RuleChange()
        self._ports = tuple(ports)
        self._rules = RuleSetup()
        self._last: DeviceReading | None = None
        self._kernel = ""

    def check(self) -> list[str]:
        if self._target is not None:
            self._kernel = self._target.run(["uname", "-sr"]).stdout.strip()
        return self._change.missing()

    def start(self, site: Site) -> Sequence[int]:
        if self._target is not None:
            self._ports = check_ports(self._target, self._ports)
        self._change.begin(self.note)
        return ()

    def stop(self) -> None:
        try:
            self._change.end(self.note)
        finally:
            if self._target is not None:
                self._target.close()

    def apply(self, site: Site, rules: RuleSetup) -> None:
        self._change.apply(rules)
        self._rules = rules
        self._last = None

    def keep(self, seconds: float) -> None:
        """Keep the rules in force for traffic of so many seconds."""
        self._change.confirm(seconds)

    def counters(self) -> Mapping[str, int]:
        """The device's own counters, and proof that its rules are those set last.

        Raises ``LabError`` if they are not, or if test traffic passes the device without meeting them.
        """
        self._change.confirm()
        if self._target is None:
            return {}
        reading = read(self._target, self._ports, self._change.entered())
        counters = dict(reading.counters)
        if (entered := self._change.packets(reading.printed)) is not None:
            counters[ENTERED] = entered
        self._check_path(self._last.counters if self._last else {}, counters)
        self._last = DeviceReading(counters, reading.frequency_mhz, reading.temperature_c)
        return counters

    @property
    def has_login(self) -> bool:
        """Whether the device can be asked how it is."""
        return self._target is not None

    @property
    def reading(self) -> DeviceReading:
        """The last one."""
        return self._last or DeviceReading()

    def facts(self) -> Mapping[str, object]:
        return {
            "layout": self._change.layout,
            **({"at": self._target.name, "kernel": self._kernel} if self._target is not None else {}),
            **({"ports": ", ".join(self._ports)} if self._ports else {}),
        }

    def _check_path(self, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        if ENTERED not in before or not self._rules.position:
            return
        if ENTERED not in after:
            # The device may have restored its own rules since they were confirmed.
            self._change.confirm()
            raise LabError(
                f"{self.name}: Weir's rules are no longer on the device; something else there has loaded its "
                "own (a reload of the firewall?). Keep that from happening during a test, and resume the run"
            )
        names = [f"device_{port}_tx_packets" for port in self._ports]
        forwarded = sum(after.get(name, 0) - before.get(name, 0) for name in names)
        if forwarded > _CERTAIN_PACKETS and after[ENTERED] == before[ENTERED]:
            raise LabError(
                f"{self.name}: the device forwarded {forwarded:,} packets, and none of them met Weir's "
                "rules: it bridges, or it offloads flows. Switch offloading off, or measure with change: none"
            )
