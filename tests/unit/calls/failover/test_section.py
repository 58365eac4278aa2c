from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from weirlab.base.errors import InputError
from weirlab.calls.failover.section import FailoverScenario
from weirlab.lab.redundant.conntrackd import Conntrackd
from weirlab.lab.redundant.keepalived import Keepalived
from weirlab.lab.redundant.ucarp import Ucarp
from weirlab.publications import publication
from weirlab.scenario.load import from_plain
from weirlab.studies import ready
from weirlab.studies.commands.scenarios import in_lab
from weirlab.studies.scenarios import json_schema, load, loads

PAIR = "name: t\nfailover:\n  pairs:\n    - protocol: keepalived\n"


def read(text: str) -> FailoverScenario:
    scenario = loads(text, "f.yaml")
    assert isinstance(scenario, FailoverScenario)
    return scenario


def problems(text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        loads(text, "f.yaml")
    return str(caught.value).splitlines()


def test_the_shortest_scenario_measures_both_kinds_seven_times() -> None:
    scenario = read(PAIR)
    assert scenario.failover.kinds == ("soft", "hard")
    assert scenario.failover.repetitions == 7
    assert scenario.calls.count is None
    calls = scenario.calls.calls(3000)
    assert calls.count == 3000
    published_pps = publication("woernhard-2006").experiments["failover-soft"].settings["pps"]
    assert calls.count * 2 * 1000 / calls.classes[0].stream.packet_ms >= published_pps
    assert not calls.rtcp


def test_a_mix_of_codecs_is_read_with_its_shares_and_the_longest_packet_time_counts() -> None:
    mix = "calls:\n  codec: g711:20ms:75,g729:40ms/iax2:25\n"
    kinds = read(PAIR + mix).calls.calls(100).classes
    assert [(kind.stream.packet_ms, kind.transport, kind.share) for kind in kinds] == [
        (20, "rtp", 0.75), (40, "iax2", 0.25),
    ]  # fmt: skip
    (problem,) = problems(PAIR + "  warmup_s: 0.05\n" + mix)
    assert "give at least 0.08 s" in problem


@pytest.mark.parametrize("one", [True, False])
def test_calls_may_share_their_addresses_and_ports(one: bool) -> None:
    found = read(PAIR + f"calls:\n  one_flow: {str(one).lower()}\n").calls.calls(10)
    assert (found.one_flow, found.count) == (one, 10)


def test_the_shipped_scenario_has_what_the_question_needs() -> None:
    scenario = load(ready.paths()["failover"])
    assert isinstance(scenario, FailoverScenario)
    found = [(p.protocol, p.advert_s, p.states) for p in scenario.failover.pairs]
    assert {("keepalived", 1, "direct"), ("keepalived", 0.1, "direct"), ("ucarp", 1, "direct")} <= set(found)
    assert {states for *_, states in found} == {"direct", "cached", "off"}


def test_settings_reach_the_protocol_and_those_left_out_are_the_protocols_own() -> None:
    text = "name: t\nfailover:\n  pairs:\n"
    text += "    - {protocol: keepalived, advert_s: 0.2, priorities: [200, 90], use_vmac: true}\n"
    text += "    - {protocol: ucarp, advert_s: 2, deadratio: 4, advskews: [0, 100], states: cached}\n"
    vrrp, carp = read(text).failover.pairs
    assert vrrp.addresses() == Keepalived(advert_s=0.2, priorities=(200, 90), use_vmac=True)
    assert vrrp.sharing() == Conntrackd()
    assert carp.addresses() == Ucarp(advbase_s=2, deadratio=4, advskews=(0, 100))
    assert carp.sharing() == Conntrackd(external_cache=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "      advskews: [0, 50]\n",
            "f.yaml:5:17: failover.pairs[0].advskews: keepalived has no such setting",
        ),
        ("      advert_s: 0.005\n", "f.yaml:4:7: failover.pairs[0]: an advertisement interval of 0.005 s"),
        ("      advert: 1\n", "f.yaml:5:7: failover.pairs[0].advert: unknown key; did you mean 'advert_s'?"),
        ("      states: on\n", "f.yaml:5:15: failover.pairs[0].states: must be 'direct', 'cached' or 'off'"),
        (
            "    - protocol: keepalived\n",
            "f.yaml:5:7: failover.pairs[1]: is the same as number 1 of the list",
        ),
        (
            "    - {protocol: keepalived, advert_s: 1, preempt: true}\n",
            "f.yaml:5:7: failover.pairs[1]: is the same as number 1 of the list",
        ),
        (
            "  warmup_s: 0\n",
            "f.yaml:5:13: failover.warmup_s: packets back are dropped until one forward has",
        ),
        (
            "    - {protocol: carp}\n",
            "f.yaml:5:18: failover.pairs[1].protocol: must be 'keepalived', 'ucarp' or 'external'",
        ),
        (
            "    - {protocol: ucarp, advert_s: 0.5}\n",
            "f.yaml:5:7: failover.pairs[1]: ucarp advertises every 1, 2, ... s, not every 0.5 s",
        ),
        ("  kinds: [soft, soft]\n", "f.yaml:5:10: failover.kinds: 'soft' is listed twice"),
        ("      nat: true\n", "f.yaml:5:12: failover.pairs[0].nat: the addresses that packets back go to"),
        (
            "calls: {directions: back}\n",
            "f.yaml:5:21: calls.directions: calls are admitted from the sender's",
        ),
        ("calls: {spurts: true}\n", "f.yaml:5:17: calls.spurts: a silence would look like a gap"),
        ("calls: {codec: g711:7.5ms}\n", "f.yaml:5:16: calls.codec: "),
        (
            "    - {protocol: external, soft: x, restore: y}\n  kinds: [soft]\n  close_admission: false\n",
            "f.yaml:5:18: failover.pairs[1].protocol: a pair of your own is between two ports",
        ),
        ("      restore: y\n", "f.yaml:5:16: failover.pairs[0].restore: keepalived has no such setting"),
        ("lab: {kind: sim}\n", "f.yaml:5:13: lab.kind: a redundant pair cannot be simulated"),
        (
            "lab: {kind: wired, between: [a, b]}\n",
            "f.yaml:5:13: lab.kind: between two ports is one pair of your own: 'protocol: external'",
        ),
        ("profile: {}\n", "f.yaml:5:1: profile: the file has 'failover' already; write a file for each"),
    ],
)
def test_what_cannot_be_is_refused_where_it_stands(text: str, message: str) -> None:
    (problem,) = problems(PAIR + text)
    assert problem.startswith(message)


def test_a_pair_is_not_simulated_whoever_asks_for_it() -> None:
    with pytest.raises(InputError, match="a redundant pair cannot be simulated"):
        in_lab(read(PAIR), "sim")
    assert in_lab(read(PAIR), "netns").lab.kind == "netns"


EXTERNAL: Final = """name: n
lab: {kind: wired, between: [a, b]}
failover:
  kinds: [hard]
  close_admission: false
  pairs:
    - {protocol: external, hard: ./off fw1, restore: ssh fw1 on}
"""


def test_commands_of_an_external_pair_are_found_beside_the_file(tmp_path: Path) -> None:
    scenario = read(EXTERNAL)
    assert list(scenario.beside(tmp_path).commands()) == [f"{tmp_path}/off fw1", "ssh fw1 on"]
    # Whoever may not open files of this host may not start its programs either.
    assert set(scenario.files()) == {
        ("lab", "between"),
        ("failover", "pairs", 0, "hard"),
        ("failover", "pairs", 0, "restore"),
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("kinds: [hard]", "kinds: [soft]"), "failover.pairs[0].soft: 'soft' is needed"),
        (("kinds: [hard]", "kinds: [hard, return]"), "failover.kinds: 'return' is for pairs that"),
        ((", restore: ssh fw1 on", ""), "failover.pairs[0].restore: 'restore' is needed"),
        (("  close_admission: false\n", ""), "your own pair has its own rules"),
        (("hard: ./off", "advert_s: 1, hard: ./off"), "failover.pairs[0].advert_s: external has no such"),
        (("external, ", "external, states: cached, "), "failover.pairs[0].states: external has no such"),
        (("./off fw1", "'\"'"), "failover.pairs[0].hard: No closing quotation"),
    ],
)
def test_what_an_external_pair_lacks_is_named(change: tuple[str, str], message: str) -> None:
    (problem,) = problems(EXTERNAL.replace(*change))
    assert message in problem


def test_a_scenario_survives_the_manifest() -> None:
    scenario = read(PAIR + "      states: cached\n")
    assert from_plain(scenario.model_dump(mode="json"), "manifest", FailoverScenario) == scenario


def test_the_schema_knows_the_keys() -> None:
    assert "FailoverScenario" in json_schema()["$defs"]
