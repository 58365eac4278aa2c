"""Endpoints in namespaces: both kinds deliver every packet, and nothing stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from weirlab.calls.ipsec.endpoints.bed import JoinedEndpoints, hogged, opened
from weirlab.calls.ipsec.endpoints.plan import ArmName, EndpointsSection, talk
from weirlab.calls.ipsec.endpoints.rows import figures
from weirlab.lab.linux.namespace import DIRECTORY, Namespace

from .conftest import Made

pytestmark = pytest.mark.netns

CALLS = 3
ETHERNET_BYTES = 14
SUITES = ("none", "aes-gcm-16", "aes-cbc-hmac-sha1-96", "chacha20-poly1305-iiv")
LINGER_S = 60.0
"""Endpoints end as soon as everything is heard, however long a thread stands still."""
ARMS: tuple[ArmName, ...] = ("bypass", "sockets", "sockets-real-time")


def sent_by(namespace: Namespace, interface: str) -> Mapping[str, int]:
    """Packets and bytes that left by an interface, as the kernel counts them."""

    def read() -> Mapping[str, int]:
        line = next(
            line
            for line in Path("/proc/thread-self/net/dev").read_text().splitlines()
            if f"{interface}:" in line
        )
        numbers = [int(word) for word in line.partition(":")[2].split()]
        return {"bytes": numbers[8], "packets": numbers[9]}

    return namespace.call(read)


@pytest.mark.parametrize("mode", ["transport", "tunnel"])
def test_every_packet_arrives_as_it_was_sent_and_as_long_as_the_formulas_say(made: Made, mode: str) -> None:
    with opened(LINGER_S) as bed:
        assert isinstance(bed, JoinedEndpoints)
        for suite in SUITES if mode == "transport" else SUITES[1:]:
            for arm in ARMS:
                asked = EndpointsSection(suite=suite, mode=mode, warmup_s=0.0)  # type: ignore[arg-type]
                spec = talk(asked, arm, "idle", CALLS, 0.2)
                if bed.polls is None and arm == "bypass":
                    # The first one is behind a call that shows whether sockets can poll.
                    bed.talk(spec)
                before = sent_by(bed.near, "e0")
                talked = bed.talk(spec)
                after = sent_by(bed.near, "e0")
                found = figures(talked.ways, 0)
                where = f"{suite} {mode} {arm}"
                assert (found.due, found.unsent, found.lost) == (2 * CALLS * 10, 0, 0), where
                assert talked.damaged == 0, where
                assert talked.ip_bytes == (spec.ip_bytes, spec.ip_bytes), where
                for way in talked.ways:
                    assert (way.due_ns <= way.sent_ns).all(), where
                    assert (way.sent_ns < way.heard_ns).all(), where
                # By the kernel's own count nothing else was on the wire.
                packets = after["packets"] - before["packets"]
                assert packets == CALLS * 10, where
                # A veth counts what an XDP program at the other end takes without the Ethernet header.
                head_bytes = 0 if arm == "bypass" else ETHERNET_BYTES
                octets = after["bytes"] - before["bytes"]
                assert octets == packets * (spec.ip_bytes + head_bytes), where
                assert talked.zero_copy is False, where
    assert made.left() == []


def test_a_hog_has_the_cpu_and_is_gone_afterwards() -> None:
    (cpu, *_) = sorted(os.sched_getaffinity(0))
    with hogged(cpu, 60.0) as hog:
        pid = hog.process.pid
        assert os.sched_getaffinity(pid) == {cpu}
        assert hog.cpu_s() >= 0.0
        assert hog.process.poll() is None
    assert not Path(f"/proc/{pid}").exists()


def test_calls_beside_a_hog_arrive_too(made: Made) -> None:
    with opened(LINGER_S) as bed:
        for arm in ARMS:
            spec = talk(EndpointsSection(warmup_s=0.0), arm, "hog", CALLS, 0.2)
            talked = bed.talk(spec)
            found = figures(talked.ways, 0)
            assert (found.due, found.unsent, found.lost) == (2 * CALLS * 10, 0, 0), arm
            assert talked.hog_share >= 0.0
    assert made.left() == []


def hogs_of(pid: int) -> list[int]:
    """Hogs that the process ``pid`` started."""
    found = []
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        try:
            parent = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1]
            command = Path(f"/proc/{entry}/cmdline").read_bytes()
        except OSError:
            continue
        if int(parent) == pid and b"hog.py" in command:
            found.append(int(entry))
    return found


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_whatever_ends_the_owner_ends_the_hogs_and_the_namespaces(
    how: signal.Signals, tmp_path: Path, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    known = set(DIRECTORY.glob("weir-*-near"))
    command = ["ipsec", "endpoints", "--arms", "bypass", "--beside", "hog", "--seconds", "600", "--no-search"]
    owner = subprocess.Popen(
        [sys.executable, "-m", "weirlab", "--store", str(tmp_path), *command, "--calls", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    eventually(lambda: len(hogs_of(owner.pid)) == 2 or owner.poll() is not None)
    assert owner.poll() is None, owner.communicate()
    hogs = hogs_of(owner.pid)
    # Its namespaces are its own: other labs may come and go meanwhile.
    [lock] = [
        path for path in Path("/run/weir").glob("*.lock") if path.read_text().startswith(f"{owner.pid}\n")
    ]
    mine = [path for path in DIRECTORY.glob(f"weir-{lock.stem}-*") if path not in known]
    assert len(mine) == 2
    owner.send_signal(how)
    _, said = owner.communicate()
    eventually(lambda: not any(Path(f"/proc/{hog}").exists() for hog in hogs))
    if how == signal.SIGINT:
        assert "interrupted" in said
    else:
        subprocess.run([sys.executable, "-m", "weirlab", "lab", "clean"], check=True, capture_output=True)
    assert not any(path.exists() for path in mine)
    assert not lock.exists()
