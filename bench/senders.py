"""The compared senders: how each is started, and what its packets carry."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cable import SENDING_S, WARMUP_S, Window, measure
from weirlab.base.errors import WeirError
from weirlab.lab import wiring
from weirlab.lab.namespaces import PlainPair
from weirlab.traffic.spec import Rate, Traffic

PACED_PPS = 100_000
WEIR_PPS = (None, 1_000, 10_000, PACED_PPS, 300_000, 1_000_000, 1_800_000)

LAST_LINES = 3
"""Number of output lines shown of a failed tool: the last one is often only about its cleanup."""

_SOURCE = wiring.TX0.ipv4.partition("/")[0]
_DESTINATION = wiring.RX0.ipv4.partition("/")[0]
_PAYLOAD_BYTES = 18
"""Payload of a frame of 64 bytes, without Ethernet, IPv4, UDP and FCS."""
_MGEN_PAYLOAD_BYTES = 28
"""The shortest payload that mgen sends."""
_XDP_FRAME_BYTES = 68
"""xdp-trafficgen sends only one kind of frame: 64 bytes with IPv6 and UDP, without FCS."""
_XDP_PAYLOAD_BYTES = 2
_PAYLOADS = (_PAYLOAD_BYTES, _MGEN_PAYLOAD_BYTES, _XDP_PAYLOAD_BYTES)


@dataclass(frozen=True)
class Case:
    """One sender in one setting.

    ``nominal_pps`` None means as fast as it can. ``carries`` is what differs from packet to
    packet. ``command`` is empty for Weir, which sends from this process.
    """

    sender: str
    nominal_pps: int | None
    frame_bytes: int
    carries: str
    command: tuple[str, ...] = ()
    server: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, int | None]:
        return self.sender, self.nominal_pps


@dataclass(frozen=True)
class Sample:
    """One measurement of a case, or the reason why it failed.

    ``window`` is None if the sender failed, and ``failure`` then says why. ``engine`` is what Weir reports
    about itself; empty for the others.
    """

    sender: str
    nominal_pps: int | None
    repeat: int
    window: Window | None
    engine: dict[str, Any]
    failure: str = ""

    @property
    def key(self) -> tuple[str, int | None]:
        return self.sender, self.nominal_pps


def cases(bed: PlainPair, scratch: Path) -> list[Case]:
    """Every sender in every setting, with the tools' commands as typed in a shell."""
    tx, rx = (("ip", "netns", "exec", bed.namespaces[part]) for part in ("tx", "rx"))
    pin = (*tx, "taskset", "--cpu-list", str(bed.facts["sender_cpu"]))
    return [
        *_trafgen(pin, scratch),
        *_xdp_trafficgen(pin),
        *(_mgen(pin, nominal) for nominal in (None, PACED_PPS)),
        *(_iperf3(pin, rx, nominal) for nominal in (None, PACED_PPS)),
        *(Case("weir", nominal, 64, "flow, number, time") for nominal in WEIR_PPS),
    ]


def drop_early(bed: PlainPair) -> None:
    """Make the receiving end drop the tools' data before its IP layer; iperf3's handshakes pass."""
    lengths = f"{{ {', '.join(str(8 + payload) for payload in _PAYLOADS)} }}"
    hook = f'type filter hook ingress device "{wiring.RX0.name}" priority -500;'
    script = "\n".join(
        [
            "add table netdev bench",
            f"add chain netdev bench early {{ {hook} }}",
            f"add rule netdev bench early udp length {lengths} drop\n",
        ]
    )
    nft = ["ip", "netns", "exec", bed.namespaces["rx"], "nft", "--file", "-"]
    subprocess.run(nft, input=script, text=True, check=True)


def sample(bed: PlainPair, case: Case, repeat: int) -> Sample:
    """Measure ``case`` once on the cable ``bed``; a failure is recorded and does not stop the others."""
    engine: dict[str, Any] = {}
    try:
        if not case.command:
            window = _measure_weir(bed, case, engine)
        else:
            with _running(case.server):
                window = measure(bed, lambda: _send(case))
    except WeirError as error:
        return Sample(*case.key, repeat, None, engine, str(error))
    return Sample(*case.key, repeat, window, engine)


def _trafgen(pin: tuple[str, ...], scratch: Path) -> Iterator[Case]:
    payloads = {
        "trafgen": (f"fill(0, {_PAYLOAD_BYTES})", "nothing"),
        "trafgen, counting": (f"fill(0, {_PAYLOAD_BYTES - 1}), dinc(0, 255)", "one byte"),
    }
    for sender, (payload, carries) in payloads.items():
        file = scratch / f"{sender.replace(', ', '-')}.cfg"
        file.write_text(
            f"{{ eth(da={wiring.RX0.mac}, sa={wiring.TX0.mac}, type=0x800)\n"
            f"  ipv4(ttl=64, sa={_SOURCE}, da={_DESTINATION})\n"
            f"  udp(sp=5000, dp=5000)\n"
            f"  {payload} }}\n"
        )
        command = (
            *pin,
            "trafgen",
            "--dev",
            wiring.TX0.name,
            "--conf",
            str(file),
            "--cpus",
            "1",
            "--notouch-irq",
        )
        yield Case(sender, None, 64, carries, command)
        if sender == "trafgen":
            yield Case(sender, PACED_PPS, 64, carries, (*command, "--rate", f"{PACED_PPS}pps"))


def _xdp_trafficgen(pin: tuple[str, ...]) -> Iterator[Case]:
    """Cases of xdp-trafficgen, which supports only IPv6, has no rate, and always uses the first CPU."""
    macs = ("--dst-mac", wiring.RX0.mac, "--src-mac", wiring.TX0.mac)
    command = (*pin, "xdp-trafficgen", "udp", *macs, "--dst-port", "5000", "--threads", "1")
    yield Case("xdp-trafficgen", None, _XDP_FRAME_BYTES, "nothing", (*command, wiring.TX0.name))
    ports = (*command, "--dyn-ports", "256", wiring.TX0.name)
    yield Case("xdp-trafficgen, ports", None, _XDP_FRAME_BYTES, "port", ports)


def _mgen(pin: tuple[str, ...], nominal_pps: int | None) -> Case:
    pattern = f"PERIODIC [{-1 if nominal_pps is None else nominal_pps} {_MGEN_PAYLOAD_BYTES}]"
    event = f"ON 1 UDP SRC 5000 DST {_DESTINATION}/5000 {pattern}"
    frame_bytes = 64 - _PAYLOAD_BYTES + _MGEN_PAYLOAD_BYTES
    return Case("mgen", nominal_pps, frame_bytes, "number, time", (*pin, "mgen", "event", event, "nolog"))


def _iperf3(pin: tuple[str, ...], rx: tuple[str, ...], nominal_pps: int | None) -> Case:
    """A case of iperf3, whose bitrate is that of the payload."""
    bits = str((nominal_pps or 0) * _PAYLOAD_BYTES * 8)
    settings = ("--length", str(_PAYLOAD_BYTES), "--bitrate", bits, "--time", str(round(SENDING_S + 2)))
    client = (*pin, "iperf3", "--client", _DESTINATION, "--udp", *settings)
    server = (*rx, "iperf3", "--server", "--one-off", "--forceflush")
    return Case("iperf3 -u", nominal_pps, 64, "number, time", client, server)


def _measure_weir(bed: PlainPair, case: Case, engine: dict[str, Any]) -> Window:
    """Measure while Weir sends; its own report goes into ``engine``."""
    rate = Rate(0, "max") if case.nominal_pps is None else Rate(case.nominal_pps)
    traffic = Traffic(rate=rate, warmup_s=WARMUP_S, duration_s=SENDING_S - WARMUP_S)
    engine["backend"] = bed.backend  # asking loads the programs before the window begins

    def send() -> None:
        result = bed.run(traffic)
        told = {name: value for name, value in asdict(result).items() if isinstance(value, int | float)}
        engine.update(told, achieved_pps=result.achieved_pps, forwarding_pps=result.forwarding_pps)

    return measure(bed, send)


def _send(case: Case) -> None:
    """Run the case's command for long enough, then kill it.

    This needs SIGKILL, because mgen at full speed ignores everything else, and for its whole process group,
    because trafgen sends from a child.
    """
    try:
        tool = subprocess.Popen(
            case.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
    except OSError as error:
        raise WeirError(f"cannot be started: {error}") from error
    try:
        words, _ = tool.communicate(timeout=SENDING_S)
    except subprocess.TimeoutExpired:
        return
    finally:
        with suppress(ProcessLookupError):
            os.killpg(tool.pid, signal.SIGKILL)
        tool.wait()
    last = words.strip().splitlines()[-LAST_LINES:] or [f"exit code {tool.returncode}, no message"]
    told = " / ".join(line.strip() for line in last)
    raise WeirError(f"stopped too early: {told} (command: {' '.join(case.command)})")


@contextmanager
def _running(server: tuple[str, ...]) -> Iterator[None]:
    """Run ``server`` in the background, if there is one."""
    if not server:
        yield
        return
    process = subprocess.Popen(server, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        while "listening" not in (line := process.stdout.readline()):
            if not line:
                raise WeirError(f"{' '.join(server)} does not start")
        time.sleep(0.2)
        yield
    finally:
        process.kill()
        process.wait()
