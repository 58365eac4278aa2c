"""The words of options and profiles."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.amounts import parse_time_ns
from weirlab.base.errors import InputError
from weirlab.base.files import HOST_FILES
from weirlab.emulation.reading import READERS, read_link, read_path, read_words, with_trace
from weirlab.emulation.spec import (
    Amount,
    CoDel,
    DropTail,
    FrameListPattern,
    GilbertElliott,
    Jitter,
    PathSpec,
    RandomPattern,
    Red,
    Reorder,
    RunPattern,
    read_amount,
    read_rate_bps,
    read_selection,
)


@pytest.mark.parametrize(
    ("text", "ns"),
    [("25ms", 25_000_000), ("300us", 300_000), ("1.5 s", 1_500_000_000), ("0ms", 0), ("3µs", 3_000)],
)
def test_times_carry_their_unit(text: str, ns: int) -> None:
    assert parse_time_ns(text, "--delay") == ns


@pytest.mark.parametrize(
    ("text", "bps"),
    [("100Mbps", 10**8), ("100Mbit/s", 10**8), ("64kbit", 64_000), ("1.5Gbps", 1_500_000_000)],
)
def test_rates_are_in_bits(text: str, bps: int) -> None:
    assert read_rate_bps(text, "--rate") == bps


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("50pkts", Amount(50, "packets")),
        ("1 packet", Amount(1, "packets")),
        ("64kB", Amount(64_000, "bytes")),
        ("64KiB", Amount(65_536, "bytes")),
        ("20ms", Amount(20_000_000, "ns")),
    ],
)
def test_queues_are_packets_bytes_or_time(text: str, amount: Amount) -> None:
    assert read_amount(text, "--queue") == amount


@pytest.mark.parametrize(
    ("text", "selection"),
    [
        ("1%", RandomPattern(0.01)),
        ("0.25", RandomPattern(0.25)),
        ("2%,burst=4.5", RunPattern(0.02, 4.5)),
        ("gemodel=1%,30%", GilbertElliott(0.01, 0.3)),
        ("gemodel=1%,30%,80%,0.1%", GilbertElliott(0.01, 0.3, 0.8, 0.001)),
        # As tc-netem: r is 1 - p where it is not given.
        ("gemodel=10%", GilbertElliott(0.1, 0.9)),
        ("frames=5, 17,/100", FrameListPattern("5,17,/100")),
    ],
)
def test_frames_are_selected_by_share_model_or_number(text: str, selection: object) -> None:
    assert read_selection(text, "--loss") == selection


def test_a_direction_in_all_its_words() -> None:
    words = {
        "delay": "20ms", "jitter": "5ms,normal,reorder", "rate": "10Mbps", "overhead": "24",
        "queue": "30pkts", "aqm": "red,min=5pkts,max=15pkts,p=20%,weight=0.01", "loss": "1%",
        "reorder": "frames=3,9,by=2ms", "duplicate": "frames=/1000", "seed": "7",
    }  # fmt: skip
    red = Red(Amount(5, "packets"), Amount(15, "packets"), 0.2, 0.01)
    assert read_path(words) == PathSpec(
        delay_ns=20_000_000,
        jitter=Jitter(5_000_000, "normal", keeps_order=False),
        rate_bps=10_000_000,
        overhead_bytes=24,
        queue=Amount(30, "packets"),
        discipline=red,
        loss=RandomPattern(0.01),
        reorder=Reorder(FrameListPattern("3,9"), 2_000_000),
        duplicate=FrameListPattern("/1000"),
        seed=7,
    )


@pytest.mark.parametrize(
    ("text", "discipline"),
    [
        ("codel", CoDel()),
        ("codel,target=15ms,interval=200ms", CoDel(15_000_000, 200_000_000)),
        ("none", DropTail()),
    ],
)
def test_queue_management_has_its_published_defaults(text: str, discipline: object) -> None:
    assert read_path({"rate": "1Mbps", "aqm": text}).discipline == discipline


REFUSED = [
    ({"delay": "25"}, "--delay '25' is no time"),
    ({"delay": "2h"}, "--delay '2h' is no time"),
    ({"delay": "4000s"}, "--delay: 4000s is too long"),
    ({"rate": "100MBps"}, "--rate '100MBps' is no bit rate"),
    ({"rate": "1bps"}, "--rate: 1 bit/s is out of range"),
    ({"rate": "1Mbps", "queue": "50"}, "--queue '50': give packets, bytes or time with the unit"),
    ({"rate": "1Mbps", "queue": "0pkts"}, "--queue: it has no room at all"),
    ({"queue": "50pkts"}, "--queue needs --rate or --trace"),
    ({"rate": "1Mbps", "trace": "x"}, "--rate and --trace exclude each other"),
    ({"rate": "1Mbps", "aqm": "fq"}, "--aqm 'fq' not understood"),
    ({"rate": "1Mbps", "aqm": "red,min=5pkts"}, "red needs both thresholds"),
    ({"rate": "1Mbps", "aqm": "red,min=9pkts,max=5pkts"}, "--aqm: the thresholds must be"),
    ({"rate": "1Mbps", "aqm": "codel,target=0ms"}, "--aqm: target and interval must be above 0"),
    ({"loss": "101%"}, "--loss: '101%' is no share"),
    ({"loss": "1%,2%"}, "--loss '1%,2%' not understood"),
    ({"loss": "frames=0"}, '--loss: "0" names no frames'),
    ({"loss": "80%,burst=2"}, "--loss: runs of 2 frames on average cannot be a share of 0.8"),
    ({"loss": "1%,run=2"}, "'run' is unknown here; known: burst=, gemodel=, frames="),
    ({"loss": "burst=1,burst=2"}, "'burst' is given twice"),
    ({"jitter": "5ms"}, "--jitter: 5ms around a delay of 0ns would need a delay below 0"),
    ({"delay": "9ms", "jitter": "5ms,wild"}, "--jitter '5ms,wild' not understood"),
    ({"reorder": "1%"}, "--reorder '1%' needs by=TIME"),
    ({"reorder": "1%,by=0ms"}, "--reorder: frames are held back for 0 ns"),
    ({"seed": "-1"}, "--seed '-1': expected a whole number"),
    ({"rate": "1Mbps", "overhead": "1.5"}, "--overhead '1.5': expected a whole number of bytes"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_cannot_be_is_refused_by_its_option(words: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as refused:
        read_path(words)
    assert message in str(refused.value)


@given(st.sampled_from(sorted(READERS)), st.text(max_size=40))
def test_any_text_is_read_or_refused_with_the_option(name: str, text: str) -> None:
    more = {"rate": "1Mbps"} if name in ("queue", "aqm", "overhead") else {}
    refused = ""
    try:
        read_path({**more, "delay": "1s", name: text})
    except InputError as error:
        refused = str(error)
    # A trace is a file, which is named itself.
    assert not refused or f"--{name}" in refused or name == "trace"


def test_a_direction_differs_in_what_is_said_of_it() -> None:
    asked = read_link({"delay": "20ms", "rate": "50Mbps"}, "rate 10Mbps queue 20pkts", "loss '1%,burst=3'")
    assert (asked.up.rate_bps, asked.up.queue) == (10_000_000, Amount(20, "packets"))
    assert asked.up.loss == PathSpec().loss
    assert (asked.down.rate_bps, asked.down.loss) == (50_000_000, RunPattern(0.01, 3))
    assert asked.up.delay_ns == asked.down.delay_ns == 20_000_000
    assert asked.up_words == {"delay": "20ms", "rate": "10Mbps", "queue": "20pkts"}


def test_both_directions_have_random_numbers_of_their_own_and_other_seeds_have_others() -> None:
    seeds = set()
    for seed in range(20):
        asked = read_link({"loss": "1%", "seed": str(seed)}, None, None)
        seeds |= {asked.up.seed, asked.down.seed}
    assert len(seeds) == 40


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rate", "--up 'rate': expected pairs of a name and a value"),
        ("speed 10Mbps", "--up: 'speed' is unknown; known: delay, jitter, rate"),
        ("rate 1Mbps rate 2Mbps", "rate is given twice"),
        ("loss '1%", "close the quotes"),
    ],
)
def test_words_of_a_direction_are_pairs(text: str, message: str) -> None:
    with pytest.raises(InputError, match="--up") as refused:
        read_words(text, "--up")
    assert message in str(refused.value)


def test_a_profile_is_overruled_by_options_and_names_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "lte.up").write_text("1\n3\n")
    profile = tmp_path / "lte.yaml"
    profile.write_text(
        "delay: 30ms\nloss: 1%\nup: {trace: lte.up, queue: 20pkts}\ndown: {rate: 20Mbps, overhead: 24}\n"
    )
    asked = read_link({"loss": "2%"}, None, "rate 30Mbps", profile)
    assert asked.up.trace is not None
    assert (asked.up.trace.name, asked.up.trace.content) == (str(tmp_path / "lte.up"), b"1\n3\n")
    assert (asked.up.delay_ns, asked.up.queue) == (30_000_000, Amount(20, "packets"))
    assert (asked.down.rate_bps, asked.down.overhead_bytes) == (30_000_000, 24)
    assert asked.up.loss == asked.down.loss == RandomPattern(0.02)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("- a\n", "expected names and values"),
        ("up: 3\n", "up: expected names and values"),
        ("speed: 3\n", "'speed' is unknown; known:"),
        ("delay: [1]\n", "delay must be text, e.g. delay: 25ms"),
        ("delay: yes\n", "delay must be text, e.g. delay: 25ms"),
        ("delay: [\n", "this is not YAML"),
        ("delay: 2026-02-30\n", "this is not YAML: day"),
        ("[" * 5_000, "nested too deeply"),
    ],
)
def test_a_profile_that_is_none_is_refused_by_its_name(tmp_path: Path, content: str, message: str) -> None:
    profile = tmp_path / "link.yaml"
    profile.write_text(content)
    with pytest.raises(InputError) as refused:
        read_link({}, None, None, profile)
    assert str(refused.value).startswith("--profile ")
    assert message in str(refused.value)


def test_a_trace_that_is_none_is_refused_with_its_line(tmp_path: Path) -> None:
    trace = tmp_path / "lte.up"
    trace.write_text("1\n3\n2\n")
    with pytest.raises(InputError, match="--trace: line 3 is earlier than the line before"):
        with_trace(read_path({"trace": str(trace)}), HOST_FILES)


def test_a_device_that_frames_cross_draws_a_seed_unless_one_is_given() -> None:
    assert read_link({}, None, None, draw_seed=lambda: 5).drawn_seed is None
    asked = read_link({}, None, None, draw_seed=lambda: 5, device=True)
    assert (asked.drawn_seed, asked.up.seed, asked.down.seed) == (5, 10, 11)
    asked = read_link({"seed": "7"}, None, None, draw_seed=lambda: 5, device=True)
    assert (asked.drawn_seed, asked.up.seed) == (None, 14)
