"""Tunnels between two gateways: what passes, what is on the cable between them, and nothing left of them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from weirlab.base.errors import InputError, LabError
from weirlab.lab import clean, dut, wiring
from weirlab.lab.dut.tunnels import tunnel
from weirlab.lab.dut.tunnels.tunnel import Tunnel
from weirlab.lab.linux import scheduling
from weirlab.lab.linux.namespace import Namespace, in_thread
from weirlab.lab.machines.machine import CRITICAL
from weirlab.lab.netns import NetnsLab
from weirlab.records import RuleSetup
from weirlab.traffic.encapsulation.packets import VoicePacket
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Rate, Traffic

from .conftest import RECEIVER, SENDER, STRANGER, PlainTraffic

pytestmark = pytest.mark.netns

WIREGUARD: Final = "wireguard-go"
NAMES: Final = [
    WIREGUARD, "wireguard-kernel", "esp:aes128gcm16", "esp:aes256-sha256", "esp-udp:aes128-sha1",
    "openvpn:aes-128-gcm", "openvpn:chacha20-poly1305", "openvpn:aes-128-cbc",
    "strongswan-libipsec:aes128gcm16", "strongswan-libipsec:aes128-sha1",
    "strongswan-libipsec:aes256-sha256", "strongswan-libipsec:null-md5", "strongswan-kernel:aes128gcm16",
    "strongswan-kernel:aes128-sha1",
]  # fmt: skip
UNENCRYPTED: Final = ("strongswan-libipsec:null-md5",)
TRAFFIC: Final = Traffic(Rate(500.0), Constant(128), warmup_s=0.02, duration_s=1.0)

RTP_BYTES: Final = 12
SIZES: Final = (0, 1, 2, 3, 14, 15, 160, 480)
"""Of speech behind the header of RTP."""
MARK: Final = b"in the clear"


def built(name: str) -> NetnsLab:
    driver = dut.make(name)
    if missing := driver.check():
        pytest.skip("; ".join(missing))
    return NetnsLab(driver)


@pytest.fixture(scope="module", params=NAMES)
def lab(request: pytest.FixtureRequest) -> Iterator[NetnsLab]:
    with built(request.param) as made:
        yield made


@pytest.fixture(scope="module")
def traffic(lab: NetnsLab) -> PlainTraffic:
    return PlainTraffic(lab)


def driver_of(lab: NetnsLab) -> Tunnel:
    assert isinstance(lab._driver, Tunnel)
    return lab._driver


def test_test_traffic_passes(lab: NetnsLab, traffic: PlainTraffic) -> None:
    lab.set_rules(RuleSetup())
    assert lab.run(TRAFFIC).received > 0
    for ip in (4, 6):
        for l4 in ("udp", "tcp"):
            assert traffic.arrives(ip=ip, l4=l4), (ip, l4)


def test_packets_between_the_gateways_are_encrypted_and_as_long_as_the_formula_says(
    lab: NetnsLab, traffic: PlainTraffic
) -> None:
    formula = driver_of(lab).encapsulation
    for size in SIZES:
        payload = (MARK + bytes(size))[: RTP_BYTES + size]
        frames = between_gateways(lab, payload)
        voice = VoicePacket(size, natt=driver_of(lab).natt)
        assert formula.packet_bytes(voice) in [ip_length(frame) for frame in frames]
        if lab.dut not in UNENCRYPTED:
            assert not any(payload[:RTP_BYTES] in frame for frame in frames)


def test_the_longest_packet_passes_in_one_piece(lab: NetnsLab, traffic: PlainTraffic) -> None:
    longest = driver_of(lab).longest_packet_bytes(4)
    frames = between_gateways(lab, bytes(longest - 20 - 8))
    lengths = [ip_length(frame) for frame in frames]
    assert (
        driver_of(lab).encapsulation.packet_bytes(VoicePacket(longest - 40, natt=driver_of(lab).natt))
        in lengths
    )
    assert max(lengths) <= wiring.BETWEEN_MTU_BYTES
    assert not any(is_fragment(frame) for frame in frames)


def test_longer_frames_are_refused(lab: NetnsLab) -> None:
    frame_bytes = driver_of(lab).longest_packet_bytes(4) + 18
    with pytest.raises(InputError, match=f"use frames of {frame_bytes:,} B at most"):
        lab.run(Traffic(Rate(500.0), Constant(frame_bytes + 1), warmup_s=0.02, duration_s=0.1))


def test_rules_of_the_near_gateway_see_packets_in_the_clear(lab: NetnsLab, traffic: PlainTraffic) -> None:
    for rules in (RuleSetup(25), RuleSetup(25, stateful=True)):
        lab.set_rules(rules)
        assert traffic.arrives()
        assert traffic.is_dropped(source=STRANGER)
    lab.set_rules(RuleSetup())
    assert traffic.arrives()
    assert lab.facts["dut_rules_layout"]


def test_it_says_what_it_is_made_of(lab: NetnsLab) -> None:
    facts = lab.facts
    assert facts["dut_tool"]
    assert facts.get("slice_ns", scheduling.SHORTEST_NS) == scheduling.SHORTEST_NS
    assert facts["dut_longest_packet_bytes"] == driver_of(lab).longest_packet_bytes(4)


def test_all_its_processes_work_on_the_devices_cpu(lab: NetnsLab) -> None:
    for machine in driver_of(lab)._machines:
        for process in machine.processes:
            threads = [int(name) for name in os.listdir(f"/proc/{process}/task")]
            assert [os.sched_getaffinity(thread) for thread in threads] == [{lab.site.cpu}] * len(threads)
            if slices_can_be_shortened():
                assert {scheduling.slice_ns(thread) for thread in threads} == {scheduling.SHORTEST_NS}
                assert {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads} == {CRITICAL}


def test_the_daemons_nice_value_counts_beside_the_kernels_threads(lab: NetnsLab) -> None:
    if not Path("/proc/self/autogroup").exists():
        pytest.skip("this kernel does not group by sessions")
    for machine in driver_of(lab)._machines:
        for process in machine.processes[1:]:
            assert Path(f"/proc/{process}/autogroup").read_text().endswith(f" nice {CRITICAL}\n")


def test_the_inside_of_the_near_gateway_can_be_watched(lab: NetnsLab) -> None:
    with lab.watch_inside():
        lab.run(TRAFFIC)
        seen = lab.seen_inside()
    assert seen is not None
    assert seen.due > 0


def test_a_daemon_that_dies_ends_the_trial_with_its_last_words(made: Any) -> None:
    with built(WIREGUARD) as lab:
        _, far = driver_of(lab)._machines
        far.signal("wireguard-go", signal.SIGKILL)
        with pytest.raises(LabError, match=r"wireguard-go on the far gateway ended by itself \(signal 9\)"):
            lab.run(TRAFFIC)
    assert made.left() == []


@pytest.mark.parametrize("kind", ["esp:aes128gcm16", WIREGUARD])
def test_a_gateway_that_dies_during_a_trial_returns_before_the_next(kind: str, made: Any) -> None:
    with built(f"{kind}:outage=20ms+20ms") as lab:
        traffic = PlainTraffic(lab)
        for trial in (1, 2):
            before = lab.counters()
            lab.run(TRAFFIC)
            after = lab.counters()
            assert after["near_outages"] == trial
            assert after["near_outage_us"] - before["near_outage_us"] >= 20_000
            assert {name: count for name, count in after.items() if count < before[name]} == {}
            assert traffic.arrives()
    assert made.left() == []


def test_a_tunnel_that_does_not_come_up_is_told_and_removed(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing := dut.make("openvpn").check():
        pytest.skip("; ".join(missing))
    monkeypatch.setattr(tunnel, "_sent", lambda *_: False)
    driver = dut.make("openvpn")
    assert isinstance(driver, Tunnel)
    until = driver._until
    monkeypatch.setattr(driver, "_until", lambda met, what: until(met, what, patience_s=patience(what)))
    with pytest.raises(LabError, match="did not come up; openvpn on the near gateway says: "):
        NetnsLab(driver)
    assert made.left() == []


def patience(what: str) -> float:
    return 0.0 if "come up" in what else 15.0


def test_a_suite_that_the_gateways_lack_is_told_in_their_words(made: Any) -> None:
    driver = dut.make("strongswan-libipsec")
    if missing := driver.check():
        pytest.skip("; ".join(missing))
    assert isinstance(driver, Tunnel)
    driver.suite = tunnel.TunnelSuite("serpent128-sha1", "esp-tunnel/aes-cbc-hmac-sha1-96")
    with pytest.raises(LabError, match=r"swanctl --initiate .* failed on the near gateway; it says: .*fail"):
        NetnsLab(driver)
    assert made.left() == []


def test_nothing_is_left_of_a_tunnel(made: Any) -> None:
    before = set(os.listdir("/run"))
    with built(WIREGUARD) as lab:
        processes = [process for machine in driver_of(lab)._machines for process in machine.processes]
        assert len(processes) >= 2 * 2
    assert made.left() == []
    assert not any(Path(f"/proc/{process}").exists() for process in processes)
    assert not {"wireguard", "wireguard.conf", "news"} & (set(os.listdir("/run")) - before)


OWNER: Final = textwrap.dedent("""
    import sys
    from weirlab.lab import dut
    from weirlab.lab.netns import NetnsLab

    with NetnsLab(dut.make("wireguard-go")) as lab:
        processes = [process for machine in lab._driver._machines for process in machine.processes]
        print(*processes, *lab.namespaces.values(), flush=True)
        sys.stdin.read()
""")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_whatever_ends_the_owner_ends_the_daemons(
    how: signal.Signals, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    if missing := dut.make(WIREGUARD).check():
        pytest.skip("; ".join(missing))
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    words = owner.stdout.readline().split()
    processes = [int(word) for word in words if word.isdecimal()]
    namespaces = [word for word in words if not word.isdecimal()]
    assert len(processes) >= 2 * 2
    assert len(namespaces) == 4
    owner.send_signal(how)
    owner.communicate()
    eventually(lambda: not any(Path(f"/proc/{process}").exists() for process in processes))
    clean.clean()
    assert not any(Namespace(name).path.exists() for name in namespaces)


def test_a_trial_from_the_command_line(tmp_path: Path) -> None:
    if missing := dut.make(WIREGUARD).check():
        pytest.skip("; ".join(missing))
    trial = ["trial", "--dut", WIREGUARD, "--rate", "500", "--frame", "128", "--duration", "0.1"]
    command = [sys.executable, "-m", "weirlab", "--store", str(tmp_path), *trial, "--attempts", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    document = json.loads(done.stdout)
    assert document["dut"] == WIREGUARD
    assert document["received"] > 0
    assert document["dut_counters"]["near_tx_packets"] > 0


def slices_can_be_shortened() -> bool:
    """Linux 6.12, tried in a thread that ends with it."""

    def attempt() -> bool:
        scheduling.shorten(threading.get_native_id())
        return scheduling.slice_ns(threading.get_native_id()) == scheduling.SHORTEST_NS

    return in_thread(attempt)


def between_gateways(lab: NetnsLab, payload: bytes) -> list[bytes]:
    """Frames from the near gateway to the far one while a datagram is on its way, which arrives."""
    with capture(lab) as frames, ends(lab) as (sender, receiver):
        for _ in range(60):
            sender.sendto(payload, (RECEIVER[4], receiver.getsockname()[1]))
            try:
                assert receiver.recv(4096) == payload
            except TimeoutError:
                continue
            return frames()
    raise AssertionError("it does not arrive")


@contextmanager
def ends(lab: NetnsLab) -> Iterator[tuple[socket.socket, socket.socket]]:
    def udp() -> socket.socket:
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    with (
        Namespace(lab.namespaces["tx"]).call(udp) as sender,
        Namespace(lab.namespaces["rx"]).call(udp) as receiver,
    ):
        sender.bind((SENDER[4], 0))
        receiver.bind((RECEIVER[4], 0))
        receiver.settimeout(1.0)
        yield sender, receiver


@contextmanager
def capture(lab: NetnsLab) -> Iterator[Callable[[], list[bytes]]]:
    """What the far gateway takes in from the near one meanwhile."""
    kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK
    every = socket.htons(3)
    with Namespace(lab.namespaces["far"]).call(lambda: socket.socket(socket.AF_PACKET, kind, every)) as tap:
        tap.bind((wiring.FAR.name, 0))

        def frames() -> list[bytes]:
            found = []
            while True:
                try:
                    frame, (_, _, direction, *_) = tap.recvfrom(4096)
                except BlockingIOError:
                    return found
                # A gateway may have an address of its own, and the kernel takes it for another host's.
                if direction != socket.PACKET_OUTGOING and frame[12:14] == b"\x08\x00":
                    found.append(frame)

        frames()
        yield frames


def ip_length(frame: bytes) -> int:
    return int.from_bytes(frame[16:18], "big")


def is_fragment(frame: bytes) -> bool:
    return bool(int.from_bytes(frame[20:22], "big") & 0x3FFF)
