"""Which cause `weir web --tests` names first, for eight that were planted.

    .venv/bin/python bench/ndt7.py --out bench/runs/ndt7-20261129-1
    .venv/bin/python bench/ndt7.py --control bbr
    .venv/bin/python bench/ndt7.py --loopback

Client and service are in two namespaces, joined by an emulated link (`weir link`) of 20 Mbit/s and 40 ms. In
each case one thing is wrong. The answer is what the service keeps of the test and its page shows, from its
kernel and a capture at its end. `--loopback` compares the throughput on loopback with that of
`weir tcp serve`, in turns, without a capture. Needs root.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from machine import versions
from weirlab._engine import TcpServer
from weirlab.diagnosis import causes
from weirlab.diagnosis.causes import Cause
from weirlab.emulation.reading import read_path
from weirlab.lab.linux.namespace import Namespace
from weirlab.link.stopping import Stop
from weirlab.links.emulator import running
from weirlab.links.emulator.running import emulated_link
from weirlab.transfers.tcp import ends
from weirlab.transfers.tcp.settings import TransferSettings
from weirlab.transfers.tcp.study.running import SilentObserver

PORT = 29381
TOKEN = "0123456789abcdef"
RATE, DELAY, QUEUE = "20Mbit/s", "20ms", "100pkts"
CONTROLS = ("reno", "bbr")
"""Congestion controls. To BBR, loss means little: what limits it is the rate that it finds."""
LOOPS, LOOP_S = 5, 3.0

CLIENT = """
import json, sys, time
from weirlab.link.stopping import Stop
from weirlab.transfers.tcp import ends
from weirlab.transfers.tcp.ndt7 import transfer
from weirlab.transfers.tcp.settings import TransferSettings
from weirlab.transfers.tcp.study.running import SilentObserver
how = json.loads(sys.argv[1])
load, again_s = transfer.Ndt7Transfer._load, 0.0
def seldom(self, block, size):
    global again_s
    if time.monotonic() >= again_s:
        again_s = time.monotonic() + how["pause_s"]
        load(self, block, transfer.LEAST_BYTES)
if how["pause_s"]:
    transfer.Ndt7Transfer._load = seldom
with Stop() as stop:
    asked = TransferSettings(how["host"], how["port"], up=how["up"], down=1 - how["up"], lasts_s=10.0,
                                     interval_s=0.01, rate_bps=how["read_bps"], ndt7="ws")
    print(ends.send(asked, SilentObserver(), stop).problem() or "")
"""


@dataclass(frozen=True)
class PlantedFault:
    """One thing that is wrong, and the causes that are right; ``path`` is the way of the data."""

    name: str
    right: Sequence[Cause]
    path: Mapping[str, str]
    server: str = ""
    """A sysctl of the service's host."""
    client: str = ""
    rule: str = ""
    """What the client's host does to arriving data."""
    up: int = 0
    read_bps: float | None = None
    pause_s: float = 0.0
    right_of_bbr: Sequence[Cause] = ()
    """Where these are not ``right``."""

    def named_by(self, control: str) -> Sequence[Cause]:
        """The causes that are right under a congestion control."""
        return self.right_of_bbr or self.right if control == "bbr" else self.right


FAULTS = (
    PlantedFault("send buffer of the server", [causes.SEND_BUFFER], {}, server="tcp_wmem=4096 16384 24576"),
    PlantedFault("slow reader", [causes.APPLICATION_READ], {}, read_bps=4e6),
    PlantedFault("loss", [causes.LOSS], {"loss": "1%", "seed": "7"}, right_of_bbr=[causes.BOTTLENECK]),
    PlantedFault(
        "shallow queue", [causes.LOSS], {"queue": "5pkts"}, right_of_bbr=[causes.BOTTLENECK, causes.LOSS]
    ),
    PlantedFault("deep queue", [causes.BOTTLENECK], {"queue": "400pkts"}),
    PlantedFault(
        "policer",
        [causes.LOSS, causes.RECEIVER_DROPS, causes.TIMEOUT],
        {},
        rule=f"tcp sport {PORT} limit rate over 800 kbytes/second burst 20 kbytes drop",
        right_of_bbr=[causes.BOTTLENECK, causes.LOSS, causes.RECEIVER_DROPS, causes.TIMEOUT],
    ),
    PlantedFault("small receive window", [causes.RECEIVE_WINDOW], {}, client="tcp_rmem=4096 32768 32768"),
    PlantedFault("slow application", [causes.APPLICATION_WRITE], {}, up=1, pause_s=0.03),
)


@contextmanager
def web(store: Path, address: str, inside: Namespace | None = None) -> Iterator[None]:
    """``weir web --tests`` at ``address``."""
    command = [sys.executable, "-m", "weirlab", "--store", str(store), "web", "--json", "--tests"]
    # With a limit, even one that is never reached, the service also records the connection.
    rate = "0" if inside is None else "1Gbit/s"
    command += [
        "--bind",
        f"{address}:{PORT}",
        "--token",
        TOKEN,
        "--tests-rate",
        rate,
        "--tests-bytes",
        "10TB",
    ]

    def begin() -> subprocess.Popen[str]:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    process = begin() if inside is None else inside.call(begin)
    try:
        assert process.stdout is not None
        assert "listening" in process.stdout.readline()
        yield
    finally:
        process.terminate()
        process.communicate()


def kept(store: Path) -> dict[str, Any]:
    """The result of the only test in ``store``, once there is one."""
    while True:
        for path in (store / "web").glob("*/measurement.json"):
            state = json.loads(path.read_text())
            if state["stage"] in ("ready", "failed"):
                return {**json.loads((path.parent / "result.json").read_text()), "message": state["message"]}
        time.sleep(0.1)


def diagnosed(fault: PlantedFault, control: str) -> dict[str, Any]:
    """What the service says of a test with this fault."""
    with ExitStack() as stack:
        store = Path(stack.enter_context(TemporaryDirectory()))
        store.chmod(0o755)
        made = stack.enter_context(running.connected())
        data = read_path({"delay": DELAY, "rate": RATE, "queue": QUEUE, **fault.path})
        back = read_path({"delay": DELAY})
        up, down = (data, back) if fault.up else (back, data)
        stack.enter_context(emulated_link(*made.ends(), up, down))
        rules = f"table inet f {{ chain i {{ type filter hook input priority 0; {fault.rule}; }}; }}"
        for where in (made.server, made.client):
            where.call(
                partial(
                    subprocess.run,
                    ["sysctl", "-qw", f"net.ipv4.tcp_congestion_control={control}"],
                    check=True,
                )
            )
        for where, command in (
            (made.server, ["sysctl", "-qw", f"net.ipv4.{fault.server}"] if fault.server else []),
            (made.client, ["sysctl", "-qw", f"net.ipv4.{fault.client}"] if fault.client else []),
            (made.client, ["nft", rules] if fault.rule else []),
        ):
            if command:
                where.call(partial(subprocess.run, command, check=True))
        address = running.server_port().address
        stack.enter_context(web(store / "store", address, made.server))
        how = {
            "host": address,
            "port": PORT,
            "up": fault.up,
            "read_bps": fault.read_bps,
            "pause_s": fault.pause_s,
        }
        client = [sys.executable, "-c", CLIENT, json.dumps(how)]
        done = made.client.call(lambda: subprocess.run(client, capture_output=True, text=True, timeout=60))
        if done.returncode:
            raise SystemExit(f"{fault.name}: the client failed: {done.stderr[-500:]}")
        result = kept(store / "store")
    (direction,) = result["result"]["directions"]
    why = result.get("why") or [{"sentence": "", "tables": [{"rows": [[""]]}]}]
    named = next((row[0] for row in why[0]["tables"][0]["rows"]), "")
    return {
        "planted": fault.name,
        "right": named in [cause.held for cause in fault.named_by(control)],
        "open": named in ("", causes.UNKNOWN.held),
        "named": named,
        "sentence": why[0]["sentence"],
        "throughput_bps": direction["throughput_bps"],
        "problem": result["message"] or done.stderr[-500:],
    }


def loopback() -> dict[str, Any]:
    """Throughput on loopback by ndt7 and by plain TCP, in turns; bit/s."""
    rates: dict[str, list[float]] = {}
    with ExitStack() as stack:
        store = Path(stack.enter_context(TemporaryDirectory()))
        store.chmod(0o755)
        stack.enter_context(web(store / "store", "127.0.0.1"))
        plain = TcpServer(
            address="127.0.0.1", port=0, token="", most_ns=None, most_bytes=None, most_clients=1, options=[]
        )
        stack.callback(plain.stop)
        for _ in range(LOOPS):
            for up in (0, 1):
                for kind, port in (("ndt7", PORT), ("plain", plain.address[1])):
                    asked = TransferSettings(
                        "127.0.0.1",
                        port,
                        up=up,
                        down=1 - up,
                        lasts_s=LOOP_S,
                        interval_s=0.01,
                        ndt7="ws" if kind == "ndt7" else "",
                    )
                    with Stop() as stop:
                        (found,) = ends.send(asked, SilentObserver(), stop).directions
                    rates.setdefault(f"{kind} {'up' if up else 'down'}", []).append(found.throughput_bps)
    ratios = {way: median(rates[f"ndt7 {way}"]) / median(rates[f"plain {way}"]) for way in ("down", "up")}
    return {"rates_bps": rates, "ratios_of_medians": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loopback", action="store_true")
    parser.add_argument("--control", choices=CONTROLS, default=CONTROLS[0])
    parser.add_argument("--only")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    console = Console()
    found: dict[str, Any] = {"versions": versions()}
    if given.loopback:
        found |= loopback()
        console.print(found["ratios_of_medians"])
    else:
        rows = [diagnosed(fault, given.control) for fault in FAULTS if given.only in (None, fault.name)]
        found["faults"] = rows
        table = Table("planted", "named first", "right", "Mbit/s")
        for row in rows:
            said = "yes" if row["right"] else "open" if row["open"] else "WRONG"
            table.add_row(row["planted"], row["named"], said, f"{row['throughput_bps'] / 1e6:.2f}")
        console.print(table)
        wrong = sum(not row["right"] and not row["open"] for row in rows)
        console.print(f"{sum(row['right'] for row in rows)} of {len(rows)} named first, {wrong} wrong.")
    if given.out is not None:
        given.out.mkdir(parents=True, exist_ok=True)
        name = "loopback.json" if given.loopback else f"{given.control}.json"
        (given.out / name).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
