"""A measured device between two interfaces: ``weir link --as`` does to real packets what the model says."""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weirlab
from weirlab.link.host import journal
from weirlab.model import QueueingModel, load
from weirlab.model.process import Fate, ReferenceDevice

from .emulator_hosts import ADDRESS, PORT, Hosts, X, Y, built, exchange, launcher, state

pytestmark = pytest.mark.netns

Start = Callable[..., subprocess.Popen[str]]

FRAME_BYTES = 200 + 42 + 4
SEED = 7
SO_TIMESTAMPNS, SO_RCVBUFFORCE = 35, 33
CALM, BUSY = 150, 300
"""Packets at 0.67 and at 1.33 times the threshold."""


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    with built() as made:
        yield made


@pytest.fixture
def weir(tmp_path: Path) -> Iterator[Start]:
    with launcher(tmp_path) as launch:
        yield launch


@pytest.fixture
def model(tmp_path: Path) -> tuple[Path, QueueingModel]:
    """Of a device that takes 4 ms for a packet, so that the lateness of a busy host is small beside it."""
    text = (Path(weirlab.__file__).parent / "simulators/omnetpp/weir/test/fingerprint.test").read_text()
    document = json.loads(text.partition("%file: small.model.json\n")[2].partition("\n%")[0])
    small = document["devices"][0]["models"]["queueing"]
    small["service"] = {"fixed_ns": 4e6}
    small["queue_packets"] = 20
    small["host"] = {"share": 0.01, "scale_ns": 2e6, "tail": 3}
    for name, delay in small["delays"].items():
        delay["base_ns"] = {"delay_p99_ns": 30e6, "delay_p999_ns": 45e6}.get(name, 20e6)
    small["profiled"] |= {"rate_min_pps": 10, "rate_max_pps": 1000}
    path = tmp_path / "slow.model.json"
    path.write_text(json.dumps(document))
    found = load(path)["queueing"]
    assert isinstance(found, QueueingModel)
    return path, found


def crossings(hosts: Hosts) -> tuple[list[int], dict[int, int]]:
    """When packets were sent, and when those arrived that did, by their numbers, in ns."""
    clocks_ns = time.time_ns() - time.monotonic_ns()
    arrived: dict[int, int] = {}

    sent = []
    with hosts.socket(Y) as into, hosts.socket(X) as out:
        into.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        # Packets are read when all are sent.
        into.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 23)
        due_ns = time.monotonic_ns()
        for number in range(CALM + BUSY):
            time.sleep(max(due_ns - time.monotonic_ns(), 0) / 1e9)
            sent.append(time.monotonic_ns())
            out.sendto(struct.pack("!I", number).ljust(200, b"."), (ADDRESS[Y], PORT))
            due_ns += 6_000_000 if number < CALM else 3_000_000
        into.settimeout(1.0)
        with suppress(TimeoutError):
            while True:
                data, beside, _, _ = into.recvmsg(2048, 256)
                seconds, rest_ns = struct.unpack("=qq", beside[0][2])
                (number,) = struct.unpack_from("!I", data)
                arrived[number] = seconds * 10**9 + rest_ns - clocks_ns
    return sent, arrived


@pytest.mark.alone
def test_real_packets_have_the_delays_and_losses_of_the_model(
    hosts: Hosts, weir: Start, model: tuple[Path, QueueingModel]
) -> None:
    path, queueing = model
    program = weir("--as", str(path), "--seed", str(SEED))
    sent, arrived = crossings(hosts)
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=60)
    assert program.returncode == 0, err
    # The seed of the direction from A to B.
    device = ReferenceDevice(queueing, 2 * SEED)
    passages = [device.arrive(at, FRAME_BYTES, 0.0) for at in sent]
    expected = {
        number: passage.leaves_ns - sent[number]
        for number, passage in enumerate(passages)
        if passage.fate is Fate.FORWARDED
    }
    counted: dict[str, Any] = json.loads(out)["up"]
    assert (counted["arrived"], counted["sent"]) == (len(sent), len(arrived))
    assert counted["dropped_full"] == len(sent) - len(arrived)
    # A quarter of the packets beyond the threshold, less those for which the queue has room.
    assert len(sent) - len(expected) == pytest.approx(BUSY / 4 - 20, abs=20)
    assert len(arrived) == pytest.approx(len(expected), abs=3)
    for first, last in ((0, CALM), (CALM + 100, CALM + BUSY)):
        real = [at - sent[number] for number, at in arrived.items() if first <= number < last]
        modelled = [delay for number, delay in expected.items() if first <= number < last]
        # A busy host makes some frames late. So bench/link_device.py compares means and p99.
        for share in (0.25, 0.5):
            assert np.quantile(real, share) == pytest.approx(np.quantile(modelled, share), rel=0.05)


def test_interfaces_of_a_killed_one_are_as_before_at_once(
    hosts: Hosts, weir: Start, model: tuple[Path, QueueingModel]
) -> None:
    before = state()
    program = weir("--as", str(model[0]))
    assert exchange(hosts, X, 3) == [1, 2, 3]
    assert state() != before
    program.kill()
    # Its keeper has the same standard error, which ends with it.
    _, err = program.communicate(timeout=60)
    assert "could not be restored" not in err
    assert state() == before
    assert journal.clean(pytest.fail) == []
