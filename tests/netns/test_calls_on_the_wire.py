"""What tcpdump sees of calls on their way through a device, and what tshark makes of it."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from weirlab.lab import dut
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.netns import NetnsLab
from weirlab.records import RuleSetup
from weirlab.traffic.calls.schedule import traffic_of
from weirlab.traffic.calls.spec import parse_calls

from ..unit.lab.captures import complaints, fields, needs_tshark, streams

pytestmark = [
    pytest.mark.netns,
    needs_tshark,
    pytest.mark.skipif(
        shutil.which("tcpdump") is None,
        reason="needs tcpdump (Debian package tcpdump; scripts/bootstrap installs it)",
    ),
]
pytest.importorskip("weirlab._engine", reason="the engine is not built")


@contextmanager
def tcpdump(netns: str, interface: str, path: Path) -> Iterator[None]:
    """Everything that passes ``interface`` while the block runs."""
    command = [
        "tcpdump", "-n", "-i", interface, "-w", str(path), "-U", "-B", "16384",
        "--immediate-mode", "--time-stamp-precision", "nano", "udp",
    ]  # fmt: skip
    process = Namespace(netns).call(lambda: subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
    assert process.stderr is not None
    try:
        told = process.stderr.readline()
        while "listening on" not in told:
            assert told, f"tcpdump ended with {process.wait()}"
            told = process.stderr.readline()
        yield
        # It is woken late at times, and leaves what it has not read yet when it is told to end.
        found = None
        while found is None or found[1] != found[2]:
            process.send_signal(signal.SIGUSR1)
            told = process.stderr.readline()
            assert told, f"tcpdump ended with {process.wait()}"
            found = re.search(r"(\d+) packets? captured, (\d+) packets? received by filter", told)
    finally:
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        process.wait()
    assert "0 packets dropped by kernel" in rest


def test_calls_on_the_wire_decode_without_a_warning(tmp_path: Path) -> None:
    calls = parse_calls(8, "g711/rtp:50,gsm/iax2:25,g711/iax2-trunk*2:25")
    path = tmp_path / "in0.pcap"
    with NetnsLab(dut.make("forward")) as lab:
        lab.set_rules(RuleSetup(both_ways=True))
        assert lab.backend  # Loading the engine warms it up with packets that are none of ours.
        with tcpdump(lab.namespaces["dut"], "in0", path):
            result = lab.run(traffic_of(calls, duration_s=1.0, warmup_s=0.5))
    assert complaints(path) == ""
    found = Counter(row["_ws.col.Protocol"] for row in fields(path, "_ws.col.Protocol"))
    assert {"RTP", "IAX2", "SIP", "SIP/SDP"} <= set(found)
    rtp = streams(path)
    assert len(rtp) == 4 * 2
    # Of what was sent nothing is missing: tshark counts by RTP's own sequence numbers.
    assert all(stream.lost == 0 for stream in rtp)
    assert sum(found.values()) == result.sent + result.sent_warmup
