"""Throughput, rate accuracy and lateness of the link emulator, compared with a cable and tc-netem.

One namespace sends frames to another; between them is a veth pair, the emulator, or netem at the sender's end
if the kernel has it. All take turns in one run.

Capacity and rates are measured with one sender at full speed. No program receives there, so the receiver
costs no CPU, and its interface counts the frames. Lateness is measured at fixed loads over a link of 10 ms,
where every frame is received and timed.

    make bench-link
    .venv/bin/python bench/link.py --repeats 3 --seconds 2 --out build/bench
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

from pyroute2 import IPRoute
from rich.console import Console

from machine import versions
from summary import Summary
from summary import about as called
from summary import parser as options
from weirlab.base.errors import LabError, WeirError
from weirlab.base.interrupts import shielded
from weirlab.emulation.account import EmulationCounters, complaints
from weirlab.emulation.reading import read_path
from weirlab.lab import clean
from weirlab.lab.engine import to_result
from weirlab.lab.linux import interface
from weirlab.lab.linux.interface import Port
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.lab.wiring import QUIET, make_end
from weirlab.links.emulator.running import EmulatorSettings, LinkEnd, emulated_link
from weirlab.records import EngineResult
from weirlab.traffic.load import parse_rate
from weirlab.traffic.plan import DeparturePlan
from weirlab.traffic.schedule import compile_plan
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Traffic

TX: Final = Port("tx0", "02:77:65:69:72:01", "198.18.0.2/24", "2001:2:0:1::2/120")
RX: Final = Port("rx0", "02:77:65:69:72:04", "198.19.0.2/24", "2001:2:0:2::2/120")
NEAR: Final = (
    Port("la", "02:77:65:69:72:08", "198.18.0.1/24", "2001:2:0:1::1/120"),
    Port("lb", "02:77:65:69:72:09", "198.19.0.1/24", "2001:2:0:2::1/120"),
)
"""The emulator's ends, which have no addresses; not used with a cable."""

SPARE: Final = (
    Port("sp0", "02:77:65:69:72:0a", "198.19.1.1/24", "2001:2:0:3::1/120"),
    Port("sp1", "02:77:65:69:72:0b", "198.19.2.1/24", "2001:2:0:4::1/120"),
)
"""Where the engine listens when nothing should be received."""

WARMUP_S: Final = 0.2

CAPACITY: Final[Mapping[str, Mapping[str, str]]] = {
    "emulator, nothing to do": {},
    "emulator, 10 ms": {"delay": "10ms"},
    "emulator, 10 ms, busy": {"delay": "10ms"},
    "emulator, 10 ms, ordinary": {"delay": "10ms"},
}
RATES: Final = ("10Mbps", "100Mbps", "1Gbps", "2.5Gbps")
LOADS: Final = ("1kpps", "10kpps", "100kpps")
"""Loads offered to a link of 10 ms to measure its lateness."""
SIZES: Final = (64, 1518)
"""Frame sizes in bytes, FCS included."""


@dataclass(frozen=True)
class Row:
    """One trial."""

    series: str
    case: str
    frame_bytes: int
    load: str
    received: int
    seconds: float
    delay_p50_us: float | None = None
    delay_p99_us: float | None = None
    rate_error: float | None = None
    late_p50_us: float | None = None
    late_p99_us: float | None = None
    late_max_us: float | None = None
    ns_per_frame: float | None = None
    not_kept: int = 0

    @property
    def received_pps(self) -> float:
        """Frames per second at the far end."""
        return self.received / self.seconds

    @property
    def gbps(self) -> float:
        """Gbit/s at the far end, of frames without FCS."""
        return self.received_pps * (self.frame_bytes - 4) * 8 / 1e9


class Bench:
    """Sender and receiver, each in a namespace, with or without a link in between."""

    @shielded
    def __init__(self, *, cable: bool) -> None:
        self._claim = clean.LabOwnership()
        names = ("tx", "rx") if cable else ("tx", "rx", "link")
        self._netns = {part: Namespace(self._claim.namespace_name(part)) for part in names}
        try:
            for netns in self._netns.values():
                netns.create()
                netns.call(lambda: write_sysctls(QUIET))
            if cable:
                self._pair("tx", TX, "rx", RX)
            else:
                self._pair("tx", TX, "link", NEAR[0])
                self._pair("rx", RX, "link", NEAR[1])
            self._netns["tx"].call(lambda: interface.bring_up([TX], []))
            self._netns["rx"].call(lambda: interface.bring_up([RX], []))
        except BaseException:
            self.close()
            raise

    def _pair(self, part: str, here: Port, other: str, there: Port) -> None:
        with self._netns[other].descriptor() as fd:
            self._netns[part].call(lambda: make_end(here, there, fd))

    @property
    def link_netns(self) -> str:
        """Name of the namespace in the middle."""
        return self._netns["link"].name

    def netem(self, *words: str) -> str:
        """Put netem at the sender's end; returns the error, or "" if it worked."""
        return self._netns["tx"].call(lambda: _netem(TX.name, *words))

    def play(self, load: str, frame_bytes: int, seconds: float, *, heard: bool = True) -> EngineResult:
        """Send one way; if ``heard``, receive and time the frames at the other end."""
        traffic = Traffic(
            rate=parse_rate(load), sizes=Constant(frame_bytes), duration_s=seconds, warmup_s=WARMUP_S
        )
        return self.send(compile_plan(traffic), heard=heard)

    def send(self, plan: DeparturePlan, *, heard: bool = True) -> EngineResult:
        """Send as planned; ``heard`` as in :meth:`play`."""
        from weirlab._engine import Engine

        tx, rx = (self._netns[part].name for part in ("tx", "rx"))
        ear = RX if heard else SPARE[1]
        engine = Engine(
            tx_netns=tx, tx_if=TX.name, rx_netns=rx, rx_if=ear.name, tx_cpus=[0], backend="af_packet"
        )
        try:
            raw = engine.run(plan, (_mac(TX), _mac(RX)), (_mac(RX), _mac(TX)))
        finally:
            engine.close()
        return to_result(raw, plan)

    def flood(self, frame_bytes: int, seconds: float) -> tuple[int, float]:
        """Send as fast as one core can; returns the frames at the receiver's interface, and the time in s."""
        self._pair("tx", SPARE[0], "rx", SPARE[1])
        self._netns["tx"].call(lambda: interface.bring_up([SPARE[0]], []))
        self._netns["rx"].call(lambda: interface.bring_up([SPARE[1]], []))
        self._netns["rx"].call(lambda: _deafen(RX.name))
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(self.play, "max", frame_bytes, seconds + 0.2, heard=False)
            time.sleep(WARMUP_S + 0.1)
            before, before_s = self._taken(), time.monotonic()
            time.sleep(seconds)
            after, after_s = self._taken(), time.monotonic()
            sending.result()
        return after - before, after_s - before_s

    def _taken(self) -> int:
        return self._netns["rx"].call(lambda: _rx_packets(RX.name))

    @shielded
    def close(self) -> None:
        """Remove everything."""
        self._claim.release()


def _mac(port: Port) -> bytes:
    return bytes.fromhex(port.mac.replace(":", ""))


def _deafen(name: str) -> None:
    """Drop all incoming frames at the interface."""
    rules = f"""
table netdev bench {{
  chain in {{ type filter hook ingress device "{name}" priority 0; policy drop; }}
}}
"""
    subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)


def _rx_packets(name: str) -> int:
    with IPRoute() as netlink:
        link = next(iter(netlink.get_links(ifname=name)))
        return int(link.get_attr("IFLA_STATS64")["rx_packets"])


@contextmanager
def bench(*, cable: bool) -> Iterator[Bench]:
    """A bench for the duration of the block."""
    made = Bench(cable=cable)
    try:
        yield made
    finally:
        made.close()


def has_netem() -> bool:
    """Whether this kernel has netem."""
    with bench(cable=True) as made:
        return not made.netem("delay", "1ms")


def _netem(name: str, *words: str) -> str:
    """Put netem on the interface; returns the error, or "" if it worked."""
    command = ["tc", "qdisc", "replace", "dev", name, "root", "netem", "limit", "1000000", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


def trial(
    series: str,
    case: str,
    load: str,
    frame_bytes: int,
    seconds: float,
    *,
    words: Mapping[str, str] | None = None,
    netem: Sequence[str] = (),
) -> Row:
    """One trial: over a cable, through the emulator (``words``), or with ``netem`` at the sender's end."""
    told: dict[str, Any] = {}
    with bench(cable=words is None) as made:
        if netem and (problem := made.netem(*netem)):
            raise LabError(f"tc netem: {problem}")
        with ExitStack() as stack:
            link = None
            if words is not None:
                path = read_path(words)
                a, b = (LinkEnd(port.name, made.link_netns) for port in NEAR)
                cpu = (os.cpu_count() or 1) - 1
                how = EmulatorSettings(cpu=cpu, busy="busy" in case, real_time="ordinary" not in case)
                link = stack.enter_context(emulated_link(a, b, path, path, how=how))
            if series == "lateness":
                found = made.play(load, frame_bytes, seconds)
                received, took_s = found.received, (found.record_end_ns - found.record_start_ns) / 1e9
                told |= {f"delay_p{q}_us": found.histogram.quantile_ns(q / 100) / 1e3 for q in (50, 99)}
            else:
                received, took_s = made.flood(frame_bytes, seconds)
            if link is not None:
                told |= of_link(case, link.stop())
    return Row(series, case, frame_bytes, load, received, took_s, **told)


def of_link(case: str, account: EmulationCounters) -> dict[str, Any]:
    """What the emulator reports about itself, by the field names of ``Row``."""
    for complaint in complaints(account):
        print(f"{case}: {complaint}", file=sys.stderr)
    up = account.up
    return {
        "rate_error": up.rate_error if up.paced_ns and up.rate_bps else None,
        "late_p50_us": up.late_ns(0.5) / 1e3,
        "late_p99_us": up.late_ns(0.99) / 1e3,
        "late_max_us": up.late_max_ns / 1e3,
        "ns_per_frame": account.cpu_s * 1e9 / up.sent if up.sent else None,
        "not_kept": account.not_kept,
    }


def trials(repeats: int, seconds: float, *, netem: bool, console: Console) -> Iterator[Row]:
    """All trials, in turns."""
    for repeat in range(repeats):
        console.print(f"[dim]round {repeat + 1} of {repeats}[/]")
        for frame_bytes in SIZES:
            yield trial("capacity", "cable", "max", frame_bytes, seconds)
            for case, words in CAPACITY.items():
                yield trial("capacity", case, "max", frame_bytes, seconds, words=words)
        for rate in RATES:
            words = {"rate": rate, "queue": "100pkts"}
            yield trial("rate", f"emulator, {rate}", "max", 1518, seconds, words=words)
            if netem:
                limit = ("rate", rate.replace("ps", "it"))
                yield trial("rate", f"netem, {rate}", "max", 1518, seconds, netem=limit)
        for load in LOADS:
            yield trial("lateness", "cable", load, 214, seconds)
            for case, words in list(CAPACITY.items())[1:]:
                yield trial("lateness", case, load, 214, seconds, words=words)
            if netem:
                yield trial("lateness", "netem, 10 ms", load, 214, seconds, netem=("delay", "10ms"))


def medians(rows: list[Row]) -> list[tuple[str, ...]]:
    """Medians by case."""
    found = []
    for key in dict.fromkeys((each.series, each.case, each.frame_bytes, each.load) for each in rows):
        same = [each for each in rows if (each.series, each.case, each.frame_bytes, each.load) == key]

        def median(of: Callable[[Row], float | None], same: list[Row] = same) -> float | None:
            values = [value for each in same if (value := of(each)) is not None]
            return statistics.median(values) if values else None

        def shown(value: float | None, form: str) -> str:
            return "" if value is None else format(value, form)

        series, case, frame_bytes, load = key
        found.append(
            (
                series, case, str(frame_bytes), load,
                shown(median(lambda each: each.received_pps / 1e3), ",.1f"),
                shown(median(lambda each: each.gbps), ".3f"),
                shown(median(lambda each: each.rate_error), "+.4%"),
                *(
                    shown(median(lambda each, name=name: getattr(each, name)), ",.0f")  # type: ignore[misc]
                    for name in (
                        "late_p50_us", "late_p99_us", "late_max_us", "delay_p50_us", "delay_p99_us",
                        "ns_per_frame",
                    )
                ),
                str(sum(each.not_kept for each in same)),
            )
        )  # fmt: skip
    return found


HEADINGS: Final = (
    "series", "case", "frame B", "load", "kpps", "Gbit/s", "rate error", "late p50 µs", "late p99 µs",
    "late max µs", "delay p50 µs", "delay p99 µs", "CPU ns/frame", "not kept",
)  # fmt: skip
LEGEND: Final = (
    "Medians of trials that took turns; not kept: in all of them. Frame sizes with FCS, Gbit/s without. kpps "
    "and Gbit/s: at the far end. Late: after the requested time, as the emulator measures it; "
    "delay: from end to end, as sender and receiver measure it, to 0.8 %. Rate error: of the emulated rate "
    "while frames waited. CPU ns/frame: of the emulator's thread, with the kernel's work for the receiver "
    "that runs in it; spinning is included."
)


def main() -> int:
    parser = options("link", __doc__)
    parser.add_argument("--repeats", type=int, default=5, help="rounds (default 5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a trial (default 2)")
    asked = parser.parse_args()
    if asked.repeats < 1 or asked.seconds <= 0:
        parser.error("--repeats must be 1 or more, and --seconds above 0")
    console = Console()
    rows: list[Row] = []
    try:
        clean.clean()
        netem = has_netem()
        about = {
            **called("link"),
            "versions": versions(),
            "netem": "in this run" if netem else "not in this kernel, so not in this run",
        }
        rows += trials(asked.repeats, asked.seconds, netem=netem, console=console)
    except WeirError as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_code
    facts = {**about["versions"], "netem": about["netem"]}
    shown = Summary("The link emulator side by side", about, facts, {HEADINGS: medians(rows)}, LEGEND)
    shown.publish(asked.out, {"trials": [asdict(each) for each in rows]}, console)
    return 0


if __name__ == "__main__":
    sys.exit(main())
