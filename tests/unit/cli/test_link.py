"""Options of ``weir tap`` and ``weir log``, and what is shown; no interface is touched."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import InputError
from weirlab.cli.link import screen
from weirlab.link import tap as link
from weirlab.link.account import FrameBalance, LinkSide, Mirror, RecorderCounts, verdict
from weirlab.link.session import InterfaceRates, LinkOutcome, Snapshot
from weirlab.link.settings import LogSettings, TapSettings

from ..conftest import Weir

ACCOUNT = FrameBalance(
    (LinkSide("eth1", 10, 10, copied=9, not_copied=1, bytes=1000), LinkSide("eth2", 5, 5, copied=5)),
    mirror=Mirror("eth3", sent=15),
    ring=True,
    recorded=(RecorderCounts("eth1", 9, written=9), RecorderCounts("eth2", 5, written=5)),
    recording=True,
)
SNAPSHOT = Snapshot(
    ACCOUNT,
    verdict(ACCOUNT),
    elapsed_s=12.0,
    left_s=48.0,
    rates={"eth1": InterfaceRates(1200.0, 1.5e6)},
    file="link.pcapng",
    file_bytes=1_240_000,
)
GAP = {"from_ns": 1_500_000_000, "to_ns": 2_000_000_000, "interface": "eth1", "stage": "ring", "frames": 1}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the commands would have done."""
    seen: list[Any] = []

    def run(wanted: Any, watcher: Any, stop: Any, *, manifest: Path | None, command: str) -> LinkOutcome:
        seen.extend([wanted, manifest, command])
        watcher.note("eth1: put up")
        return LinkOutcome({"kind": "tap", "gaps": [GAP], "files": [], "conclusion": "x"}, SNAPSHOT)

    monkeypatch.setattr(link, "run_tap", run)
    monkeypatch.setattr(link, "run_log", run)
    return seen


def test_options_of_a_tap_reach_it(weir: Weir, asked: list[Any], tmp_path: Path) -> None:
    file = tmp_path / "link.pcapng"
    answer = weir(
        *("tap", "--between", "eth1", "eth2", "--mirror", "eth3", "--logger-mac", "02:00:00:00:00:09"),
        *("--write", file, "--netns", "lab", "--duration", "5min", "--filter", "udp port 53", "--snap", "96"),
        *("--rotate-size", "1M", "--rotate-time", "1h", "--keep", "3", "--zstd", "--ring", "8M"),
        *("--fallback", "never"),
    )
    assert answer.code == 0, answer.err
    wanted, manifest, command = asked
    assert isinstance(wanted, TapSettings)
    assert (wanted.interfaces, wanted.netns, wanted.fallback) == (("eth1", "eth2", "eth3"), "lab", "never")
    assert (wanted.logger_mac, wanted.duration_s) == (bytes.fromhex("020000000009"), 300.0)
    recording = wanted.recording
    assert recording is not None
    assert (recording.path, recording.zstd) == (tmp_path / "link.pcapng.zst", True)
    assert (recording.filter, recording.snap_bytes, recording.keep_files) == ("udp port 53", 96, 3)
    assert (recording.rotate_bytes, recording.rotate_seconds) == (1 << 20, 3600.0)
    assert recording.ring_bytes == 8 << 20
    assert manifest == tmp_path / "link.pcapng.zst.json"
    assert command.startswith("weir tap --between eth1 eth2")


def test_options_of_a_logger_reach_it(weir: Weir, asked: list[Any], tmp_path: Path) -> None:
    account = tmp_path / "m.json"
    answer = weir(
        "log", "--interface", "eth0", "--write", tmp_path / "a.pcapng", "--manifest", account, "--json"
    )
    assert answer.code == 0, answer.err
    assert answer.json["conclusion"] == SNAPSHOT.sentence
    assert isinstance(asked[0], LogSettings)
    assert (asked[0].interface, asked[1]) == ("eth0", account)


def test_the_end_shows_every_stage_and_what_is_missing(weir: Weir, asked: list[Any], tmp_path: Path) -> None:
    shown = weir("tap", "--between", "eth1", "eth2", "--write", tmp_path / "a.pcapng").out
    for word in ("Not forwarded", "Ring lost", "Mirror", "Waiting", "Filtered", "Missing from the record"):
        assert word in shown
    assert shown.startswith(SNAPSHOT.sentence)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--write", "a.pcapng", "--mirror", "c"], "needs --logger-mac"),
        (["--write", "a.pcapng", "--mirror", "c", "--logger-mac", "1:2"], "is not a MAC address"),
        (["--write", "a.pcapng", "--keep", "2"], "--rotate-size"),
        (["--write", "a.pcapng", "--duration", "soon"], "--duration 'soon' is no time"),
        (["--write", "a.pcapng", "--rotate-size", "big"], "--rotate-size 'big' is no size"),
        (["--write", "a.pcapng", "--ring", "9" * 400], "is no size"),
        (["--write", "a.pcapng", "--manifest", "./a.pcapng"], "the same file"),
        (["--write", "/dev/null", "--force"], "that is a device"),
        (["--write", "gone/a.pcapng"], "there is no folder gone"),
        (["--filter", "udp", "--mirror", "c", "--logger-mac", "02:00:00:00:00:09"], "without --write FILE"),
        ([], "the copies would go nowhere"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_is_touched(
    weir: Weir,
    asked: list[Any],
    options: list[str],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = weir("tap", "--between", "a", "b", *options)
    assert answer.code == InputError.exit_code
    assert reason in answer.err
    assert asked == []


def test_a_file_that_exists_is_kept_unless_told_otherwise(
    weir: Weir, asked: list[Any], tmp_path: Path
) -> None:
    file = tmp_path / "a.pcapng"
    file.write_bytes(b"precious")
    answer = weir("log", "--interface", "eth0", "--write", file)
    assert answer.code == InputError.exit_code
    assert "--force" in answer.err
    assert file.read_bytes() == b"precious"
    # Not before the recorder begins: something else may still keep it from that.
    assert weir("log", "--interface", "eth0", "--write", file, "--force").code == 0
    assert file.read_bytes() == b"precious"


def test_a_mirror_has_a_ring_of_the_size_asked_for_also_without_a_record(
    weir: Weir, asked: list[Any]
) -> None:
    mirror = ("--mirror", "c", "--logger-mac", "02:00:00:00:00:09")
    assert weir("tap", "--between", "a", "b", *mirror, "--ring", "8MiB").code == 0
    assert (asked[0].recording, asked[0].ring_bytes) == (None, 8 << 20)


def test_a_logger_leaves_the_interface_as_it_is_unless_asked_otherwise(
    weir: Weir, asked: list[Any], tmp_path: Path
) -> None:
    for option in ((), ("--wire",)):
        assert weir("log", "--interface", "eth0", "--write", tmp_path / "a.pcapng", *option).code == 0
    assert [wanted.wire for wanted in asked[::3]] == [False, True]


def test_where_there_is_no_terminal_a_line_comes_every_ten_seconds_and_notes_at_once() -> None:
    out, now = io.StringIO(), [0.0]
    lines = screen.TapLines(out, lambda: now[0])
    for now[0] in (1.0, 9.0, 10.0, 11.0, 21.0):
        lines.show(SNAPSHOT)
    lines.note("the recorder was killed")
    said = out.getvalue().splitlines()
    assert len(said) == 3
    assert said[0] == f"weir: 12 s so far, 48 s left, eth1 1.20 kpps: {SNAPSHOT.sentence}"
    assert said[2] == "weir: the recorder was killed"


def test_a_terminal_that_is_gone_does_not_end_a_tap() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    for shown in (screen.TapLines(Gone(), lambda: 0.0), screen.TapScreen(Gone(), lambda: 0.0)):
        shown.show(SNAPSHOT)
        shown.note("the recorder was killed")


def test_the_screen_has_the_sentence_on_top_and_rates_file_and_time_left() -> None:
    from rich.console import Console

    console = Console(file=io.StringIO(), width=140)
    console.print(screen.drawn(SNAPSHOT, 140))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert text.splitlines()[0].startswith("The link is unharmed")
    for word in ("1.20 kpps", "1.50 Mbit/s", "link.pcapng (1.24 MB written)", "48 s left", "Not written"):
        assert word in text


def test_a_logger_has_no_table_of_a_link() -> None:
    alone = Snapshot(FrameBalance(recorded=ACCOUNT.recorded, recording=True), "", 1.0, None)
    assert screen.link(alone, live=False) is None
    assert screen.mirror(alone.account) is None
