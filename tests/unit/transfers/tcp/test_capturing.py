"""How captures of a transfer are asked for, and what is known of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import InputError, LabError
from weirlab.link import bindings
from weirlab.transfers.tcp.measure import capturing
from weirlab.transfers.tcp.measure.capturing import CapturePoints


@pytest.mark.parametrize(
    ("text", "reverse", "wanted"),
    [
        ("auto", False, CapturePoints("auto", "auto")),
        ("none", True, CapturePoints("none", "none")),
        ("sender", False, CapturePoints("must", "none")),
        ("sender", True, CapturePoints("none", "must")),
        ("sender, receiver", False, CapturePoints("must", "must")),
        ("receiver,eth0", False, CapturePoints("eth0", "must")),
        ("eth0", True, CapturePoints("eth0", "none")),
        ("auto, between:br0", False, CapturePoints("auto", "auto", "br0")),
        ("between:br0", False, CapturePoints("none", "none", "br0")),
        ("sender,between:br0,receiver", True, CapturePoints("must", "must", "br0")),
        ("eth0,between: eth1", False, CapturePoints("eth0", "none", "eth1")),
    ],
)
def test_captures_are_asked_for_by_end(text: str, reverse: bool, wanted: CapturePoints) -> None:
    assert capturing.ends(text, reverse=reverse) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "",
        "auto,receiver",
        "none,eth0",
        "sender,eth0",
        "receiver,receiver",
        "none,between:br0",
        "between:",
        "between:br0,between:br1",
    ],
)
def test_captures_that_contradict_themselves_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--capture"):
        capturing.ends(text, reverse=False)


class Recorder:
    """One that could not write 5 packets."""

    def __init__(self, failure: str = "") -> None:
        self.failure = failure
        self.named: list[Any] = []

    def start(self) -> None:
        """It has nothing to do."""

    def name_connections(self, connections: list[Any]) -> None:
        self.named += connections

    def stop(self) -> dict[str, Any]:
        return {"interfaces": [{"written": 9, "lost": 1, "not_written": 5}], "failure": self.failure}


@pytest.mark.parametrize(
    ("failure", "lost", "left_out"), [("", 1, 5), ("cannot write capture.pcapng: No space left", 6, 0)]
)
def test_what_a_full_disk_does_not_take_is_not_beyond_the_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failure: str, lost: int, left_out: int
) -> None:
    monkeypatch.setattr(bindings, "open_recorder", lambda *_, **__: Recorder(failure))
    with capturing.capturing("192.0.2.1", 80, tmp_path, "lo", most_bytes=1000) as recording:
        pass
    found = recording.capture
    assert (found.packets, found.lost_packets, found.left_out_packets) == (9, lost, left_out)


def test_a_name_that_cannot_be_one_leads_nowhere(tmp_path: Path) -> None:
    with capturing.capturing("a..b", 80, tmp_path, "auto") as recording:
        pass
    assert "towards a..b cannot be determined" in recording.capture.why_not
    with (
        pytest.raises(LabError, match=r"towards a\.\.b cannot be determined"),
        capturing.capturing("a..b", 80, tmp_path, "must"),
    ):
        pass


def test_a_recorder_is_limited_to_the_connections_of_the_transfer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recorder, settings = Recorder(), list[Any]()
    monkeypatch.setattr(bindings, "open_recorder", lambda *args, **_: settings.append(args[0]) or recorder)
    ends = {"local": ("192.0.2.7", 40000), "remote": ("192.0.2.1", 80), "up": True}
    with capturing.capturing("192.0.2.1", 80, tmp_path, "lo") as recording:
        recording.name_connections({"event": "started", "connections": [ends]})
    assert (settings[0].tcp_port, settings[0].filter) == (80, "")
    assert recorder.named == [(("192.0.2.7", 40000), ("192.0.2.1", 80))]


def test_what_the_server_says_of_its_capture_is_kept() -> None:
    file = Path("server.pcapng")
    told = {"why_not": None, "interface": "eth0", "packets": 9, "lost": 1, "left_out": 0, "ended_early": True}
    found = capturing.fetched({**told, "bytes": 900, "since_1970_ns": 1}, file, "auto")
    assert (found.path, found.interface, found.packets, found.whole) == (file, "eth0", 9, False)
    assert capturing.fetched({"why_not": "not here"}, file, "auto").why_not == "not here"
    assert capturing.fetched(None, None, "none").why_not == "it was not requested"
