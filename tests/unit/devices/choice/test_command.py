"""``weir choose``: what is profiled, what is chosen, and how that is shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from weirlab.devices.choice.profiling import positions
from weirlab.devices.choice.study import profiled_sizes
from weirlab.jobs import testbeds
from weirlab.model import DeviceModels, fit_all, save_devices
from weirlab.store import Store
from weirlab.testing import FakeBed, FakeDevice, queue
from weirlab.traffic.calls.mix import parse_mix
from weirlab.traffic.sizes import Constant

from ...conftest import Weir
from .conftest import rows

DEVICES = {
    "iptables": FakeDevice(),
    "nftables-set": FakeDevice(service_per_rule_ns=0.1),
    "esp": FakeDevice(service_fixed_ns=20_000.0),
}
CHOOSE = ("choose", "--lab", "sim", "--calls", "300", "--repetitions", "1")


@pytest.fixture
def profiled(monkeypatch: pytest.MonkeyPatch, fitted_once: None) -> list[str]:
    """The devices that are profiled."""
    names: list[str] = []

    def open_bed(_: object, dut: Any, *__: object, **___: object) -> FakeBed:
        names.append(dut.name)
        return FakeBed(DEVICES[dut.name])

    monkeypatch.setattr(testbeds, "open_bed", open_bed)
    return names


def test_what_is_missing_is_profiled_once_and_the_device_with_most_headroom_is_chosen(
    weir: Weir, profiled: list[str]
) -> None:
    asked = (
        *CHOOSE, "iptables", "nftables-set", "--rules", "400", "--require", "p99<1ms", "--factors",
        "1,2,20",
    )  # fmt: skip
    answer = weir(*asked)
    assert answer.code == 0
    assert profiled == ["iptables", "nftables-set"]
    estimate = answer.err.index("Profiling iptables and nftables-set: 2 profiles\n")
    assert estimate < answer.err.index("fitting")
    document = weir(*asked, "--json").json
    assert profiled == ["iptables", "nftables-set"]
    assert [each["measured"] for each in document["profiles"]] == [False, False]
    assert document["best"] == "nftables-set"
    found = rows(document)
    for name in ("iptables", "nftables-set"):
        device = DEVICES[name]
        row = found[name, 400, 1.0]
        assert row["threshold_pps"] == pytest.approx(device.threshold_pps(400, 218), rel=0.05)
        assert row["headroom_ratio"] == pytest.approx(row["most_calls"] / 300, rel=0.01)
        assert found[name, 400, 2.0]["headroom_ratio"] == pytest.approx(row["headroom_ratio"] / 2, rel=0.01)
    assert found["iptables", 400, 20.0]["verdict"] == "misses"
    weir(*asked, "--again")
    assert profiled == ["iptables", "nftables-set"] * 2


def test_a_stored_profile_serves_only_if_it_contains_what_is_needed(weir: Weir, profiled: list[str]) -> None:
    weir(*CHOOSE, "iptables", "--rules", "400")
    weir(*CHOOSE, "iptables", "--rules", "0")
    assert profiled == ["iptables"]
    weir(*CHOOSE, "iptables", "--rules", "600")
    weir(*CHOOSE, "iptables", "--rules", "400", "--codec", "g729")
    assert profiled == ["iptables"] * 3


def test_a_stored_profile_serves_for_frames_between_its_own_and_that_is_said(
    weir: Weir, profiled: list[str], tmp_path: Path
) -> None:
    page, asked = tmp_path / "choice.html", (*CHOOSE, "iptables", "--rules", "400", "--factors", "1")
    positions = ("--rules", "0,100,200,400,500", "--repetitions", "1")
    measure = ("profile", "--quick", "--lab", "sim", "--dut", "iptables", *positions, "--frame", "64,1518")
    weir(*measure)
    told = weir(*asked, "--out", page)
    assert (told.code, profiled) == (0, ["iptables"])
    between = "(218 B between smaller and larger frames)"
    assert between in " ".join(told.err.split())
    assert between in page.read_text()
    document = weir(*asked, "--json").json
    assert [each["frames_between"] for each in document["profiles"]] == [[218]]
    row = rows(document)["iptables", 400, 1.0]
    assert row["threshold_pps"] == pytest.approx(DEVICES["iptables"].threshold_pps(400, 218), rel=0.05)
    # One with the very frames comes first, although another is newer.
    weir(*asked, "--again")
    weir(*measure)
    assert [each["frames_between"] for each in weir(*asked, "--json").json["profiles"]] == [[]]
    assert profiled == ["iptables"] * 3


def test_a_profile_that_another_process_deletes_meanwhile_is_not_there(
    weir: Weir, profiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = (*CHOOSE, "iptables", "--rules", "0", "--factors", "1")
    weir(*asked)
    opened = Store.open

    def deleted(store: Store, run_id: str, **more: Any) -> Any:
        monkeypatch.setattr(Store, "open", opened)
        store.remove(run_id)
        return store.open(run_id, **more)

    monkeypatch.setattr(Store, "open", deleted)
    assert weir(*asked).code == 0
    assert profiled == ["iptables"] * 2


def test_every_tunnel_stands_behind_every_device(weir: Weir, profiled: list[str]) -> None:
    answer = weir(*CHOOSE, "iptables", "nftables-set", "--tunnel", "esp", "--rules", "100", "--json")
    assert profiled == ["iptables", "nftables-set", "esp"]
    found = rows(answer.json)
    alone = {"iptables, no tunnel", "nftables-set, no tunnel"}
    assert {device for device, _, _ in found} == {"iptables + esp", "nftables-set + esp"} | alone
    assert answer.json["best"] == "nftables-set + esp", "what is compared with is not chosen"
    assert (
        "Without a tunnel, iptables and nftables-set will do; nftables-set has" in answer.json["conclusion"]
    )
    plain = found["nftables-set, no tunnel", 100, 1.0]
    assert plain["threshold_pps"] > found["nftables-set + esp", 100, 1.0]["threshold_pps"]
    row = found["nftables-set + esp", 100, 1.0]
    service_ns = DEVICES["esp"].service_ns(0, 218) + 100 * DEVICES["nftables-set"].service_per_rule_ns
    assert row["threshold_pps"] == pytest.approx(1e9 / service_ns, rel=0.05)


def test_profiles_are_chosen_from_without_measuring(
    weir: Weir, models: Path, profiled: list[str], tmp_path: Path
) -> None:
    asked = ("choose", "--profiles", models / "devices.json", "--calls", "1000", "--packet-time", "30ms",
             "--rules", "400,100")  # fmt: skip
    answer = weir(*asked, "--out", tmp_path / "choice.html")
    assert profiled == []
    assert answer.code == 0
    words = " ".join(answer.out.split())
    assert words.startswith("new carries 1,000 two-way calls, G.711 in packets of 30 ms, behind 400 rules")
    assert "Verdicts are the same in all 4 cases." in words
    assert len(rows(weir(*asked, "--json").json)) == 8
    page = (tmp_path / "choice.html").read_text()
    assert all(text in page for text in ("Headroom", "will do", "Threshold", "old", "new"))


def test_what_a_tunnel_costs_comes_after_what_devices_do_without_one(
    weir: Weir, models: Path, tmp_path: Path
) -> None:
    """Reported: that two devices do without a tunnel was only in the second sentence, after a no."""
    answer = weir(
        "choose", "--profiles", models / "devices.json", "--tunnel", models / "tunnel.json", "--calls",
        "1000", "--rules", "100", "--factors", "1", "--out", tmp_path / "page.html", "--json",
    )  # fmt: skip
    assert answer.code == 9
    assert answer.json["conclusion"].startswith("Without a tunnel, old and new will do; ")
    most = {row["device"]: row["most_calls"] for row in answer.json["rows"]}
    for name in ("old", "new"):
        without, behind = most[f"{name}, no tunnel"], most[f"{name} + wireguard-go (user space)"]
        assert 0 < behind < without
        assert f"{name} {without:,}, behind wireguard-go {behind:,}" in answer.json["conclusion"]
    assert "Without a tunnel, old and new will do; behind one, none" in (tmp_path / "page.html").read_text()


def test_fewer_calls_than_were_profiled_are_answered_by_the_lowest_profiled_load(
    weir: Weir, models: Path
) -> None:
    answer = weir("choose", "--profiles", models / "devices.json", "--calls", "1", "--rules", "100", "--json")
    assert (answer.code, answer.json["best"]) == (0, "new")
    assert {row["verdict"] for row in answer.json["rows"]} == {"meets"}
    assert answer.json["conclusion"].count("below the lowest profiled one") == 1


def test_verdicts_are_only_the_same_if_those_without_a_tunnel_are_as_well(weir: Weir, models: Path) -> None:
    asked = (
        "choose", "--profiles", models / "devices.json", "--tunnel", models / "tunnel.json", "--calls",
        "1000", "--rules", "100", "--factors",
    )  # fmt: skip
    words = " ".join(weir(*asked, "1,20").out.split())
    assert "Without a tunnel, old and new will do; " in words
    assert "Verdicts are the same" not in words
    assert re.search(r"20,000 calls( will not do){4}", words)
    words = " ".join(weir(*asked, "1,1.1,1.2").out.split())
    assert "Verdicts are the same in all 3 cases." in words


def test_several_codecs_and_packet_times_are_answered_in_one_table(
    weir: Weir, store: Store, profiled: list[str], tmp_path: Path
) -> None:
    page = tmp_path / "choice.html"
    asked = (
        *CHOOSE, "nftables-set", "--rules", "0", "--factors", "1", "--packet-time", "20ms,30ms",
        "--codec", "g711", "--codec", "g711:60,g729:40",
    )  # fmt: skip
    answer = weir(*asked, "--out", page)
    assert profiled == ["nftables-set"]
    # The frames of all four kinds of calls, so that no prediction is between sizes.
    sizes = store.open("last").manifest.scenario["profile"]["sizes"]
    assert sizes == ["218", "298", "218:60,78:40", "298:60,88:40"]
    assert "between the profiled frame sizes" not in " ".join(answer.out.split())
    found: dict[str, dict[str, Any]] = {
        row["codecs"]: row for row in weir(*asked, "--json").json["rows"] if row["device"] == "nftables-set"
    }
    frames = {
        "G.711 20 ms": (218, 50.0),
        "G.711 30 ms": (298, 1000 / 30),
        "G.711 20 ms (60 %), G.729 20 ms (40 %)": (162, 50.0),
        "G.711 30 ms (60 %), G.729 30 ms (40 %)": (214, 1000 / 30),
    }
    assert list(found) == list(frames)
    device = DEVICES["nftables-set"]
    for kind, (frame, packets) in frames.items():
        row = found[kind]
        assert row["threshold_pps"] == pytest.approx(device.threshold_pps(0, frame), rel=0.06)
        assert row["headroom_ratio"] == pytest.approx(row["most_calls"] / 300, rel=0.01)
        assert 0.5 * row["threshold_pps"] < row["most_calls"] * 2 * packets < row["threshold_pps"]
    words = " ".join(answer.out.split())
    assert "Verdicts are the same in all 4 cases." in words
    assert {"Codecs", "Verdict"} <= {*weir(*asked, "--details").out.split()}
    more = " ".join(weir(*asked, "--require", "p99<50us", "--factors", "1,100").out.split())
    assert "30,000 calls, G.711 30 ms will not do" in more
    assert "Codecs" not in answer.out
    assert all(kind in page.read_text() for kind in frames)


def test_of_many_sizes_the_first_and_the_ends_are_profiled() -> None:
    codecs = ("g711:20ms", "g711:30ms", "g729:20ms", "g729:30ms")
    sizes = [parse_mix(codec).sizes for codec in codecs]
    assert profiled_sizes(sizes) == [Constant(218), Constant(298), Constant(78), Constant(88)]
    more = [*sizes, parse_mix("g711:60,g729:40").sizes]
    assert profiled_sizes(more) == [Constant(218), Constant(78), Constant(298)]


def test_of_codecs_with_their_own_packet_times_each_is_answered_once(weir: Weir, models: Path) -> None:
    asked = ("choose", "--profiles", models / "devices.json", "--calls", "300", "--factors", "1")
    given = ("--codec", "g711:20ms", "--codec", "g711", "--packet-time", "20ms,30ms")
    told = {row["codecs"] for row in weir(*asked, *given, "--json").json["rows"]}
    assert told == {"G.711 20 ms", "G.711 30 ms"}


def test_a_stand_in_is_marked_in_table_sentence_and_page(weir: Weir, models: Path, tmp_path: Path) -> None:
    answer = weir(
        "choose", "--profiles", models / "devices.json", "--tunnel", models / "tunnel.json", "--calls", "100",
        "--packet-time", "30ms", "--out", tmp_path / "choice.html",
    )  # fmt: skip
    assert answer.out.count("wireguard-go (user space)") >= 3
    assert "a kernel's WireGuard would be faster" in " ".join(answer.err.split())
    page = (tmp_path / "choice.html").read_text()
    assert "wireguard-go (user space)" in page
    assert "WireGuard would be faster" in page


def test_if_no_device_will_do_the_exit_code_says_so(weir: Weir, models: Path) -> None:
    asked = ("choose", "--profiles", models / "devices.json", "--packet-time", "30ms", "--rules", "400")
    assert weir(*asked, "--calls", "100000", "--extrapolate").code == 9
    assert weir(*asked, "--calls", "1000", "--require", "p99<1ns").code == 9
    # The first factor decides.
    assert weir(*asked, "--calls", "1000", "--factors", "1,100", "--extrapolate").code == 0


def test_what_is_required_counts_in_every_case_of_the_first_factor(weir: Weir, models: Path) -> None:
    asked = ("choose", "--profiles", models / "devices.json", "--calls", "1000", "--require", "rate>=700kpps")
    without, behind = (weir(*asked, "--rules", rules) for rules in ("0", "1000"))
    assert (without.code, behind.code) == (0, 9)
    for rules in ("0,1000", "1000,0"):
        told = weir(*asked, "--rules", rules)
        assert told.code == 9
        assert "rate>=700kpps" in told.err


def test_a_most_that_is_required_decides_rows_and_the_first_words(weir: Weir, models: Path) -> None:
    asked = ("choose", "--profiles", models / "devices.json", "--calls", "1000", "--rules", "100")
    answer = weir(*asked, "--require", "calls>=100000", "--json")
    assert answer.code == 9
    assert answer.json["conclusion"].startswith("Not met: calls>=100000 (")
    assert {row["verdict"] for row in answer.json["rows"]} == {"misses"}
    most = min(row["most_calls"] for row in answer.json["rows"])
    assert weir(*asked, "--require", f"calls>={most}").code == 0
    some = weir(*asked, "--require", f"calls>={most + 1}", "--json").json
    assert sorted(row["verdict"] for row in some["rows"] if row["factor"] == 1) == ["meets", "misses"]
    assert f"1 of 2 devices will do: {some['best']}." in some["conclusion"]


def test_devices_that_carry_some_kinds_of_calls_each_are_no_device_for_all(
    weir: Weir, tmp_path: Path
) -> None:
    devices = {
        "small frames": queue.QueueDevice(fixed_ns=500.0, per_byte_ns=20.0),
        "few packets": queue.QueueDevice(fixed_ns=3500.0),
    }
    made = [
        DeviceModels(name, fit_all(queue.profile(device, (0,), (64.0, 298.0), poisson=True, packets=500)))
        for name, device in devices.items()
    ]
    save_devices(made, tmp_path / "devices.json")
    asked = ("choose", "--profiles", tmp_path / "devices.json", "--calls", "2300", "--factors", "1",
             "--extrapolate")  # fmt: skip
    codecs = (("--codec", "g711"), ("--codec", "g729:10ms"))
    best = [weir(*asked, *codec, "--json") for codec in codecs]
    assert [(one.code, one.json["best"]) for one in best] == [(0, "few packets"), (0, "small frames")]
    both = weir(*asked, *codecs[0], *codecs[1])
    assert both.code == 9
    assert "no device carries the calls of every case" in both.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--calls", "1"), "name devices, or --profiles RUN"),
        (("iptables", "--profiles", "last", "--calls", "1"), "leave the devices out"),
        (("saved.rules", "--calls", "1"), "saved.rules is a file with rules"),
        (("iptables", "--calls", "1", "--rules", "-1"), "--rules -1: each must be from 0"),
        (("iptables", "--calls", "1", "--factors", "0"), "--factors 0: each must be above 0"),
        (("iptables", "--calls", "1", "--certainty", "often"), "e.g. --certainty 95%"),
        (("iptables", "--calls", "1", "--cpus", "2"), "add --tunnel"),
        (("iptables", "--calls", "1", "--packet-time", "20ms,"), "packet time '' not understood"),
        (("iptables", "--calls", "1", "--packet-time", "long"), "packet time 'long' not understood"),
        (("iptables", "--calls", "1", "--codec", "g7"), "g7"),
        (("nonsense", "--calls", "1"), "no such device"),
        (("192.0.2.1", "--calls", "1"), "is another machine"),
    ],
)
def test_mistakes_are_named_before_anything_is_measured(
    weir: Weir, profiled: list[str], arguments: tuple[str, ...], complaint: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("saved.rules").write_text("*filter\nCOMMIT\n")
    answer = weir("choose", *arguments)
    assert answer.code == 2
    assert complaint in " ".join(answer.err.split())
    assert profiled == []


def test_positions_of_a_profile_enclose_the_rules_in_question() -> None:
    assert positions((0,)) == (0,)
    assert positions((400,)) == (0, 100, 200, 400, 500)
    assert positions((100, 1000)) == (0, 100, 250, 500, 1000, 1250)


def test_a_choice_shows_the_interval_that_the_prediction_shows(weir: Weir, models: Path) -> None:
    file = models / "devices.json"
    row = rows(weir("choose", "--profiles", file, "--calls", "300", "--rules", "400", "--json").json)
    shown = weir(
        "predict",
        file,
        "--device",
        "old",
        "--rate",
        "30kpps",
        "--frame",
        "218",
        "--rules",
        "400",
        "--arrivals",
        "poisson",
        "--json",
    ).json["intervals"]["queueing"]
    one = row["old", 400, 1.0]
    ends = [one[name] for name in ("delay_p99_floor_ns", "delay_p99_bound_ns", "loss_floor", "loss_bound")]
    assert ends == pytest.approx([*shown["delay_p99_ns"]["90"], *shown["loss_ratio"]["90"]])


def test_other_cases_than_the_one_in_question_are_details(weir: Weir, models: Path) -> None:
    asked = ("choose", "--profiles", models / "devices.json", "--calls", "300", "--factors", "1,2,3")
    short, long = (weir(*asked, *more).out for more in ((), ("--details",)))
    assert [each.split("Requirements", 1)[0].count("  will do ") for each in (short, long)] == [2, 6]
    assert len(weir(*asked, "--json").json["rows"]) == 6
