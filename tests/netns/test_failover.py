"""A failover as measured, from a scenario to the run, on a real pair."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.netns.wired_hosts import EXTERNAL_OUTAGE_S, external_pair, ip, wired_host

from weirlab.base.errors import LabError
from weirlab.base.files import HOST_FILES
from weirlab.calls.failover.section import FailoverScenario
from weirlab.jobs.progress import SilentProgress
from weirlab.lab.redundant.conntrackd import Conntrackd
from weirlab.lab.redundant.keepalived import Keepalived
from weirlab.scenario.load import from_plain
from weirlab.store import Store
from weirlab.studies.runner import run_scenario

pytestmark = pytest.mark.netns

CALLS = 30


@pytest.fixture
def _daemons() -> None:
    if missing := [*Keepalived().check(), *Conntrackd().check()]:
        pytest.skip("; ".join(missing))


def failover(store: Path, pairs: list[dict[str, object]], **calls: object) -> Any:
    """The outcome of the masters of ``pairs`` that lose their power while calls stand."""
    content = {
        "name": "test",
        "calls": {"count": CALLS, "codec": "g711", **calls},
        "failover": {
            "pairs": [{"protocol": "keepalived", "advert_s": 0.1, **pair} for pair in pairs],
            "kinds": ["hard"],
            "repetitions": 1,
            "event_s": 0.5,
            "after_s": 4,
            "affected_s": 1.5,
            "find_load": False,
            # Whether this host is quiet enough for a measurement is not what is tested.
            "max_attempts": 1,
        },
        "report": None,
    }
    scenario = from_plain(content, "test", FailoverScenario)
    return run_scenario(Store(store), scenario, SilentProgress())


@pytest.mark.usefixtures("_daemons")
def test_calls_outlive_their_firewall_if_their_states_are_shared_and_die_if_not(tmp_path: Path) -> None:
    outcome = failover(tmp_path / "store", [{}, {"states": "off"}])
    rows = {row.sharing: row for row in outcome.found.rows}
    shared, alone = rows["direct"], rows["off"]
    for row in (shared, alone):
        assert (row.old_master, row.new_master) == ("a", "b")
        assert row.streams == 2 * CALLS
        assert row.states_known >= CALLS
        if row.valid:
            assert row.lost_before == 0
            # Nothing is forwarded before the other firewall has missed the advertisements.
            assert row.outage_ns >= row.expected_from_s * 1e9 - row.cut_off_ns - 50e6
        else:
            # A host that stood still may have lost packets, and sent the last advertisement late.
            assert row.invalid
        assert row.moved_lan_ns > 0
        assert row.moved_wan_ns > 0
        assert row.mos_affected < row.mos_before
    assert (shared.alive, shared.dead) == (2 * CALLS, 0)
    assert (alone.alive, alone.dead) == (0, 2 * CALLS)
    assert alone.states_surviving == 0
    assert 0 < shared.lost < alone.lost
    assert outcome.run.table("switch_calls").height == 4 * CALLS


@pytest.mark.usefixtures("_daemons")
def test_calls_in_one_flow_are_one_connection_of_a_real_pair(tmp_path: Path) -> None:
    outcome = failover(tmp_path / "store", [{}], one_flow=True)
    (row,) = outcome.found.rows
    assert (row.states_known, row.states_surviving) == (1, 1)
    assert (row.streams, row.alive, row.dead) == (2 * CALLS, 2 * CALLS, 0)
    assert row.lost > 0


def external(ports: tuple[str, str], switch: Path) -> FailoverScenario:
    content = {
        "name": "test",
        "lab": {"kind": "wired", "between": ports, "shared": True},
        "calls": {"count": CALLS, "codec": "g711"},
        "failover": {
            "pairs": [{"protocol": "external", "hard": str(switch), "restore": f"{switch} back"}],
            "kinds": ["hard"],
            "repetitions": 2,
            "event_s": 0.5,
            "after_s": 4,
            "affected_s": 1.5,
            "find_load": False,
            "close_admission": False,
            "max_attempts": 1,
        },
        "report": None,
    }
    return from_plain(content, "test", FailoverScenario)


def test_commands_of_the_user_switch_his_own_pair(tmp_path: Path) -> None:
    with wired_host() as host, external_pair(host, tmp_path) as switch:
        before = host.state()
        store = Store(tmp_path / "store")
        outcome = run_scenario(store, external(host.ports, switch), SilentProgress(), inputs=HOST_FILES)
        assert host.state() == before
        first = ip(f"-n {host.device.name}-a link show in0")
    assert "state UP" in first
    assert len(outcome.found.rows) == 2
    for row in outcome.found.rows:
        assert (row.pair, row.firewall, row.new_master, row.admission_closed) == (
            "your own pair",
            "",
            "",
            False,
        )
        assert (row.streams, row.alive) == (2 * CALLS, 2 * CALLS)
        # Whether this host is quiet enough is not what is tested.
        assert row.valid or "nothing was switched" not in row.invalid
        assert EXTERNAL_OUTAGE_S * 1e9 < row.outage_ns < row.resumed_ns
        assert row.event_took_ns > EXTERNAL_OUTAGE_S * 1e9
        assert row.lost > 0
        assert row.mos_affected < row.mos_before


def test_a_pair_whose_addresses_move_to_another_mac_is_not_measured(tmp_path: Path) -> None:
    with wired_host() as host, external_pair(host, tmp_path, same_macs=False) as switch:
        with pytest.raises(
            LabError, match=r"198\.18\.0\.1 moved from 02:00:5e:00:18:01 to 02:00:5e:00:18:02"
        ):
            run_scenario(
                Store(tmp_path / "store"), external(host.ports, switch), SilentProgress(), inputs=HOST_FILES
            )
        assert "state UP" in ip(f"-n {host.device.name}-a link show in0")
