"""Kazemi, Wijesinha and Karne: every row from the stored rounds, by costs that are put in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weirlab.calls.ipsec.cost import COSTS, EspCostRow, EspCostScenario, EspCostSection
from weirlab.calls.ipsec.endpoints.plan import EndpointScenario
from weirlab.calls.ipsec.endpoints.rows import ATTEMPTS, EndpointAttemptRow
from weirlab.publications import key_of, publication
from weirlab.reproduction.contract import Answer
from weirlab.reproduction.ipsec import EXPERIMENTS
from weirlab.store import Run, Store
from weirlab.store.frames import frame_of

from .answers import verdict

ABOUT = publication("kazemi-ipsec-voip")
BY_KEY = {experiment.key: experiment for experiment in EXPERIMENTS}
Cost = Callable[[str, str, str, int], float]
"""ns of a packet, by suite, mode, way and bytes."""


def as_published(suite: str, mode: str, way: str, size: int) -> float:
    """A cost of which every claim holds, but for the odd size."""
    ns = 1000.0 + 2.0 * size
    if suite != "aes-cbc":
        ns += 1000.0
    if "md5" in suite:
        ns *= 1.05
    if mode == "tunnel":
        ns += 100.0
    if way.startswith("out"):
        return ns
    inward = ns + 200.0 + (50.0 if mode == "tunnel" else 0.0)
    if suite == "aes-cbc" and mode == "tunnel":
        inward += 40.0
    layers = 1.08 if size == 360 else 1.12
    return inward * {"in-udp": 1.1, "in-layers": 1.1 * layers}.get(way, 1.0)


def run_of(tmp_path: Path, cost: Cost, rounds: int = 5) -> Run:
    (scenario,) = BY_KEY["processing-incoming"].scenarios(quick=True).values()
    asked = EspCostSection(**scenario["esp"])
    rows = [
        EspCostRow(
            number, suite, mode, way, packet_ms, size, cost(suite, mode, way, size) * (1 + 0.0001 * number)
        )
        for number in range(rounds)
        for suite in asked.suites
        for mode in asked.modes
        for packet_ms, size in asked.sizes()
        for way in asked.ways
    ]
    content = EspCostScenario(name="costs", esp=asked).model_dump(mode="json")
    with Store(tmp_path).create("esp", content, {}) as writer:
        writer.put_table(COSTS, frame_of(EspCostRow, rows))
    return writer.run


def answers(experiment: str, runs: Mapping[str, Run]) -> Mapping[str, Answer]:
    found = BY_KEY[experiment].answers(runs, ABOUT.experiments[experiment])
    return {answer.key: answer for answer in found}


def calls(tmp_path: Path, jitter_us: Mapping[str, float], gap_ms: float) -> Mapping[str, Run]:
    """A run for each mode."""
    runs = {}
    for mode, scenario in BY_KEY["call-quality"].scenarios(quick=True).items():
        asked = EndpointScenario.model_validate({"name": mode, **scenario})
        rows = [attempt(arm, number, us, gap_ms) for arm, us in jitter_us.items() for number in (1, 2, 3)]
        with Store(tmp_path / mode).create("endpoints", asked.model_dump(mode="json"), {}) as writer:
            writer.put_table(ATTEMPTS, frame_of(EndpointAttemptRow, rows))
        runs[mode] = writer.run
    return runs


def attempt(arm: str, repetition: int, jitter_us: float, gap_ms: float) -> EndpointAttemptRow:
    known: dict[str, Any] = {
        "number": repetition,
        "purpose": "compare",
        "arm": arm,
        "beside": "idle",
        "calls": 1,
        "repetition": repetition,
        "valid": True,
        "invalid": "",
        "jitter_mean_ns": 1e3 * jitter_us,
        "jitter_max_ns": 3e3 * jitter_us,
        "delta_max_ns": 1e6 * gap_ms if arm == "sockets" else 20e6,
    }
    usual = {"int": 0, "float": 0.0, "bool": False, "str": ""}
    return EndpointAttemptRow(
        **{name: usual[str(kind)] for name, kind in EndpointAttemptRow.__annotations__.items()} | known
    )


def runs_of(experiment: str, tmp_path: Path) -> Mapping[str, Run]:
    if experiment == "call-quality":
        return calls(tmp_path, {"sockets": 8000.0, "bypass": 100.0}, 40.0)
    return {"processing times": run_of(tmp_path, as_published)} if BY_KEY[experiment].scenarios(True) else {}


@pytest.mark.parametrize("experiment", BY_KEY)
def test_every_value_and_claim_has_an_answer_and_the_publications_own_figures_hold(
    experiment: str, tmp_path: Path
) -> None:
    about, found = ABOUT.experiments[experiment], answers(experiment, runs_of(experiment, tmp_path))
    assert found.keys() == about.values.keys() | about.claims.keys()
    assert {key: verdict(found[key]) for key in about.claims} == dict.fromkeys(about.claims, "holds")


def test_every_experiment_of_the_file_is_made_here_in_its_order() -> None:
    assert list(BY_KEY) == list(ABOUT.experiments)


@pytest.mark.parametrize(
    ("experiment", "claim", "cost"),
    [
        ("processing-incoming", "linear-in-size", lambda suite, mode, way, size: (size - 320.0) ** 2 + 1),
        (
            "processing-incoming",
            "constant-mode-difference",
            lambda suite, mode, way, size: 100.0 + size * (2.0 if mode == "tunnel" else 1.0),
        ),
        ("processing-incoming", "constant-mode-difference", lambda suite, mode, way, size: 100.0 + size),
        (
            "processing-incoming",
            "md5-slightly-more-than-sha1",
            lambda suite, mode, way, size: 100.0 if "md5" in suite else 200.0,
        ),
        (
            "processing-incoming",
            "tunnel-only-slightly-more",
            lambda suite, mode, way, size: 300.0 if mode == "tunnel" else 200.0,
        ),
        (
            "incoming-versus-outgoing",
            "in-more-than-out",
            lambda suite, mode, way, size: 80.0 if way == "in" else 100.0,
        ),
        (
            "incoming-versus-outgoing",
            "auth-cost-symmetric",
            lambda suite, mode, way, size: 100.0 + (suite != "aes-cbc") * (50.0 if way == "in" else 100.0),
        ),
        ("without-udp", "udp-removal-gains", lambda suite, mode, way, size: 100.0),
        ("inter-layer", "bare-gains", lambda suite, mode, way, size: 500.0 if way == "in-layers" else 100.0),
        ("inter-layer", "flat-except-40", lambda suite, mode, way, size: 100.0 + (way == "in-layers") * 10),
    ],
)
def test_a_claim_that_is_not_so_here_differs(experiment: str, claim: str, cost: Cost, tmp_path: Path) -> None:
    found = answers(experiment, {"processing times": run_of(tmp_path, cost)})
    assert verdict(found[claim]) == "differs"


@pytest.mark.parametrize("claim", ["decreases-with-size-mostly", "largest-without-auth-tunnel"])
def test_an_increase_that_is_none_is_neither_falling_nor_largest(claim: str, tmp_path: Path) -> None:
    def cost(suite: str, mode: str, way: str, size: int) -> float:
        return 1000.0 - (way == "in") * size

    found = answers("incoming-versus-outgoing", {"processing times": run_of(tmp_path, cost)})
    assert verdict(found[claim]) == "cannot tell"


def test_values_are_those_of_the_rounds(tmp_path: Path) -> None:
    runs = {"processing times": run_of(tmp_path, as_published)}
    # 100 ns, and 50 or 90 ns more for incoming packets; MD5 takes 5 % more of the first.
    apart = answers("processing-incoming", runs)["tunnel-minus-transport"].here
    assert apart == pytest.approx(0.155, rel=0.05)
    assert answers("without-udp", runs)["udp-gain"].here == pytest.approx(10.0)
    found = answers("inter-layer", runs)
    # Of the time for one packet of each size: 8 % at one size, 12 % at the others.
    sizes = [size for _, size in EspCostSection(suites=["aes-cbc-hmac-sha1-96"]).sizes()]
    shares = np.array([as_published("aes-cbc-hmac-sha1-96", "transport", "in-udp", size) for size in sizes])
    assert found["os-gain"].here == pytest.approx(
        float(np.average([8 if s == 360 else 12 for s in sizes], weights=shares))
    )
    assert found["os-gain-spread"].here == pytest.approx(0.0, abs=1e-9)


def test_quiet_sockets_refute_what_linux_did(tmp_path: Path) -> None:
    found = answers("call-quality", calls(tmp_path, {"sockets": 40.0, "bypass": 5.0}, 20.2))
    assert found["linux-mean-jitter"].here == pytest.approx(0.04)
    assert verdict(found["bare-jitter-negligible"]) == "differs"
    assert verdict(found["linux-delta-doubles"]) == "differs"
    assert verdict(found["mode-irrelevant-for-quality"]) == "holds"


def test_a_table_has_the_times_through_a_queue_and_through_a_socket(tmp_path: Path) -> None:
    def cost(suite: str, mode: str, way: str, size: int) -> float:
        return 1000.0 * {"in-layers": 1.1, "in-system": 3.0}.get(way, 1.0)

    made, about = BY_KEY["inter-layer"], ABOUT.experiments["inter-layer"]
    (table,) = made.tables({"processing times": run_of(tmp_path, cost)}, about)
    assert [column.split()[-1] for column in table.columns[1:]] == ["UDP", "queue", "socket"]
    assert {row[2:] for row in table.rows} == {("1.10 µs (10.0 %)", "3.00 µs (200 %)")}
    assert not made.tables({}, about)


def test_the_beginning_of_a_key_is_enough_where_only_one_publication_has_it() -> None:
    assert [key_of(name) for name in ("kazemi", "ubik", "nobody")] == ["kazemi-ipsec-voip", "ubik", "nobody"]


@pytest.mark.parametrize(
    ("experiment", "keys"),
    [
        ("processing-incoming", ["incoming-costs"]),
        ("incoming-versus-outgoing", ["in-over-out"]),
        ("without-udp", ["gain-without-udp"]),
        ("inter-layer", ["gain-direct"]),
        ("call-quality", ["jitter_mean_ns", "delta_max_ns"]),
    ],
)
def test_every_measured_experiment_has_its_charts(experiment: str, keys: list[str], tmp_path: Path) -> None:
    about, made = ABOUT.experiments[experiment], BY_KEY[experiment]
    found = made.figures(runs_of(experiment, tmp_path), about)
    assert [figure.key for figure in found] == keys
    assert all(figure.data.height >= 4 for figure in found)
    assert not made.figures({}, about)
