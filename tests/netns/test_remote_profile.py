"""Profiles of a firewall elsewhere, between two ports of this host: whatever interrupts them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from weirlab.base import programs
from weirlab.lab.linux.inventory import look
from weirlab.store import Run, Store

from .conftest import wait_until
from .remote_firewall import ADDRESS, RemoteFirewall, remote_firewall

pytestmark = pytest.mark.netns

FOLDER: Final = "/run/weir-device"
POSITIONS: Final = (1, 30)
WAITING_S: Final = 4
"""How long the firewall waits in tests of what it does by itself."""


@pytest.fixture
def firewall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RemoteFirewall]:
    with remote_firewall(tmp_path, monkeypatch) as made:
        made.run("iptables-legacy", "-A", "FORWARD", "-s", "192.0.2.99", "-j", "DROP")
        yield made


class Tester:
    """Runs ``weir``, with a store of its own, and knows how its ports were before."""

    def __init__(self, firewall: RemoteFirewall, folder: Path) -> None:
        self.firewall = firewall
        self.store = Store(folder / "store")
        self._folder = folder
        self._before = self._ports()

    def scenario(self, dut: str, restore_s: float = 60.0, trials: int = 6) -> Path:
        path = self._folder / "x.yaml"
        document = {
            "name": "elsewhere",
            "lab": {"kind": "wired", "between": list(self.firewall.between)},
            "dut": {"name": dut, "at": f"ssh://root@{ADDRESS}", "change": "rules", "restore_s": restore_s},
            "machine": "noisy",
            "time_budget": "10min",
            # Loads so small that every one is sent as planned, however busy this host is.
            "profile": {
                "positions": list(POSITIONS),
                "sizes": [64],
                "load_shares": [0.002],
                "repetitions": trials // len(POSITIONS),
                "trial_s": 0.05,
                "warmup_s": 0.0,
                "scout_s": 0.02,
            },
            "report": None,
        }
        path.write_text(yaml.safe_dump(document))
        return path

    def start(self, *words: str) -> programs.Program[str]:
        command = programs.own("weirlab", "--store", str(self.store.root), *words)
        return programs.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *words: str) -> tuple[int, str]:
        with self.start(*words) as program:
            out, err = program.communicate(timeout=300)
        return program.returncode, out + err

    def trials(self) -> int:
        """Trials in the newest run."""
        found = self.store.runs()
        return self.store.open(found[0].run_id).trials().height if found else 0

    def newest(self) -> Run:
        return self.store.open("last")

    def put_back(self) -> bool:
        return self._ports() == self._before

    def _ports(self) -> list[Any]:
        known = look()
        return [(known[port].mac, known[port].up, known[port].xdp) for port in self.firewall.between]


@pytest.fixture
def tester(firewall: RemoteFirewall, tmp_path: Path) -> Tester:
    return Tester(firewall, tmp_path)


def has_weir(firewall: RemoteFirewall) -> bool:
    listings = (["nft", "list", "ruleset"], ["iptables-legacy", "-S"], ["ip6tables-legacy", "-S"])
    return any("weir" in firewall.run(*command).lower() for command in listings)


@pytest.mark.parametrize("dut", ["nftables", "iptables-legacy"])
def test_a_firewall_killed_in_mid_profile_restores_its_rules_and_the_run_is_resumed(
    dut: str, firewall: RemoteFirewall, tester: Tester
) -> None:
    program = tester.start("run", "--yes", str(tester.scenario(dut, WAITING_S)))
    with program:
        wait_until(lambda: tester.trials() > 0 or program.poll() is not None)
        firewall.kill()
        _, err = program.communicate(timeout=300)
    assert program.returncode == 4, err
    assert f"The device itself removes the rules that Weir set there, within {WAITING_S} s" in err
    wait_until(lambda: not has_weir(firewall))
    assert "192.0.2.99" in firewall.run("iptables-legacy", "-S")
    assert tester.put_back()
    kept = tester.trials()
    assert kept > 0

    firewall.start()
    code, text = tester.run("run", "--yes", "--resume", tester.newest().run_id)
    # So few loads determine no model (7), and this host may have spoiled all of them (5).
    assert code in (0, 5, 7), text
    plan = tester.newest().get_json("plan")
    planned = range(plan["first_index"], plan["first_index"] + len(plan["specs"]))
    assert set(planned) <= set(tester.newest().trials()["index"])
    assert tester.trials() > kept
    positions = {json.loads(spec)["rules"]["position"] for spec in tester.newest().trials()["spec"]}
    assert positions == set(POSITIONS)
    assert not has_weir(firewall)
    assert not firewall.path(FOLDER).exists()
    assert tester.put_back()


def test_counters_prove_that_test_traffic_met_the_rules(firewall: RemoteFirewall, tester: Tester) -> None:
    code, text = tester.run(
        *("trial", "--yes", "--lab", "wired", "--between", *firewall.between, "--dut", "nftables"),
        *("--at", f"ssh://root@{ADDRESS}", "--change", "rules", "--rules", "20", "--rate", "2kpps"),
    )
    assert code in (0, 5), text
    (row, *_) = tester.newest().trials().iter_rows(named=True)
    counters = json.loads(row["dut_counters"])
    assert counters["weir_entered_packets"] >= row["received"] > 0
    assert counters["device_eth1_rx_packets"] >= row["received"]
    assert sum(counters[f"device_cpu_{state}_ms"] for state in ("user", "system", "idle")) > 0
    facts = tester.newest().manifest.facts
    assert (facts["dut_at"], facts["dut_ports"]) == (ADDRESS, "eth1, eth2")
    assert not has_weir(firewall)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_profile_restores_the_rules_before_it_ends(
    number: signal.Signals, firewall: RemoteFirewall, tester: Tester
) -> None:
    with tester.start("run", "--yes", str(tester.scenario("nftables"))) as program:
        wait_until(lambda: tester.trials() > 0 or program.poll() is not None)
        program.send_signal(number)
        _, err = program.communicate(timeout=300)
    assert program.returncode == 128 + number, err
    assert not has_weir(firewall)
    assert not firewall.path(FOLDER).exists()
    assert tester.put_back()


def test_a_profile_that_was_away_too_long_stops_when_it_comes_back(
    firewall: RemoteFirewall, tester: Tester
) -> None:
    with tester.start("run", "--yes", str(tester.scenario("nftables", WAITING_S))) as program:
        wait_until(lambda: tester.trials() > 0 or program.poll() is not None)
        program.send_signal(signal.SIGSTOP)
        wait_until(lambda: not has_weir(firewall))
        program.send_signal(signal.SIGCONT)
        _, err = program.communicate(timeout=300)
    assert program.returncode == 4, err
    assert f"restored its own rules while Weir was away for more than {WAITING_S} s" in err
    assert not firewall.path(FOLDER).exists()
    assert tester.put_back()


def test_a_killed_weir_leaves_the_rest_to_the_firewall_and_the_next_command(
    firewall: RemoteFirewall, tester: Tester
) -> None:
    with tester.start("run", "--yes", str(tester.scenario("nftables", WAITING_S))) as program:
        wait_until(lambda: tester.trials() > 0 or program.poll() is not None)
        os.kill(program.pid, signal.SIGKILL)
        program.communicate()
    wait_until(lambda: not has_weir(firewall))
    wait_until(lambda: not firewall.path(FOLDER).exists())
    assert tester.run("lab", "clean")[0] == 0
    assert tester.put_back()


PROGRAM: Final = """\
#!{python}
import json, subprocess, sys
wanted = json.load(sys.stdin)
chain = "table ip own {{ chain forward {{ type filter hook forward priority 0; "
for rule in wanted["rules"]:
    if rule["ip"] == 4:
        port = f"{{rule['protocol']}} dport {{rule['port']}}" if rule["port"] else ""
        chain += f"ip saddr {{rule['source']}} ip daddr {{rule['destination']}} {{port}} counter accept; "
text = "table ip own; delete table ip own; " + (chain + "}}; }}" if wanted["event"] == "apply" else "")
command = ["ip", "netns", "exec", "{netns}", "nft", "-f", "-"]
sys.exit(subprocess.run(command, input=text, text=True).returncode)
"""


def test_a_program_of_the_users_sets_and_removes_the_rules(
    firewall: RemoteFirewall, tester: Tester, tmp_path: Path
) -> None:
    program = tmp_path / "set-rules"
    program.write_text(PROGRAM.format(python=sys.executable, netns=firewall.namespace.name))
    program.chmod(0o755)
    code, text = tester.run(
        *(
            "trial", "--yes", "--lab", "wired", "--between", *firewall.between, "--rules", "5", "--rate",
            "2kpps",
        ),
        *("--change", str(program)),
    )  # fmt: skip
    assert code in (0, 5), text
    assert tester.newest().trials()["received"][0] > 0
    assert json.loads(tester.newest().trials()["spec"][0])["rules"]["position"] == 5
    assert "table ip own" not in firewall.run("nft", "list", "ruleset")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--at", f"ssh://root@{ADDRESS}:1"], 4, "nothing listens at its SSH port"),
        (["--at", f"ssh://root@{ADDRESS}", "--ports", "eth0,eth1"], 2, "comes in through eth0, a test port"),
        (["--at", f"ssh://root@{ADDRESS}", "--dut", "pf"], 3, "pfctl is not installed"),
        (["--at", ADDRESS], 2, "is no login: write ssh://user@host"),
        (["--change", "ask"], 3, "there is no terminal to ask him at"),
        (
            ["--change", "/nowhere/set-rules"],
            2,
            "/nowhere/set-rules cannot be run: No such file or directory",
        ),
        ([], 2, "Weir sets rules through a login, which is missing"),
    ],
    ids=["refused", "port", "tool", "no-url", "no-terminal", "no-program", "no-login"],
)
def test_what_cannot_work_is_refused_before_anything_is_changed(
    words: list[str], code: int, message: str, firewall: RemoteFirewall, tester: Tester
) -> None:
    chosen = [] if "--dut" in words or "--change" in words else ["--dut", "nftables"]
    change = [] if "--change" in words else ["--change", "rules"]
    found = tester.run(
        *(
            "trial", "--yes", "--lab", "wired", "--between", *firewall.between, "--rules", "3", "--rate",
            "1kpps",
        ),
        *(*chosen, *change, *words),
    )  # fmt: skip
    assert found[0] == code, found[1]
    assert message in " ".join(found[1].split())
    assert not has_weir(firewall)
    assert tester.put_back()
