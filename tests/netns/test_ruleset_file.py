"""The user's own rules: loaded as they are, refused with the tool's words, harmless either way."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import InputError
from weirlab.base.files import HOST_FILES
from weirlab.lab import dut
from weirlab.lab.dut import tool
from weirlab.lab.dut.rules import Family
from weirlab.lab.dut.rulesets.listing import list_rules
from weirlab.lab.dut.rulesets.source import RESTORE_SETS, RulesetFiles, RulesetSource
from weirlab.lab.dut.tool import LoadCommand
from weirlab.lab.netns import NetnsLab
from weirlab.rules import nftables_path
from weirlab.rules.nft.written import rule_texts
from weirlab.traffic.spec import Flows, Rate, Traffic

from .ruleset_trials import LEGACY, NFT, chain_of, one_trial

pytestmark = pytest.mark.netns


REFUSED = {
    "option/legacy": (
        LEGACY + "*filter\n-A FORWARD --dprt 5 -j ACCEPT\nCOMMIT\n",
        3,
        'unknown option "--dprt"',
    ),
    "option/nft": (NFT + "*filter\n-A FORWARD --dprt 5 -j ACCEPT\nCOMMIT\n", 3, 'unknown option "--dprt"'),
    "target/legacy": (LEGACY + "*filter\n\n-A FORWARD -j NOWHERE\nCOMMIT\n", 4, "NOWHERE"),
    # The whole transaction is refused, and with it the line that ends it.
    "target/nft": (NFT + "*filter\n\n-A FORWARD -j NOWHERE\nCOMMIT\n", 5, "NOWHERE"),
    "no commit": (LEGACY + "*filter\n-A FORWARD -j ACCEPT\n", 4, "COMMIT expected"),
    "nft syntax": ("table ip t {\n  chain c {\n    udp dprt 5 accept\n  }\n}\n", 3, "unexpected string"),
    "nft first line": ("table ip t { chain fwd { udp dprt 5 accept; }; }\n", 1, "syntax error"),
    "nft object": (
        "table ip t {\n  chain c {\n    ip saddr @nosuch accept\n  }\n}\n",
        3,
        "No such file or directory",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_names_file_line_and_the_tools_words(case: str, tmp_path: Path, made: Any) -> None:
    text, line, words = REFUSED[case]
    path = tmp_path / "my.rules"
    path.write_text(text)
    driver = dut.make("ruleset", path, HOST_FILES)
    if missing := driver.check():
        pytest.skip("; ".join(missing))
    with pytest.raises(InputError) as refusal:
        NetnsLab(driver)
    assert f"{path}, line {line}:" in str(refusal.value)
    assert words in str(refusal.value)
    assert "/dev/stdin" not in str(refusal.value)
    assert made.identifiers
    assert made.left() == []


@pytest.mark.parametrize(
    "text",
    [
        "*filter\n:FORWARD DROP [12:345]\nCOMMIT\n",
        "*raw\n:PREROUTING DROP [0:0]\nCOMMIT\n*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n",
        "flush ruleset\ntable inet f {\n chain c { type filter hook forward priority 0; policy drop; }\n}\n",
    ],
    ids=["iptables-save", "two tables", "nft"],
)
def test_rules_that_drop_the_test_traffic_are_loaded_and_counted(
    text: str, tmp_path: Path, plain_traffic: Callable[..., Any]
) -> None:
    path = tmp_path / "my.rules"
    path.write_text(text)
    with NetnsLab(dut.make("ruleset", path, HOST_FILES)) as lab:
        assert plain_traffic(lab).is_dropped()


@pytest.mark.parametrize("tool", ["iptables-legacy", "iptables-nft", "nftables"])
def test_what_the_tools_save_can_be_loaded_again(
    tool: str, tmp_path: Path, plain_traffic: Callable[..., Any]
) -> None:
    """The dump of a device under test is a ruleset file: the same rules come out again."""
    from weirlab.records import RuleSetup

    command = {
        "iptables-legacy": "iptables-legacy-save",
        "iptables-nft": "iptables-nft-save",
        "nftables": "nft list ruleset",
    }[tool]
    path = tmp_path / "saved.rules"
    with NetnsLab(dut.make(tool)) as lab:
        lab.set_rules(RuleSetup(12, stateful=True))
        path.write_text(_output(lab, command))
    with NetnsLab(dut.make("ruleset", path, HOST_FILES)) as lab:
        assert _without_comments(_output(lab, command)) == _without_comments(path.read_text())
        assert plain_traffic(lab).arrives()


COMPANY = """\
table inet filter {
	set blocked { type ipv4_addr; flags interval; elements = { 192.168.10.66, 203.0.113.0/24 } }
	chain forward {
		type filter hook forward priority filter; policy drop;
		ct state vmap { established : accept, related : accept, invalid : drop }
		ip saddr @blocked drop
		iifname "eth1" oifname $wan ip saddr 192.168.0.0/16 udp dport { 53, 80 } counter accept comment "web"
	}
}
"""


def test_real_rules_let_test_traffic_through_that_is_aimed_at_one_of_them(tmp_path: Path) -> None:
    """Variables, short forms, sets, states and interfaces: as an administrator writes them."""
    path = tmp_path / "company.nft"
    path.write_text('define wan = "eth0"\n' + COMPANY)
    driver = dut.make("ruleset", path, HOST_FILES)
    aimed = driver.aim("web", Flows())
    assert aimed is not None
    with NetnsLab(driver, aimed=aimed) as lab:
        flows = Flows(count=200, order="random")
        result = lab.run(Traffic(Rate(2000), flows=flows, warmup_s=0.0, duration_s=1.0))
        listed = _output(lab, "nft list ruleset")
    assert result.received > 0
    assert result.lost == 0
    counted = re.search(r"counter packets (\d+) ", listed)
    assert counted is not None
    assert int(counted[1]) == result.received


def _output(lab: NetnsLab, command: str) -> str:
    import subprocess

    from weirlab.lab.linux.namespace import Namespace

    dut_netns = Namespace(lab.namespaces["dut"])
    return dut_netns.call(
        lambda: subprocess.run(command.split(), capture_output=True, text=True, check=True).stdout
    )


def _without_comments(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_nft_lists_rules_as_unit_tests_have_recorded() -> None:
    recorded = json.loads((Path(__file__).parents[1] / "unit/rules/nft.json").read_text())
    for text, kept in recorded.items():
        listing = list_rules(text, "the ruleset")
        for elements in (False, True):
            assert nftables_path(listing.json, listed=elements) == nftables_path(
                kept["json"], listed=elements
            )
        assert rule_texts(listing.text).keys() == rule_texts(kept["text"]).keys()
        assert sorted(listing.hidden) == [tuple(rule) for rule in kept.get("hidden", ())]


def test_included_files_are_loaded_and_their_lines_are_not_quoted(tmp_path: Path) -> None:
    office, shared = tmp_path / "office", tmp_path / "shared"
    office.mkdir()
    shared.mkdir()
    (office / "zones.nft").write_text('define LAN = { "lan", "wlan" }\n')
    (shared / "state.nft").write_text("ct state invalid drop\n")
    main = office / "main.nft"
    main.write_text(
        'include "./zones.nft"\n' + chain_of('include "state.nft"', "iifname $LAN udp dport 53 accept")
    )
    beside = RulesetFiles(include=(shared,))
    aimed, record = one_trial(main.read_text(), None, office, beside)
    assert (aimed.rule, aimed.inward) == ("forward rule 2 of table inet f", "lan")
    assert aimed.place.rule is not None
    assert aimed.place.rule.line == 6
    assert record.result.lost == 0
    (shared / "state.nft").write_text("ct stat secret drop\n")
    driver = dut.make("ruleset", main, HOST_FILES, beside)
    with pytest.raises(InputError, match=r"shared/state\.nft:1:\d+-\d+: Error: syntax error") as refusal:
        NetnsLab(driver)
    assert "secret" not in str(refusal.value)


def test_sets_of_ipset_are_loaded_before_the_rules(tmp_path: Path) -> None:
    if missing := tool.probe("ipset", RESTORE_SETS, ""):
        pytest.skip("; ".join(missing))
    sets = tmp_path / "my.sets"
    sets.write_text(
        "create bad hash:net\nadd bad 203.0.113.0/24\nadd bad 10.0.0.0/8\nadd bad 10.7.0.0/16 nomatch\n"
        "create good hash:ip,port\nadd good 10.7.0.9,udp:53\n"
    )
    text = (
        LEGACY + "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -m set --match-set bad src -j DROP\n"
        "-A FORWARD -m set --match-set good dst,dst -j ACCEPT\nCOMMIT\n"
    )
    beside = RulesetFiles(ipset=sets)
    dropped, record = one_trial(text, "1", tmp_path, beside)
    assert record.dropped_pps == pytest.approx(record.result.achieved_pps, rel=0.1)
    assert dropped.endpoints is not None
    passed, record = one_trial(text, None, tmp_path, beside)
    assert passed.endpoints is not None
    assert (passed.endpoints.destination[0], passed.endpoints.destination_port) == ("10.7.0.9", (53, 53))
    assert record.result.received > 0
    assert record.result.lost == 0


def test_interfaces_that_rules_need_exist_in_the_device(tmp_path: Path) -> None:
    text = (
        "define LAN = eth7\n"
        + chain_of('iif $LAN oif "ppp3" udp dport 53 accept', "iif { eth8, eth9 } drop")
        + "table netdev n {\nchain i {\n"
        + 'type filter hook ingress device "br5" priority 0; policy accept;\n}\n}\n'
    )
    aimed, record = one_trial(text, None, tmp_path)
    assert (aimed.inward, aimed.outward) == ("eth7", "ppp3")
    assert record.result.lost == 0


def test_commands_make_the_rules_that_iptables_makes_of_them(tmp_path: Path) -> None:
    text = (
        "iptables-nft -P FORWARD DROP\niptables-nft -N one\niptables-nft -N two\n"
        "iptables-nft -A one -p tcp -m multiport --dports 80,443 -m comment --comment \"a 'b' # c\" -j DROP\n"
        "iptables-nft -A FORWARD -i in0 -s 10.0.0.1,10.0.0.2 -d 10.1.0.1,10.1.0.2 -j one\n"
        "iptables-nft -I FORWARD -s 10.3.0.1,10.3.0.2 -j DROP\n"
        "iptables-nft -I FORWARD 3 -p udp --dport 53 -j ACCEPT\niptables-nft -R FORWARD 1 -p icmp -j ACCEPT\n"
        "iptables-nft -D FORWARD -s 10.3.0.1 -j DROP\niptables-nft -A two -j RETURN\niptables-nft -F two\n"
        "iptables-nft -t mangle -A FORWARD -j MARK --set-mark 5\niptables-nft -t mangle -N x\n"
        "iptables-nft -t mangle -X\niptables-nft -D FORWARD 6\n"
    )
    path = tmp_path / "my.sh"
    path.write_text(text)

    def saved(loads: list[LoadCommand]) -> list[str]:
        listed = tool.relisted(loads, ["iptables-nft-save"])
        assert listed is not None
        return [line for line in listed.splitlines() if not line.startswith("#")]

    source = RulesetSource(path, HOST_FILES)
    ours = saved([LoadCommand(["iptables-nft-restore"], source.text)])
    assert ours == saved([LoadCommand(shlex.split(line), "") for line in text.splitlines()])
    aimed, record = one_trial(text, None, tmp_path)
    assert aimed.place.rule is not None
    assert aimed.place.rule.line == 7
    assert record.result.lost == 0
    path.write_text("iptables -P FORWARD DROP\niptables -A FORWARD -m nothing -j DROP\n")
    driver = dut.make("ruleset", path, HOST_FILES)
    with pytest.raises(
        InputError, match=r"my\.sh, line 2: refused by iptables(?s:.*)\n *iptables -A .* nothing"
    ):
        NetnsLab(driver)


def test_rules_that_make_nft_wait_for_ever_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "MOST_S", 1)
    path = tmp_path / "my.rules"
    path.write_text(chain_of("accept") + "add table ip x\nmonitor\n")
    with pytest.raises(InputError, match="refused by nft: did not end within 1 s"):
        RulesetSource(path, HOST_FILES).path_of_packets(elements=True)
    driver = dut.make("ruleset", path, HOST_FILES)
    with pytest.raises(InputError, match="refused by nft: did not end within 1 s"):
        NetnsLab(driver)


@pytest.mark.parametrize(("ip", "rule"), [(4, "FORWARD rule 1"), (6, "FORWARD rule 2")])
def test_dumps_for_both_ip_versions_are_loaded_together(ip: Family, rule: str, tmp_path: Path) -> None:
    text = (
        "iptables -P FORWARD DROP\niptables -A FORWARD -p udp --dport 53 -j ACCEPT\n"
        "ip6tables -P FORWARD DROP\nip6tables -A FORWARD -p udp --dport 54 -j DROP\n"
        "ip6tables -A FORWARD -p udp --dport 55 -j ACCEPT\n"
    )
    aimed, record = one_trial(text, None, tmp_path, ip=ip)
    assert (aimed.ip, aimed.rule) == (ip, rule)
    assert record.result.lost == 0
    assert record.rules_met is not None
    assert (record.rules_met.contradiction, record.rules_met.counted_in) == ("", "device")
    dropped, record = one_trial(text, "1", tmp_path, ip=ip)
    assert dropped.drops == (ip == 6)


def test_dumps_in_which_policies_are_not_counted_are_resolved(tmp_path: Path) -> None:
    path = tmp_path / "my.save"
    path.write_text(LEGACY + "*filter\n:FORWARD DROP\n-A FORWARD -p udp --dport domain -j ACCEPT\nCOMMIT\n")
    (found,) = RulesetSource(path, HOST_FILES).resolved_path() or ()
    assert [rule.match.destination_port for rule in found.forward.rules] == [((53, 53),)]
