"""What tcpdump sees of calls on their way through a device, and what tshark makes of it."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import IO

import pytest

from weirlab.lab import dut
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.netns import NetnsLab
from weirlab.records import RuleSetup
from weirlab.traffic.calls.schedule import traffic_of
from weirlab.traffic.calls.spec import parse_calls

from ..unit.lab.captures import complaints, fields, needs_tshark, streams
from .conftest import tcpdump

pytestmark = [
    pytest.mark.netns,
    needs_tshark,
    pytest.mark.skipif(
        shutil.which("tcpdump") is None,
        reason="needs tcpdump (Debian package tcpdump; scripts/bootstrap installs it)",
    ),
]
pytest.importorskip("weirlab._engine", reason="the engine is not built")


def wait_until_read(process: subprocess.Popen[str], said: IO[str]) -> None:
    """Tcpdump is woken late at times, and leaves what it has not read yet when it is told to end."""
    found = None
    while found is None or found[1] != found[2]:
        process.send_signal(signal.SIGUSR1)
        told = said.readline()
        assert told, f"tcpdump ended with {process.wait()}"
        found = re.search(r"(\d+) packets? captured, (\d+) packets? received by filter", told)


def test_calls_on_the_wire_decode_without_a_warning(tmp_path: Path) -> None:
    calls = parse_calls(8, "g711/rtp:50,gsm/iax2:25,g711/iax2-trunk*2:25")
    path = tmp_path / "in0.pcap"
    with NetnsLab(dut.make("forward")) as lab:
        lab.set_rules(RuleSetup(both_ways=True))
        assert lab.backend  # Loading the engine warms it up with packets that are none of ours.
        device = Namespace(lab.namespaces["dut"])
        with tcpdump(device, "in0", path, "-B", "16384", "udp") as (process, said):
            result = lab.run(traffic_of(calls, duration_s=1.0, warmup_s=0.5))
            wait_until_read(process, said)
    assert complaints(path) == ""
    found = Counter(row["_ws.col.Protocol"] for row in fields(path, "_ws.col.Protocol"))
    assert {"RTP", "IAX2", "SIP", "SIP/SDP"} <= set(found)
    rtp = streams(path)
    assert len(rtp) == 4 * 2
    # Of what was sent nothing is missing: tshark counts by RTP's own sequence numbers.
    assert all(stream.lost == 0 for stream in rtp)
    assert sum(found.values()) == result.sent + result.sent_warmup
