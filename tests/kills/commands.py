"""Every command that takes long enough to be killed, in small."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_PROFILE = """
name: small
lab: {kind: sim}
dut: {name: iptables}
profile: {positions: [0, 50], sizes: ["64"], load_shares: [0.3, 0.6, 0.9, 1.2], repetitions: 1, trial_s: 0.02}
"""
_VERIFY = "verify: [{positions: [25], sizes: ['64'], draws: 2, overload_shares: []}]\nreport: {}\n"
_CAPACITY = """
name: small capacity
lab: {kind: sim}
dut: {name: iptables}
calls: {codec: g711, directions: forward}
capacity:
  positions: [0]
  sweep: {first: 50, last: 150, step: 50, repetitions: 1, trial_s: 0.1, warmup_s: 0.05}
  search: null
  predict: null
report: {}
"""
_MONITOR = """
name: small monitor
monitor: {methods: [tap-ring, tcpdump-bridge], payloads: [100], loads: [20kpps], runs: 2, trial_s: 0.1,
          records: disk, max_attempts: 1, stall: null, search: null, copy_cost: null}
report: {}
"""
_FAILOVER = """
name: small failover
calls: {count: 10, codec: g711, directions: forward}
failover:
  pairs: [{protocol: keepalived, advert_s: 0.1}]
  kinds: [soft]
  repetitions: 1
  event_s: 1
  after_s: 12
  find_load: false
  max_attempts: 1
report: {}
"""
_PARALLEL = """
name: small parallel sockets
parallel:
  split: {rate: 20Mbps, shares: [0.3]}
  methods: [independent, earliest]
  warmup_s: 0.1
  lasts_s: 0.3
  repetitions: 2
  max_attempts: 1
  late_ms: 1000
report: {}
"""


@dataclass(frozen=True)
class Place:
    """Where one command works, and nobody else."""

    folder: Path
    netns: str = ""
    """With the interfaces ``a`` and ``b`` to tap, if the command needs them."""

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def path(self, name: str) -> str:
        return str(self.folder / "work" / name)

    def scenario(self, name: str, text: str) -> str:
        path = self.folder / f"{name}.yaml"
        path.write_text(text)
        return str(path)


Arguments = Callable[[Place], Sequence[str]]


@dataclass(frozen=True)
class Command:
    """``arguments`` behind ``weir``; ``resume`` goes on with its run, whose ID follows."""

    arguments: Arguments
    before: tuple[str, ...] = ()
    """Commands whose results it needs, made once and copied."""
    resume: tuple[str, ...] = ()
    root: bool = False
    link: bool = False
    """Taps or logs a link: to be stopped is its regular end."""
    service: bool = False
    """To be stopped is its regular end, and it has no other. Its first line says that it is at work."""
    makes: tuple[str, ...] = field(default_factory=tuple)
    """Files it writes into its folder."""


def _fixed(*arguments: str) -> Arguments:
    return lambda place: arguments


def _scenario(name: str, text: str) -> Arguments:
    return lambda place: ("run", place.scenario(name, text))


_SIM = ("--lab", "sim")
_NETNS = ("--lab", "netns", "--backend", "af_packet")
_TRIAL = ("trial", "--rate", "5kpps", "--duration", "0.2", "--warmup", "0.1", "--attempts", "2")
_GRID = ("--rules", "0,50", "--frame", "64", "--repetitions", "1", "--duration", "0.02")
_RUN = ("run", "--resume")

COMMANDS: dict[str, Command] = {
    "trial": Command(_fixed(*_TRIAL, *_SIM)),
    "profile": Command(_fixed("profile", *_SIM, *_GRID), resume=("profile", "--resume")),
    "adaptive": Command(
        _fixed("profile", *_SIM, *_GRID, "--adaptive", "--budget", "20"), resume=("profile", "--resume")
    ),
    "search": Command(_fixed("search", *_SIM, "--rules", "0", "--duration", "0.02", "--max-rate", "400kpps")),
    "rfc2544": Command(
        _fixed(
            *("rfc2544", *_SIM, "--frame", "64", "--tests", "throughput,latency", "--repetitions", "2"),
            *("--duration", "0.02", "--max-rate", "400kpps"),
        )
    ),
    "calls": Command(_fixed("calls", "--send", *_SIM, "--calls", "20", "--duration", "0.5")),
    "write": Command(
        lambda place: ("calls", "--calls", "50", "--duration", "5", "--write", place.path("calls.pcap")),
        makes=("calls.pcap",),
    ),
    "run-profile": Command(_scenario("profile", _PROFILE + _VERIFY), resume=_RUN),
    "run-capacity": Command(_scenario("capacity", _CAPACITY), resume=_RUN),
    "run-monitor": Command(_scenario("monitor", _MONITOR), resume=_RUN, root=True),
    "run-failover": Command(_scenario("failover", _FAILOVER), resume=_RUN, root=True),
    "run-parallel": Command(_scenario("parallel", _PARALLEL), resume=_RUN, root=True),
    "fit": Command(_fixed("fit", "last"), before=("profile",)),
    "verify": Command(
        _fixed("verify", "last", "--rules", "25", "--repetitions", "1", "--duration", "0.02"),
        before=("profile", "fit"),
        resume=("verify",),
    ),
    "report": Command(
        lambda place: ("report", "last", "--out", place.path("report.html")),
        before=("profile", "fit"),
        makes=("report.html",),
    ),
    "export": Command(
        lambda place: ("export", "last", "--out", place.path("data")), before=("profile",), makes=("data",)
    ),
    "trace": Command(
        lambda place: ("trace", place.path("calls.pcap"), "--series", place.path("series")),
        before=("write",),
        makes=("series",),
    ),
    "quality": Command(lambda place: ("quality", place.path("calls.pcap")), before=("write",)),
    "trial-netns": Command(_fixed(*_TRIAL, *_NETNS), root=True),
    "cross-traffic": Command(
        _fixed(*_TRIAL, *_NETNS, "--dut", "nftables", "--rules", "5", "--cross-traffic"), root=True
    ),
    "tunnel": Command(_fixed(*_TRIAL, *_NETNS, "--dut", "wireguard-go", "--rules", "5"), root=True),
    "calibrate": Command(
        _fixed("calibrate", "--rates", "1kpps,5kpps", "--repetitions", "1", "--duration", "0.1", *_NETNS),
        root=True,
    ),
    "failover": Command(
        _fixed(
            *("failover", "--no-find-load", "--calls", "10", "--codec", "g711", "--directions", "forward"),
            *("--advert", "0.1", "--kinds", "soft", "--repetitions", "1", "--event", "1", "--after", "12"),
            *("--attempts", "1"),
        ),
        resume=_RUN,
        root=True,
    ),
    "tap": Command(
        lambda place: (
            *("tap", "--between", "a", "b", "--netns", place.netns, "--duration", "3"),
            *("--write", place.path("link.pcapng")),
        ),
        root=True,
        link=True,
        makes=("link.pcapng", "link.pcapng.json"),
    ),
    # Nobody is at this port (TCPMUX, RFC 1078): what the program connects to, it reaches by plain TCP.
    "psock-run": Command(
        _fixed("psock", "run", "--via", "127.0.0.1:1", "--fallback", "--", "sleep", "1"), root=True
    ),
    "psock-proxy": Command(_fixed("psock", "proxy", "--port", "0", "--allow", "any"), service=True),
    "link": Command(
        lambda place: ("link", "a", "b", "--netns", place.netns, "--delay", "1ms", "--duration", "3"),
        root=True,
        link=True,
    ),
    "log": Command(
        lambda place: (
            *("log", "--interface", "a", "--wire", "--netns", place.netns, "--duration", "3"),
            *("--write", place.path("log.pcapng")),
        ),
        root=True,
        link=True,
        makes=("log.pcapng", "log.pcapng.json"),
    ),
}
