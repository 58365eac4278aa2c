"""Directions of a link in the words of tc, and what netem tells of them."""

from __future__ import annotations

from typing import Any

import pytest

from weirlab.base.errors import InputError, LabError
from weirlab.emulation.reading import read_link, read_path
from weirlab.emulation.spec import PathSpec
from weirlab.links.emulator import netem

MOST = ["limit", "1000000"]


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ({}, []),
        ({"delay": "25ms"}, ["delay", "25000us"]),
        ({"delay": "1500ns"}, ["delay", "1.5us"]),
        ({"loss": "1%"}, ["loss", "random", "1%"]),
        ({"loss": "gemodel=1%,30%"}, ["loss", "gemodel", "1%", "30%", "100%", "0%"]),
        ({"loss": "gemodel=1%,30%,50%,0.1%"}, ["loss", "gemodel", "1%", "30%", "50%", "0.1%"]),
        # p / (p + r) is the loss, and 1 / r the length of a burst.
        ({"loss": "20%,burst=4"}, ["loss", "gemodel", "6.25%", "25%", "100%", "0%"]),
        ({"duplicate": "0.5%", "delay": "1ms"}, ["delay", "1000us", "duplicate", "0.5%"]),
        ({"delay": "9ms", "jitter": "3ms,reorder"}, ["delay", "9000us", "3000us"]),
        (
            {"delay": "9ms", "jitter": "3ms,normal,reorder"},
            ["delay", "9000us", "3000us", "distribution", "normal"],
        ),
        # With a rate netem keeps the order.
        ({"delay": "9ms", "jitter": "3ms"}, ["delay", "9000us", "3000us", "rate", "1000gbit"]),
    ],
    ids=str,
)
def test_without_a_rate_there_is_one_netem(words: dict[str, str], options: list[str]) -> None:
    assert netem.netems(read_path(words)) == [[*MOST, *options]]


def test_with_a_rate_alone_the_queue_is_the_root() -> None:
    path = read_path({"rate": "10Mbps", "queue": "50pkts", "overhead": "24"})
    assert netem.netems(path) == [["limit", "51", "rate", "10000000bit", "24"]]


def test_what_is_delayed_takes_no_room_in_the_queue() -> None:
    path = read_path({"rate": "10Mbps", "queue": "50pkts", "delay": "1ms", "loss": "1%"})
    delaying, queue = netem.netems(path)
    assert delaying == [*MOST, "delay", "1000us", "loss", "random", "1%"]
    assert queue == ["limit", "51", "rate", "10000000bit"]


def test_the_second_netem_is_below_the_root() -> None:
    root, queue = netem.shape("eth2", read_path({"rate": "64kbps", "delay": "1ms"}))
    assert root[:8] == ["qdisc", "add", "dev", "eth2", "root", "handle", "7765:", "netem"]
    assert queue[:9] == ["qdisc", "add", "dev", "eth2", "parent", "7765:1", "handle", "7766:", "netem"]


def test_what_comes_in_by_one_end_leaves_by_the_other() -> None:
    ingress, every = netem.redirect("eth1", "eth2")
    assert " ".join(ingress) == "qdisc add dev eth1 handle ffff: ingress"
    assert " ".join(every) == (
        "filter add dev eth1 parent ffff: protocol all prio 1 u32 match u32 0 0 "
        "action mirred egress redirect dev eth2"
    )


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ({"rate": "1Mbps", "aqm": "codel"}, "aqm"),
        ({"rate": "1Mbps", "queue": "20ms"}, "queue"),
        ({"rate": "1Mbps", "queue": "64kB"}, "queue"),
        ({"rate": "1Mbps", "overhead": "-15"}, "overhead"),
        ({"rate": "1Mbps", "delay": "5ms", "jitter": "1ms"}, "jitter"),
        ({"rate": "1Mbps", "delay": "5ms", "jitter": "1ms,reorder"}, "jitter"),
        ({"delay": "5s", "jitter": "3s"}, "jitter"),
        ({"loss": "frames=5"}, "loss"),
        ({"reorder": "1%,by=3ms"}, "reorder"),
        ({"duplicate": "1%,burst=3"}, "duplicate"),
        ({"duplicate": "frames=5"}, "duplicate"),
        ({"duplicate": "1%", "loss": "1%"}, "duplicate"),
        ({"duplicate": "1%", "rate": "1Mbps"}, "duplicate"),
        ({"duplicate": "1%", "delay": "5ms", "jitter": "1ms"}, "duplicate"),
        ({"seed": "7"}, "seed"),
    ],
    ids=str,
)
@pytest.mark.parametrize("direction", ["up", "down"])
def test_what_netem_has_not_in_the_same_sense_is_refused(
    words: dict[str, str], option: str, direction: str
) -> None:
    text = " ".join(f"{name} {value}" for name, value in words.items())
    asked = read_link({}, **{"up": None, "down": None, direction: text})
    with pytest.raises(InputError, match=rf"^--{option}: netem cannot do this: .*leave out --by netem$"):
        netem.check(asked)


def test_a_trace_is_refused(tmp_path: Any) -> None:
    trace = tmp_path / "lte.up"
    trace.write_text("1\n2\n")
    with pytest.raises(InputError, match="--trace: netem cannot do this"):
        netem.check(read_link({"trace": str(trace)}, None, None))


def test_loss_in_front_of_the_queue_is_told() -> None:
    (note,) = netem.notes(read_path({"rate": "1Mbps", "loss": "1%"}))
    assert "lost frames use none of the rate" in note
    assert netem.notes(read_path({"loss": "1%"})) == netem.notes(read_path({"rate": "1Mbps"})) == []


def told(handle: str, dev: str = "eth2", **counted: int) -> dict[str, Any]:
    """A netem as ``tc -s -j qdisc show`` tells of it."""
    nothing = {"packets": 0, "bytes": 0, "drops": 0, "qlen": 0}
    return {"kind": "netem", "handle": handle, "dev": dev, **nothing, **counted}


def test_without_a_rate_all_that_was_dropped_was_lost() -> None:
    found = [told("7765:", "eth1", packets=9), told("7765:", packets=90, bytes=9000, drops=10, qlen=3)]
    carried = netem.read_carried(found, "eth1", "eth2", PathSpec())
    assert carried.document() == {
        "from": "eth1", "to": "eth2", "sent": 90, "sent_bytes": 9000, "lost": 10, "dropped_full": 0,
        "queued": 0,
    }  # fmt: skip


def test_with_a_rate_alone_all_that_was_dropped_found_no_room() -> None:
    found = [told("7765:", packets=90, drops=10, qlen=3)]
    carried = netem.read_carried(found, "eth1", "eth2", read_path({"rate": "1Mbps"}))
    assert (carried.lost, carried.dropped_full, carried.queued) == (0, 10, 3)


def test_the_root_counts_what_the_queue_below_it_drops() -> None:
    found = [told("7765:", packets=90, drops=10, qlen=7), told("7766:", packets=90, drops=4, qlen=3)]
    carried = netem.read_carried(found, "eth1", "eth2", read_path({"rate": "1Mbps", "loss": "1%"}))
    assert (carried.sent, carried.lost, carried.dropped_full, carried.queued) == (90, 6, 4, 3)


def test_an_end_without_netem_ends_the_link() -> None:
    with pytest.raises(LabError, match="the link ended: eth2 is gone"):
        netem.read_carried([told("7765:", "eth1")], "eth1", "eth2", PathSpec())
