"""The text of generated rules, and reading the user's."""

from __future__ import annotations

import hashlib
import ipaddress
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.errors import InputError, LabError
from weirlab.base.files import HOST_FILES
from weirlab.lab import dut
from weirlab.lab.dut import iptables, nftables, rules, tool
from weirlab.lab.dut.aiming import candidates
from weirlab.lab.dut.ruleset import RulesetDriver
from weirlab.lab.dut.rulesets.listing import better_format
from weirlab.lab.dut.rulesets.source import RulesetFiles, RulesetSource, sniff, variant
from weirlab.records import RuleEncounters, RuleSetup
from weirlab.rules.iptables.saved import by_family, iptables_path
from weirlab.testing.bed import SITE
from weirlab.traffic.spec import Flows

families = st.sampled_from(rules.FAMILIES)


@given(families, st.integers(0, rules.MAX_POSITION - 1))
def test_fillers_never_match_test_traffic(ip: rules.Family, last: int) -> None:
    """The last of ``last + 1`` fillers, by way of the functions that make them one by one."""
    source = ipaddress.ip_network(rules._subnet(ip, last))
    test = rules.test_traffic(ip)
    assert not source.overlaps(ipaddress.ip_network(test.source))
    assert source.is_private
    assert ipaddress.ip_address(rules._server(ip, last)) not in ipaddress.ip_network(test.destination)


@given(families, st.integers(1, 3000))
def test_fillers_differ_from_each_other(ip: rules.Family, count: int) -> None:
    matches = list(rules.fillers(ip, count))
    assert len(matches) == count
    assert len({match.source for match in matches}) == count


def test_fillers_use_both_protocols() -> None:
    assert {match.protocol for match in rules.fillers(4, 8)} == {"tcp", "udp"}


def test_iptables_rules_end_with_the_one_for_test_traffic() -> None:
    assert iptables.ruleset(4, RuleSetup(3)) == (
        "*filter\n"
        ":INPUT ACCEPT [0:0]\n"
        ":FORWARD DROP [0:0]\n"
        ":OUTPUT ACCEPT [0:0]\n"
        "-A FORWARD -s 10.0.0.0/28 -d 172.16.0.0 -p tcp --dport 22 -j ACCEPT\n"
        "-A FORWARD -s 10.0.0.16/28 -d 172.16.0.1 -p tcp --dport 25 -j ACCEPT\n"
        "-A FORWARD -s 198.18.0.0/16 -d 198.19.0.0/16 -j ACCEPT\n"
        "COMMIT\n"
    )


def test_position_0_is_an_accepting_chain_without_rules() -> None:
    assert "-A" not in iptables.ruleset(6, RuleSetup())
    assert ":FORWARD ACCEPT" in iptables.ruleset(6, RuleSetup())
    text = nftables.ruleset(RuleSetup(), "set")
    assert text.count("policy accept;") == 2
    assert "saddr" not in text


def test_stateful_rules_look_at_the_state_first() -> None:
    first = next(
        line for line in iptables.ruleset(4, RuleSetup(2, stateful=True)).splitlines() if "-A" in line
    )
    assert first == "-A FORWARD -m conntrack --ctstate INVALID -j DROP"
    lines = nftables.ruleset(RuleSetup(2, stateful=True), "linear").splitlines()
    assert lines[3].strip() == "ct state invalid drop"


def test_nftables_layouts() -> None:
    linear = nftables.ruleset(RuleSetup(2), "linear")
    assert "    ip saddr 10.0.0.0/28 ip daddr 172.16.0.0 tcp dport 22 accept\n" in linear
    assert "    ip6 saddr 2001:2:0:1::/64 ip6 daddr 2001:2:0:2::/64 accept\n" in linear
    assert "elements = { 10.0.0.0/28, 198.18.0.0/16 }" in nftables.ruleset(RuleSetup(2), "set")
    vmap = nftables.ruleset(RuleSetup(2), "vmap")
    assert "elements = { 10.0.0.0/28 : drop, 198.18.0.0/16 : accept }" in vmap
    assert "type ipv6_addr : verdict; flags interval;" in vmap


@pytest.mark.parametrize("position", [-1, rules.MAX_POSITION + 1])
def test_positions_out_of_range_are_refused(position: int) -> None:
    with pytest.raises(InputError, match=f"matching position {position}"):
        rules.check(RuleSetup(position))


def test_names_of_drivers() -> None:
    assert list(dut.drivers()) == [
        "forward", "iptables", "iptables-legacy", "iptables-nft", "nftables", "nftables-set",
        "nftables-vmap", "bridge", "bridge-ebtables", "flowtable", "nat", "nat-static", "openvswitch",
        "tc-flower", "xdp-filter", "image", "ruleset", "blackbox", "esp", "esp-udp", "openvpn",
        "strongswan", "strongswan-kernel", "strongswan-libipsec", "vm-esp", "vm-wireguard", "wireguard",
        "wireguard-go", "wireguard-kernel", "link", "keepalived", "ucarp", "vm",
    ]  # fmt: skip
    for name in ("forward", "iptables-legacy", "iptables-nft", "nftables", "nftables-set", "nftables-vmap"):
        assert dut.make(name).name == name


def test_unknown_driver_is_refused_with_a_guess_and_the_list() -> None:
    with pytest.raises(
        InputError, match=r"'nftable' \(did you mean nftables\?\); there are: forward, .*ruleset"
    ):
        dut.make("nftable")


def test_file_and_driver_must_fit(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs a file with rules: --ruleset FILE"):
        dut.make("ruleset")
    with pytest.raises(InputError, match="choose the device 'ruleset'"):
        dut.make("iptables-nft", tmp_path / "rules")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# Generated by iptables-save v1.8.9 on ...\n*filter\nCOMMIT\n", "iptables-save"),
        ("\n\n*nat\n", "iptables-save"),
        ("#!/usr/sbin/nft -f\n\nflush ruleset\n", "nft"),
        ("table inet filter {\n}\n", "nft"),
        ("define lan = 10.0.0.0/8\n", "nft"),
        ("add rule ip f c accept\n", "nft"),
        ('{"nftables": []}', "nft-json"),
    ],
)
def test_format_is_recognised_by_its_first_words(text: str, found: str) -> None:
    assert sniff(text, "f") == found


def test_unknown_format_names_file_and_line() -> None:
    with pytest.raises(InputError, match=r"fw\.conf, line 3: neither "):
        sniff("# comment\n\nset firewall name LAN\n", "fw.conf")
    with pytest.raises(InputError, match="empty: has no rules"):
        sniff("# only a comment\n", "empty")


@pytest.mark.parametrize(
    ("text", "ip"),
    [
        ("# Generated by ip6tables-save v1.8.9 on x\n*filter\n", 6),
        ("# Generated by iptables-nft-save v1.8.9 (nf_tables) on x\n*filter\n", 4),
        ("*filter\n-A FORWARD -s 10.0.0.0/8 -j DROP\n", 4),
        ("*filter\n-A FORWARD -s fd00::/8 -j DROP\n", 6),
        ("*filter\n-A FORWARD --destination 2001:db8::1 -j DROP\n", 6),
        ("*filter\nCOMMIT\n", 4),
        ("*filter\n[7:900] -A FORWARD -p ipv6-icmp -j ACCEPT\n", 6),
        ("*filter\n-A FORWARD -m iprange --src-range fd00::1-fd00::9 -j ACCEPT\n", 6),
        ("*nat\n-A PREROUTING -p udp -j DNAT --to-destination [2001:db8::5]:5060\nCOMMIT\n", 6),
        ("*nat\n-A PREROUTING -p udp -j DNAT --to-destination 10.0.0.5:5060\nCOMMIT\n", 4),
    ],
)
def test_ip_version_is_that_of_the_header_or_of_what_rules_compare(text: str, ip: int) -> None:
    assert list(by_family(text)) == [ip]


def _rules_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


FOUR = "*filter\n:FORWARD DROP [1:1]\n[3:3] -A FORWARD -p tcp -j ACCEPT\nCOMMIT\n"
SIX = FOUR.replace("-p tcp", "-s 2001:db8::/32 -p tcp")


@pytest.mark.parametrize(
    "texts",
    [
        (
            f"# Generated by iptables-save v1.8.9 on x\n{FOUR}",
            f"# Generated by ip6tables-save v1.8.9 on x\n{FOUR}",
        ),
        (FOUR, SIX),
        (FOUR.replace("-p tcp", "-s 10.0.0.0/8 -p tcp"), FOUR),
        (FOUR, FOUR),
    ],
)
def test_two_dumps_in_one_file_are_those_of_ipv4_and_ipv6(texts: tuple[str, str], tmp_path: Path) -> None:
    both = "".join(texts)
    assert [_rules_of(text) for text in by_family(both).values()] == [_rules_of(text) for text in texts]
    file = tmp_path / "both.save"
    file.write_text(both)
    path = RulesetSource(file, HOST_FILES).path_of_packets(elements=False)
    assert [each.families for each in path] == [(4,), (6,)]
    driver = dut.make("ruleset", file, HOST_FILES)
    assert isinstance(driver, RulesetDriver)
    assert [load.command[0].split("-")[0] for load in driver._loads] == ["iptables", "ip6tables"]
    assert [_rules_of(load.text) for load in driver._loads] == [_rules_of(text) for text in texts]


def test_rules_saved_by_the_nft_back_end_are_loaded_by_it() -> None:
    assert variant("# Generated by iptables-save v1.8.9 (nf_tables) on x\n*filter\n") == "nft"


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.rules: no such file; give the path of a ruleset"):
        dut.make("ruleset", tmp_path / "missing.rules", HOST_FILES)
    with pytest.raises(InputError, match="that is a folder; give the path of a ruleset"):
        dut.make("ruleset", tmp_path, HOST_FILES)
    binary = tmp_path / "binary"
    binary.write_bytes(b"*filter\n\xff\xfe")
    with pytest.raises(InputError, match="binary:2:1: not UTF-8"):
        dut.make("ruleset", binary, HOST_FILES)


def test_the_word_include_in_a_comment_is_no_include(tmp_path: Path) -> None:
    path = tmp_path / "office.nft"
    path.write_text('table ip t { # include "x"\n chain c { comment "we include \n"; accept }\n}\n')
    driver = dut.make("ruleset", path, HOST_FILES)
    assert isinstance(driver, RulesetDriver)
    assert driver.format == "nft"


@pytest.mark.parametrize(
    "content",
    [
        "root:secret:19000:0:99999:7:::\n",
        "# comment\nTOKEN=secret\n",
        '{"token": "secret", "secret": [1]}\n',
        "-----BEGIN PRIVATE KEY-----\nsecret\n",
    ],
)
def test_a_file_that_is_no_ruleset_is_not_quoted(content: str, tmp_path: Path) -> None:
    path = tmp_path / "shadow"
    path.write_text(content)
    with pytest.raises(InputError, match="shadow") as caught:
        RulesetSource(path, HOST_FILES).path_of_packets(elements=True)
    assert "secret" not in str(caught.value)


def test_facts_identify_the_file(tmp_path: Path) -> None:
    path = tmp_path / "office.nft"
    path.write_text("table ip t {\n}\n")
    facts = dut.make("ruleset", path, HOST_FILES).facts()
    assert facts["ruleset"] == "office.nft"
    assert facts["ruleset_format"] == "nft"
    assert facts["ruleset_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


IPTABLES_SAYS = (
    'iptables-restore v1.8.9 (legacy): unknown option "--dprt"\n'
    "Error occurred at line: 2\n"
    "Try `iptables-restore -h' or 'iptables-restore --help' for more information.\n"
)
NFT_SAYS = "/dev/stdin:2:3-6: Error: syntax error, unexpected string\n  rule\n  ^^^^\n"


def test_refusal_shows_the_words_of_iptables_and_the_line() -> None:
    message = tool.refusal(
        "iptables-legacy-restore", IPTABLES_SAYS, "*filter\n-A FORWARD --dprt 5\n", "my.rules"
    )
    assert message == (
        "my.rules, line 2: refused by iptables-legacy-restore: "
        'iptables-restore v1.8.9 (legacy): unknown option "--dprt"\n'
        "    -A FORWARD --dprt 5"
    )


def test_refusal_shows_the_words_of_nft_with_the_files_name() -> None:
    message = tool.refusal("nft", NFT_SAYS, "table ip t {\n  rule\n}\n", "my.nft")
    assert message.startswith("my.nft, line 2: refused by nft: my.nft:2:3-6: Error: syntax error")
    assert message.count("rule\n") == 1


@pytest.mark.parametrize(
    ("refusal", "line", "output"),
    [
        ("Error: unsupported xtables compat expression", "xt match recent drop", "iptables-save -c"),
        ("Error: syntax error, unexpected reject", "counter packets 5 bytes 9 jump reject", "nft -j"),
        ("Error: syntax error, unexpected reject", "jump reject # handle 7", "nft -j"),
        ("Error: syntax error, unexpected reject", "counter jump reject", ""),
    ],
)
def test_a_listing_that_nft_does_not_load_is_to_be_given_in_another_format(
    refusal: str, line: str, output: str
) -> None:
    assert output in (found := better_format(refusal, line))
    assert bool(found) == bool(output)


def test_refusal_without_a_line_or_words_still_says_who_refused_what() -> None:
    assert tool.refusal("nft", "", "", "my.nft") == "my.nft: refused by nft: no reason given"
    assert (
        tool.refusal("nft", "Operation not permitted\n", "", "f")
        == "f: refused by nft: Operation not permitted"
    )


def test_refusal_of_very_many_lines_is_cut() -> None:
    message = tool.refusal("nft", "\n".join(f"error {i}" for i in range(50)), "", "f")
    assert "error 7" in message
    assert "error 8" not in message
    assert message.endswith("... and 42 more lines")


def test_missing_tool_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool.programs, "find", lambda name: None)
    assert dut.make("nftables").check() == ["nft is not installed: apt install nftables"]
    assert dut.make("iptables-legacy").check() == [
        "iptables-legacy-restore is not installed: apt install iptables"
    ]
    assert dut.make("forward").check() == []


def test_rules_of_the_user_that_the_tool_refuses_are_bad_input_and_ours_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = SimpleNamespace(call=lambda _: CompletedProcess([], 2, "", "line 2: unknown \x1b[31m option"))
    monkeypatch.setattr(tool, "Namespace", lambda _: refusing)
    file = tmp_path / "my.rules"
    file.write_text(f"*filter\n-A FORWARD --nonsense {'x' * 5000}\nCOMMIT\n")
    with pytest.raises(InputError, match=r"my\.rules, line 2: refused by iptables") as refused:
        dut.make("ruleset", file, HOST_FILES).apply(SITE, RuleSetup())
    assert len(str(refused.value)) < 1000
    with pytest.raises(LabError, match="generated rules, line 2: refused by"):
        iptables.Iptables("legacy").apply(SITE, RuleSetup(3))


@pytest.mark.parametrize("option", ["--match-set bad src -j DROP", "-j SET --add-set seen src"])
def test_rules_with_sets_need_the_sets(option: str, tmp_path: Path) -> None:
    path = tmp_path / "my.save"
    path.write_text(f"*filter\n:FORWARD ACCEPT [0:0]\n[0:0] -A FORWARD -m set {option}\nCOMMIT\n")
    with pytest.raises(InputError, match=r"my\.save: these rules match sets .* with --ipset FILE"):
        dut.make("ruleset", path, HOST_FILES)


def test_what_belongs_to_other_rules_is_refused(tmp_path: Path) -> None:
    saved, nft = tmp_path / "my.save", tmp_path / "my.nft"
    saved.write_text("*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n")
    nft.write_text("table ip t {\n}\n")
    with pytest.raises(InputError, match="--include is for rules of nft, and these are iptables-save"):
        dut.make("ruleset", saved, HOST_FILES, RulesetFiles(include=(tmp_path,)))
    with pytest.raises(InputError, match="--ipset is for rules of iptables, and these are nft"):
        dut.make("ruleset", nft, HOST_FILES, RulesetFiles(ipset=saved))
    with pytest.raises(InputError, match="go with a ruleset, not with the device 'nftables'"):
        dut.make("nftables", None, HOST_FILES, RulesetFiles(ipset=saved))


def test_packets_of_the_hosts_themselves_do_not_count_as_test_packets_that_missed_their_rule() -> None:
    (path,) = iptables_path("*filter\n:FORWARD DROP [0:0]\n-A FORWARD -p udp -j ACCEPT\nCOMMIT\n")
    found = replace(
        next(candidates([path], "rules", None, Flows())), checked=RuleEncounters(1.0, 1.0, 1.0, "copy")
    )
    counters = {"rule_matched": 100, "in_rx_packets": 103}
    assert found.rules_met(counters, sent=100) == RuleEncounters(1.0, 1.0, 1.0, "copy")
    assert found.rules_met(counters | {"rule_matched": 50}, sent=100) == RuleEncounters(1.0, 1.0, 0.5, "copy")
    overload = {"rule_matched": 40, "in_rx_packets": 40}
    assert found.rules_met(overload, sent=100) == RuleEncounters(1.0, 1.0, 1.0, "copy")


def test_icmp_alone_does_not_make_rules_those_of_ipv4() -> None:
    icmp = "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -p icmp -j ACCEPT\n"
    assert [*by_family(f"{icmp}COMMIT\n")] == [4]
    assert [*by_family(f"{icmp}-A FORWARD -s fd00::/8 -j ACCEPT\nCOMMIT\n")] == [6]
    assert [*by_family(f"{icmp}-A FORWARD -p ipv6-icmp -j ACCEPT\nCOMMIT\n")] == [6]
