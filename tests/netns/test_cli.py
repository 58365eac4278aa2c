"""The command line on real namespaces. What is measured depends on the machine; what is told does not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.netns

DONE, INVALID = 0, 5
"""A busy machine may leave every attempt invalid; that is told by exit code 5."""


def weir(tmp_path: Path, *arguments: str) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "weirlab", "--store", str(tmp_path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("rules", [0, 1000])
def test_a_trial_in_overload_tells_everything_in_one_document(tmp_path: Path, rules: int) -> None:
    code, out, err = weir(
        tmp_path, "trial", "--lab", "netns", "--dut", "iptables", "--rules", str(rules), "--rate", "2Mpps",
        "--frame", "64", "--duration", "0.2", "--warmup", "0.05", "--json",
    )  # fmt: skip
    assert code in (DONE, INVALID), err
    found = json.loads(out)
    assert found["valid"] == (code == DONE)
    assert found["backend"] == "xdp"
    assert found["sent"] == found["received"] + found["lost"] > 0
    assert found["delay_min_ns"] <= found["delay_p50_ns"] <= found["delay_p99_ns"] <= found["delay_max_ns"]
    assert found["queue_packets"] == pytest.approx(
        found["delay_mean_ns"] * found["forwarding_pps"] / 1e9, rel=1e-3
    )
    assert found["dut_counters"]["in_rx_packets"] > 0
    assert set(found["cpu_s"]) == {"sender", "dut"}


def test_a_ruleset_that_the_tool_refuses_is_one_clear_message(tmp_path: Path) -> None:
    rules = tmp_path / "mine.nft"
    rules.write_text(
        "table inet mine {\n  chain forward {\n    tpye filter hook forward priority 0;\n  }\n}\n"
    )
    code, out, err = weir(tmp_path, "trial", "--lab", "netns", "--ruleset", str(rules), "--rate", "1kpps")
    assert code == 2
    assert not out
    assert "weir: " in err
    assert "mine.nft, line 3: refused by nft" in err
    assert "Traceback" not in err


def test_a_ruleset_that_drops_everything_is_refused_with_what_drops_it(tmp_path: Path) -> None:
    rules = tmp_path / "closed.nft"
    rules.write_text(
        "table inet mine {\n  chain c {\n    type filter hook forward priority 0; policy drop;\n  }\n}\n"
    )
    code, _, err = weir(
        tmp_path, "trial", "--lab", "netns", "--ruleset", str(rules), "--rate", "10kpps", "--duration", "0.1"
    )
    assert code == 2
    assert "no rule accepts test traffic: it ends at the policy of c of table inet mine" in err
