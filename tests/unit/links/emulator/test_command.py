"""``weir link`` where nothing is linked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from weirlab.emulation.account import COUNTED, EmulationCounters, read_account
from weirlab.emulation.reading import LinkSpec
from weirlab.emulation.spec import PathSpec
from weirlab.links.emulator import netem, running
from weirlab.links.emulator.netem import NetemDirection

from ...conftest import Weir


class FakeLink:
    """One that ended by itself, having carried a frame."""

    def __init__(self, failure: str = "", **known: int) -> None:
        nothing = {name: np.zeros(0, np.uint64) for name in ("lower_ns", "upper_ns", "count")}
        way = {
            **dict.fromkeys(COUNTED, 0), "refused_reason": "", "late": nothing, "late_max_ns": 0,
            "paced_bits": 0, "paced_ns": 0, "paced_bursts": 0,
        }  # fmt: skip
        up = {**way, "arrived": 1, "sent": 1, **known}
        self._raw: dict[str, Any] = {
            "directions": [up, way], "elapsed_ns": 10**9, "cpu_ns": 10**8, "ended": True, "failure": failure,
            "real_time_refused": "not permitted",
        }  # fmt: skip

    def account(self) -> EmulationCounters:
        return read_account(self._raw, ("eth1", "eth2"), (None, None))

    stop = account


@pytest.fixture
def linked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What links were asked for; the last item is what the next one is."""
    asked: list[Any] = [FakeLink()]

    @contextmanager
    def fake(
        a: running.LinkEnd, b: running.LinkEnd, up: PathSpec, down: PathSpec, **more: Any
    ) -> Iterator[FakeLink]:
        link = asked.pop()
        asked.append((a, b, up, down, more))
        yield link

    monkeypatch.setattr(running, "emulated_link", fake)
    return asked


def test_the_options_are_those_of_the_link(weir: Weir, linked: list[Any]) -> None:
    answer = weir(
        "link", "eth1", "eth2", "--netns", "x", "--delay", "25ms", "--loss", "frames=2", "--up", "rate 1Mbps",
        "--duration", "5min", "--slack", "50us", "--json",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    ((a, b, up, down, more),) = linked
    assert (str(a), str(b)) == ("eth1 in x", "eth2 in x")
    assert (up.delay_ns, up.rate_bps, down.rate_bps) == (25_000_000, 1_000_000, None)
    assert more["how"] == running.EmulatorSettings(for_s=300.0, slack_s=50e-6)
    document = answer.json
    assert document["up"]["asked"] == {"delay": "25ms", "loss": "frames=2", "rate": "1Mbps"}
    assert document["by"] == "weir"
    assert document["up"]["arrived"] == 1
    assert (document["kept"], document["complaints"]) == (True, [])
    assert document["notes"] == [
        "eth1 in x and eth2 in x are linked; Ctrl-C ends it",
        "the emulator was not real time: not permitted",
    ]


def test_people_get_tables_and_a_sentence(weir: Weir, linked: list[Any]) -> None:
    answer = weir("link", "eth1", "eth2")
    assert answer.code == 0
    assert "Frames" in answer.out
    assert "The emulator itself" in answer.out
    assert answer.out.startswith("Every frame was handled as configured")


def test_frames_that_were_not_kept_are_marked(weir: Weir, linked: list[Any]) -> None:
    linked[:] = [FakeLink(too_long=3)]
    answer = weir("link", "eth1", "eth2", "--json")
    assert answer.json["kept"] is False
    assert answer.json["up"]["lost"] == 0
    assert "3 frames were lost by the emulator" in answer.json["conclusion"]


def test_a_link_that_ends_before_its_time_is_an_error(weir: Weir, linked: list[Any]) -> None:
    linked[:] = [FakeLink("interface eth1 is gone")]
    answer = weir("link", "eth1", "eth2", "--json")
    assert answer.code == 4
    assert answer.json["valid"] is False
    assert "interface eth1 is gone" in answer.err


def test_mistakes_are_told_before_anything_is_changed(weir: Weir, linked: list[Any]) -> None:
    answer = weir("link", "eth1", "eth2", "--rate", "fast")
    assert answer.code == 2
    assert "--rate 'fast' is no bit rate" in answer.err
    assert isinstance(linked[0], FakeLink)


@pytest.mark.parametrize("loss", ["10%", "5%,burst=3", "gemodel=1%,30%"])
def test_random_choices_without_a_seed_have_one_that_is_shown_and_repeats_them(
    weir: Weir, linked: list[Any], loss: str
) -> None:
    answer = weir("link", "eth1", "eth2", "--loss", loss, "--json")
    seed = answer.json["up"]["asked"]["seed"]
    assert answer.json["down"]["asked"]["seed"] == seed
    assert f"random choices have the seed {seed}: --seed {seed} repeats them" in answer.json["notes"]
    drawn = [path.seed for path in linked[0][2:4]]
    linked[:] = [FakeLink()]
    again = weir("link", "eth1", "eth2", "--loss", loss, "--seed", seed, "--json")
    assert [path.seed for path in linked[0][2:4]] == drawn
    assert not any("random choices" in note for note in again.json["notes"])


def test_each_link_draws_its_own_seed(weir: Weir, linked: list[Any]) -> None:
    seeds = set()
    for _ in range(5):
        linked[:] = [FakeLink()]
        weir("link", "eth1", "eth2", "--jitter", "1ms", "--delay", "1ms")
        seeds.add(linked[0][2].seed)
    assert len(seeds) > 1


@pytest.mark.parametrize("option", ["--loss", "--duplicate", "--reorder"])
@pytest.mark.parametrize("text", ["1", "1.0", " 1", "1,burst=3", "gemodel=1,30%"])
def test_a_bare_1_is_neither_1_percent_nor_all(weir: Weir, linked: list[Any], option: str, text: str) -> None:
    more = ",by=3ms" if option == "--reorder" else ""
    answer = weir("link", "eth1", "eth2", option, text + more)
    assert answer.code == 2
    assert "may be 1 % or all; write 1% or 100%" in answer.err
    assert isinstance(linked[0], FakeLink)


def test_slack_is_no_delay(weir: Weir, linked: list[Any]) -> None:
    assert weir("link", "eth1", "eth2", "--slack", "10ms").code == 0
    linked[:] = [FakeLink()]
    answer = weir("link", "eth1", "eth2", "--slack", "1s")
    assert answer.code == 2
    assert "--slack 1s: at most 10ms" in answer.err
    assert isinstance(linked[0], FakeLink)


class FakeNetem:
    """A link by netem whose time is up."""

    def account(self) -> netem.NetemCounters:
        up = NetemDirection("eth1", "eth2", sent=1234, sent_bytes=5678, lost=3, dropped_full=2, queued=0)
        down = NetemDirection("eth2", "eth1", 0, 0, 0, 0, 0)
        return netem.NetemCounters(up, down, elapsed_s=300.0, ended=True)

    stop = account


@pytest.fixture
def by_netem(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What links by netem were asked for."""
    asked: list[Any] = []

    @contextmanager
    def fake(
        ends: tuple[str, str], netns: str | None, words: LinkSpec, tell: running.Tell, for_s: float
    ) -> Iterator[FakeNetem]:
        asked.append((ends, netns, words, for_s))
        yield FakeNetem()

    monkeypatch.setattr(netem, "netem_link", fake)
    return asked


def test_netem_carries_the_frames_where_it_is_asked_for(weir: Weir, by_netem: list[Any]) -> None:
    answer = weir(
        "link", "eth1", "eth2", "--by", "netem", "--netns", "x", "--delay", "25ms", "--duration", "5min",
        "--up", "rate 1Mbps loss 1%", "--json",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    ((ends, netns, asked, for_s),) = by_netem
    assert (ends, netns, for_s) == (("eth1", "eth2"), "x", 300.0)
    assert (asked.up.rate_bps, asked.down.delay_ns) == (1_000_000, 25_000_000)
    document = answer.json
    assert document["by"] == "netem"
    assert document["up"] == {
        "asked": {"delay": "25ms", "rate": "1Mbps", "loss": "1%"}, "from": "eth1", "to": "eth2",
        "sent": 1234, "sent_bytes": 5678, "lost": 3, "dropped_full": 2, "queued": 0,
    }  # fmt: skip
    assert document["elapsed_s"] == 300.0
    assert document["notes"] == [
        "netem loses frames before its queue: lost frames use none of the rate",
        "eth1 in x and eth2 in x are linked by netem; Ctrl-C ends it",
    ]


def test_people_are_told_what_netem_counted(weir: Weir, by_netem: list[Any]) -> None:
    answer = weir("link", "eth1", "eth2", "--by", "netem", "--duration", "5min")
    assert answer.code == 0, answer.err
    assert answer.out.startswith("netem sent 1,234 frames and dropped 5;")
    assert "Queue full" in answer.out


@pytest.mark.parametrize(
    "option", [("--cpu", "0"), ("--busy",), ("--slack", "1ms"), ("--no-real-time",)], ids=str
)
def test_what_is_about_weirs_own_emulator_is_refused_with_netem(
    option: tuple[str, ...], weir: Weir, by_netem: list[Any]
) -> None:
    answer = weir("link", "eth1", "eth2", "--by", "netem", *option)
    assert answer.code == 2
    assert f"{option[0]} is for Weir's own emulator" in " ".join(answer.err.split())
    assert by_netem == []
