"""Each group of flows really matches at its place: the tools' own rule counters say so."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable

import pytest

from weirlab.lab import dut
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.netns import NetnsLab
from weirlab.records import EngineResult, RuleSetup
from weirlab.traffic.spec import Flows, LoadStep, Rate, Traffic

pytestmark = pytest.mark.netns

QUARTER = RuleSetup.mixed(((2, 0.25), (9, 0.75)))


def packets_per_rule(lab: NetnsLab, family: int) -> list[int]:
    """Packets that each rule of the chain forward has accepted, in order; -1 where nobody counts."""
    command = {
        ("iptables-legacy", 4): ["iptables-legacy", "-S", "FORWARD", "-v"],
        ("iptables-legacy", 6): ["ip6tables-legacy", "-S", "FORWARD", "-v"],
        ("iptables-nft", 4): ["iptables-nft", "-S", "FORWARD", "-v"],
        ("iptables-nft", 6): ["ip6tables-nft", "-S", "FORWARD", "-v"],
    }[lab.dut, family]
    namespace = Namespace(lab.namespaces["dut"])
    done = namespace.call(lambda: subprocess.run(command, capture_output=True, text=True, check=True))
    rules = [line for line in done.stdout.splitlines() if line.startswith("-A")]
    return [int(found[1]) if (found := re.search(r" -c (\d+) \d+", rule)) else -1 for rule in rules]


RATE = Rate(1_000)
"""In 0.2 s fewer packets than a receive queue holds: none is lost, however long the host is away."""


def trial(
    lab: NetnsLab, traffic: Traffic, counters: Callable[[], list[int]]
) -> tuple[EngineResult, list[int]]:
    """The first trial whose sender had its CPU, and by how much it raised ``counters``; without loss."""
    for _ in range(20):
        before = counters()
        result = lab.run(traffic)
        counted = [after - earlier for after, earlier in zip(counters(), before, strict=True)]
        assert result.lost == 0
        if result.flows.sent.sum() > 0.9 * RATE.value * traffic.duration_s:
            return result, counted
    pytest.fail(f"the host kept the sender from its CPU in 20 trials of {traffic.duration_s} s")


@pytest.mark.parametrize("driver", ["iptables-legacy", "iptables-nft"])
@pytest.mark.parametrize("ip", [4, 6])
def test_each_place_accepts_the_packets_of_its_own_flows(driver: str, ip: int) -> None:
    made = dut.make(driver)
    if missing := made.check():
        pytest.skip("; ".join(missing))
    with NetnsLab(made) as lab:
        lab.backend  # noqa: B018 - loading the engine sends packets of its own
        lab.set_rules(QUARTER)
        flows = Flows(8, ip=ip)  # type: ignore[arg-type]
        traffic = Traffic(RATE, flows=flows, sizes=_size(ip), warmup_s=0.0, duration_s=0.2)
        result, counted = trial(lab, traffic, lambda: packets_per_rule(lab, ip))
        assert len(counted) == 9
        per_flow = [int(n) for n in result.flows.sent]
        places = (sum(per_flow[:3]), sum(per_flow[3:]))  # of 8 flows 1 + 6/4 and 1 + 18/4
        assert min(per_flow) > 0
        assert places == pytest.approx((0.25 * sum(places), 0.75 * sum(places)), abs=10)
        assert (counted[1], counted[8]) == places
        assert sum(counted) == sum(places), "no filler accepts any"


def test_the_linear_rules_of_nftables_do_the_same() -> None:
    made = dut.make("nftables")
    if missing := made.check():
        pytest.skip("; ".join(missing))
    with NetnsLab(made) as lab:
        lab.set_rules(QUARTER)
        namespace = Namespace(lab.namespaces["dut"])
        script = "".join(
            f"insert rule ip weir forward position {handle} ip daddr {network} counter\n"
            for handle, network in _accepting(namespace)
        )
        namespace.call(lambda: subprocess.run(["nft", "-f", "-"], input=script, text=True, check=True))
        lab.backend  # noqa: B018
        result, counted = trial(
            lab, Traffic(RATE, warmup_s=0.0, duration_s=0.2), lambda: _counters(namespace)
        )
        assert counted == [int(n) for n in result.flows.sent]
        assert counted == pytest.approx([0.25 * sum(counted), 0.75 * sum(counted)], abs=10)


def test_after_a_position_step_packets_match_at_the_other_place() -> None:
    with NetnsLab(dut.make("iptables")) as lab:
        lab.backend  # noqa: B018
        lab.set_rules(RuleSetup.mixed(((1, 1.0), (2000, 0.0))))
        traffic = Traffic(RATE, steps=(LoadStep(0.05, None, 2000),), warmup_s=0.0, duration_s=0.2)
        result, counted = trial(lab, traffic, lambda: packets_per_rule(lab, 4))
        assert [counted[0], counted[1999]] == [int(n) for n in result.flows.sent]
        assert counted[0] > 0
        assert counted[1999] > 0
        series = result.series
        assert (series.bin_ns, len(series.sent)) == (1_000_000, 200)
        # The trial begins at the first place: what came before the step was sent there.
        assert int(series.sent[:50].sum()) == pytest.approx(counted[0], abs=3), "one late packet at most"


def _size(ip: int):  # type: ignore[no-untyped-def]
    from weirlab.traffic.sizes import Constant

    return Constant(64 if ip == 4 else 84)


def _rules(namespace: Namespace) -> list[dict[str, object]]:
    command = ["nft", "-j", "-a", "list", "chain", "ip", "weir", "forward"]
    done = namespace.call(lambda: subprocess.run(command, capture_output=True, text=True, check=True))
    return [entry["rule"] for entry in json.loads(done.stdout)["nftables"] if "rule" in entry]


def _accepting(namespace: Namespace) -> list[tuple[int, str]]:
    """Handle and destination of the rules that accept test traffic."""
    found = []
    for rule in _rules(namespace):
        text = json.dumps(rule["expr"])
        if match := re.search(r'"addr": "(198\.19\.[\d.]+)", "len": (\d+)', text):
            found.append((int(str(rule["handle"])), f"{match[1]}/{match[2]}"))
    return found


def _counters(namespace: Namespace) -> list[int]:
    text = json.dumps(_rules(namespace))
    return [int(n) for n in re.findall(r'"counter": {"packets": (\d+)', text)]
