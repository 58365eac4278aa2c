"""The golden directory is written by::

    weir voice configs --plan federation --root /etc/voice --date 2026-11-22 \\
        --out tests/unit/numbering/golden
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from weirlab.base.errors import InputError
from weirlab.numbering.checking import check
from weirlab.numbering.configs import configs, gaps, put
from weirlab.numbering.routing import PlanNetwork

from .plans import network, ready_network

GOLDEN = Path(__file__).parent / "golden"
ABOUT = {"plan": "small"}


def made(net: PlanNetwork) -> dict[str, str]:
    return configs(net, "/etc/voice")


def test_the_configurations_of_the_federation_are_those_of_the_golden_directory() -> None:
    files = made(ready_network("federation"))
    listed = {str(p.relative_to(GOLDEN)) for p in GOLDEN.rglob("*") if p.is_file()} - {"manifest.json"}
    assert listed == files.keys()
    for name, text in files.items():
        assert text == (GOLDEN / name).read_text(), name


def test_the_manifest_names_every_file_with_its_digest(tmp_path: Path) -> None:
    put(made(network()), tmp_path, ABOUT)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["plan"] == "small"
    assert manifest["files"].keys() == made(network()).keys()


def test_files_that_are_not_made_any_more_are_removed_and_others_stay(tmp_path: Path) -> None:
    put({"a/x": "1", "b/y": "2"}, tmp_path, ABOUT)
    (tmp_path / "a/mine").write_text("3")
    put({"b/y": "4"}, tmp_path, ABOUT)
    assert {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()} == {
        "a/mine", "b/y", "manifest.json",
    }  # fmt: skip


def test_a_folder_of_somebody_else_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("1")
    with pytest.raises(InputError, match="the folder is not empty, and Weir did not write it"):
        put({"a": "1"}, tmp_path, ABOUT)


def test_every_scenario_is_well_formed() -> None:
    for name, text in made(ready_network("federation")).items():
        if name.endswith(".xml"):
            assert ElementTree.fromstring(text).tag == "scenario"


def test_a_call_that_is_to_be_refused_has_a_scenario_of_its_own() -> None:
    files = made(ready_network("federation"))
    assert '<recv response="404" rtd="true"/>' in files["sipp/uac-phone-404.xml"]
    assert "-sf uac-phone-404.xml 10.92.0.10:5060" in files["sipp/commands.txt"]


def test_a_fall_back_stands_in_the_table_and_in_the_dial_plan() -> None:
    net = network(
        (
            '{at: gw, arriving: sip, prefix: "+", to: gk}',
            '{at: gw, arriving: sip, prefix: "+", to: [gk, desk]}',
        )
    )
    files = made(net)
    assert "1:+420222:0,,sip\\:192.0.2.5\\:5060|sip\\:192.0.2.3\\:5060\n" in files["core/db/mtree_plan"]
    assert """exten => _+X!,1,Log(NOTICE,ROUTE num=${EXTEN} via=static target=gk|desk)
 same => n,Dial(OOH323/${EXTEN:1},30)
 same => n,GotoIf($["${DIALSTATUS}" != "CHANUNAVAIL" & "${DIALSTATUS}" != "CONGESTION"]?done)
 same => n,Dial(PJSIP/+${EXTEN:1}@desk,30)
 same => n(done),Hangup()
""" in files["gw/extensions.conf"]


LINES = """\
  fax: {kind: endpoint, protocols: [mgcp], address: 192.0.2.7, codecs: [ulaw], home: gw}
  pbx: {"""


def test_a_line_that_calls_is_known_to_its_gateway_which_waits_for_its_last_digit() -> None:
    net = network(
        ("protocols: [sip, h323], address: 192.0.2.3", "protocols: [sip, h323, mgcp], address: 192.0.2.3"),
        ("  pbx: {", LINES),
        ('sip, prefix: "+", to: gk}', 'mgcp, prefix: "+420", to: desk}'),
    )
    files = made(net)
    assert "[fax]\ncontext=from-mgcp\nhost=192.0.2.7\n" in files["gw/mgcp.conf"]
    assert "exten => _420.,1,Log(" in files["gw/extensions.conf"]


def test_a_whole_number_of_a_line_meets_its_own_bar_route_and_rule() -> None:
    """A pattern with ``.`` stands for longer numbers only."""
    net = network(
        ("protocols: [sip, h323], address: 192.0.2.3", "protocols: [sip, h323, mgcp], address: 192.0.2.3"),
        ("  pbx: {", LINES.replace("home: gw", "organisation: two, home: gw")),
        ("  two: {title: Two}", '  two: {title: Two, barred: ["+420222000007"]}'),
        ('sip, prefix: "+", to: gk}', 'mgcp, prefix: "+420222000009", to: desk}'),
        (
            "gw: {kind: gateway,",
            "gw: {kind: gateway, rewrite: [{match: '^112(.*)$', replace: '+420112\\1'}],",
        ),
    )
    text = made(net)["gw/extensions.conf"]
    for pattern in ("_420222000007", "_420222000009", "_112"):
        assert f"exten => {pattern},1," in text
        assert f"exten => {pattern}.,1," in text


def test_a_rule_that_leaves_nothing_of_a_whole_number_is_not_applied_to_it() -> None:
    net = network(
        ("protocols: [sip, h323], address: 192.0.2.3", "protocols: [sip, h323, mgcp], address: 192.0.2.3"),
        ("  pbx: {", LINES),
        ("gw: {kind: gateway,", "gw: {kind: gateway, rewrite: [{match: '^00(.*)$', replace: '+\\1'}],"),
    )
    text = made(net)["gw/extensions.conf"].partition("[from-mgcp]")[2]
    assert "exten => _00.,1,Goto(routes-mgcp,${EXTEN:2},1)" in text
    assert "exten => _00,1," not in text


def test_a_proxy_rewrites_by_groups_alternatives_and_repetitions() -> None:
    rules = r"[{match: '^(112|155)$', replace: '+420\1'}, {match: '^([2-79][0-9]{8})$', replace: '+420\1'}]"
    text = made(network(("core: {kind: proxy,", f"core: {{kind: proxy, rewrite: {rules},")))[
        "core/kamailio.cfg"
    ]
    assert r"if (subst_user('/^(112|155)$/+420\1/')) return;" in text
    assert r"if (subst_user('/^([2-79][0-9]{8})$/+420\1/')) return;" in text


def test_a_gateway_rewrites_one_number_and_no_longer_ones() -> None:
    rules = (
        "rewrite: [{match: '^(112)$', replace: '+420\\1'}, {match: '^15(.*)$', replace: '+42015\\1'}, "
        "{match: '^158$', replace: '+420100'}],"
    )
    text = made(network(("gw: {kind: gateway,", f"gw: {{kind: gateway, {rules}")))["gw/extensions.conf"]
    assert "exten => 112,1,Goto(routes-h323,420112,1)" in text
    assert "_112" not in text
    # The rule for 15... comes first in the plan, and Asterisk would prefer the number.
    assert "exten => 158" not in text


def test_a_line_with_two_call_agents_is_refused_with_its_line() -> None:
    more = "  other: {kind: gateway, protocols: [sip, mgcp], address: 192.0.2.8}\n" + LINES
    net = network(
        ("protocols: [sip, h323], address: 192.0.2.3", "protocols: [sip, h323, mgcp], address: 192.0.2.3"),
        ("  pbx: {", more),
        ('{at: gw, arriving: sip, prefix: "+", to: gk}', '{at: other, prefix: "+", to: fax}'),
    )
    with pytest.raises(InputError, match=r"plan\.yaml:\d+: fax would have the call agents gw, other"):
        made(net)
    assert any(each.code == "two call agents" for each in check(net))


def test_gatekeepers_know_whom_to_ask_and_who_may_ask() -> None:
    files = made(ready_network("translations"))
    table = json.loads(files["gk-west/gatekeeper.json"])
    assert table["neighbours"] == {"10.95.0.52": "gk-east"}
    (target,) = next(each["targets"] for each in table["prefixes"] if each["prefix"] == "4204")
    assert target == {"engine": "gk-east", "address": "10.95.0.52", "port": 1719, "neighbour": True}
    text = files["gk-west/gnugk.ini"]
    assert "default=internal,neighbor" in text
    assert (
        "[Neighbor::gk-east]\nGatekeeperIdentifier=gk-east\nHost=10.95.0.52:1719\nSendPrefixes=4204\n" in text
    )
    assert "10.95.0.52:1720=" not in text


def test_callers_with_rules_begin_in_a_context_of_their_organisation() -> None:
    files = made(ready_network("translations"))
    text = files["gw-west/extensions.conf"]
    barred = text[text.index("[rules-sip-of-west]") :].partition("[")[2].partition("\n[")[0]
    assert (
        barred
        == """rules-sip-of-west]
include => routes-sip
exten => _+420900!,1,Log(NOTICE,REJECTED num=${EXTEN} barred for west)
 same => n,Hangup(21)"""
    )
    assert "[phone]\ntype=endpoint\ncontext=from-sip-of-west\n" in files["gw-west/pjsip.conf"]
    assert "[fax]\ncontext=from-mgcp-of-west\n" in files["gw-west/mgcp.conf"]
    counted = text[text.index("[rules-h323-of-tenants]") :].partition("\n[")[0]
    assert (
        """\
exten => _X!,1,Set(GROUP(calls)=tenants)
 same => n,GotoIf($[${GROUP_COUNT(tenants@calls)} > 2]?full)
 same => n,GotoIf(${DIALPLAN_EXISTS(routes-h323,${EXTEN},1)}?routes-h323,${EXTEN},1)
 same => n,Wait(2)
 same => n,Hangup(1)
 same => n(full),Log(NOTICE,REJECTED num=${EXTEN} tenants has 2 calls)
 same => n,Wait(2)
 same => n,Hangup(34)"""
        in counted
    )
    assert "load=func_groupcount.so" in files["gw-west/modules.conf"]
    assert "[annex]\ntype=friend\ncontext=from-h323-of-tenants\n" in files["gw-west/ooh323.conf"]


def test_callers_that_are_not_admitted_begin_where_they_are_refused() -> None:
    files = made(ready_network("translations"))
    assert "[lounge]\ntype=endpoint\ncontext=refused\n" in files["gw-east/pjsip.conf"]
    # A gatekeeper sends it here, and it calls by itself: those who are admitted are listed.
    assert "\ncontext=refused\ngatekeeper=" in files["gw-east/ooh323.conf"]
    assert "[guest]" not in files["gw-east/ooh323.conf"]
    assert "[hall]\ntype=friend\ncontext=from-h323\nip=10.95.0.70\n" in files["gw-east/ooh323.conf"]
    assert """[refused]
exten => _+X!,1,Log(NOTICE,REJECTED num=${EXTEN} not admitted)
 same => n,Hangup(21)
exten => _X!,1,Log(NOTICE,REJECTED num=${EXTEN} not admitted)
 same => n,Wait(2)
 same => n,Hangup(21)
""" in files["gw-east/extensions.conf"]
    assert "refused" not in files["gw-west/extensions.conf"]
    assert "func_groupcount" not in made(ready_network("federation"))["gw-a/modules.conf"]


def test_gatekeepers_know_who_may_call_what_and_telephones_where_they_register() -> None:
    files = made(ready_network("translations"))
    callers = json.loads(files["gk-west/gatekeeper.json"])["callers"]
    assert callers["10.95.0.70"]["may_call"] == {"": True, "420900": False}
    assert (callers["10.95.0.72"]["engine"], callers["10.95.0.72"]["most_calls"]) == ("guest", 2)
    assert "10.95.0.73" not in callers
    assert not json.loads(files["gk-east/gatekeeper.json"])["callers"]["10.95.0.72"]["admitted"]
    assert "; Not here: rules of admission: " in files["gk-west/gnugk.ini"]
    hall, annex = (json.loads(files[f"{name}/telephone.json"]) for name in ("hall", "annex"))
    assert (hall["gatekeeper"]["engine"], hall["gatekeeper"]["port"], hall["home"]) == ("gk-west", 1719, None)
    assert (annex["gatekeeper"], annex["home"]["engine"], annex["home"]["port"]) == (None, "gw-west", 1720)


def test_gnu_gatekeeper_has_a_default_route_that_leaves_numbers_to_neighbours() -> None:
    far = "  far: {kind: gatekeeper, address: 192.0.2.8}\n  spare: {kind: endpoint, protocols: [h323], "
    net = network(
        ("trees:\n", f"{far}address: 192.0.2.9}}\ntrees:\n"),
        ('{at: gk, prefix: "+420", to: pbx}', '{at: gk, prefix: "+", to: [pbx, spare]}\n'
         '  - {at: gk, prefix: "+421", to: far}'),
    )  # fmt: skip
    text = made(net)["gk/gnugk.ini"]
    # RasTbl.cxx of GNU Gatekeeper: "*" makes a default gateway, whose priority is that of the gateway.
    assert "192.0.2.6:1720=pbx;*:=1,!421\n" in text
    assert (
        "192.0.2.9:1720=spare;*:=2,!421\n[EP::pbx]\nGatewayPriority=1\n[EP::spare]\nGatewayPriority=2" in text
    )
    assert "SendPrefixes=421\n" in text
    everywhere = network(
        ('{at: gk, prefix: "+420", to: pbx}', '{at: gk, prefix: "+", to: pbx, prepend: "1"}')
    )
    assert gaps(everywhere) == [
        "gk/gnugk.ini lacks digits in front of all numbers: GNU Gatekeeper replaces prefixes"
    ]
    assert gaps(network()) == []


def test_strip_and_prepend_reach_every_engine() -> None:
    net = network(
        ("to: [desk, gw]}", "to: gw, strip: 3, prepend: '421'}"),
        ('sip, prefix: "+", to: gk}', 'sip, prefix: "+", to: gk, strip: 3, prepend: "422"}'),
        ('{at: gk, prefix: "+420", to: pbx}', '{at: gk, prefix: "+422", to: pbx, strip: 3, prepend: "420"}'),
    )
    files = made(net)
    assert "1:+420222:3,421,sip" in files["core/db/mtree_plan"]
    assert "Dial(OOH323/422${EXTEN:4},30)" in files["gw/extensions.conf"]
    assert "pbx=out=422=420" in files["gk/gnugk.ini"]
    [prefix] = json.loads(files["gk/gatekeeper.json"])["prefixes"]
    assert (prefix["strip"], prefix["prepend"]) == (3, "420")


def test_who_may_not_call_is_refused_by_the_proxy() -> None:
    net = network(
        ("  one: {title: One}", "  one: {title: One, may_call: ['+420'], barred: ['+4209']}"),
        ("core: {kind: proxy,", "core: {kind: proxy, organisation: two,"),
        ("  two: {title: Two}", "  two: {title: Two, admits: []}"),
    )
    text = made(net)["core/kamailio.cfg"]
    admit = text[text.index("route[ADMIT] {") :].partition("}")[0]
    assert "src_ip == 192.0.2.1)" not in admit
    assert "if (src_ip == 192.0.2.3) return;  # gw" in admit
    assert 'sl_send_reply("403", "Not admitted");' in admit
    assert (
        """\
  if (src_ip == 192.0.2.1) {  # phone of one, plan.yaml:6
    if ($rU =~ "^\\+4209") { sl_send_reply("403", "Barred"); exit; }
    if ($rU =~ "^\\+420") { return; }
    sl_send_reply("403", "Barred"); exit;
  }
"""
        in text
    )


def test_an_inner_proxy_takes_calls_only_from_its_neighbours() -> None:
    far = "  far: {kind: proxy, address: 192.0.2.8, organisation: two}\n"
    guest = "  guest: {kind: endpoint, protocols: [sip], address: 192.0.2.9, organisation: one, home: far}\n"
    net = network(
        ("core: {kind: proxy,", "core: {kind: proxy, organisation: one, admits: [],"),
        ("trees:\n  public", f"{far}{guest}trees:\n  public"),
    )
    admit = made(net)["core/kamailio.cfg"].partition("route[ADMIT] {")[2].partition("}")[0]
    # Its own telephone, and an engine without an organisation; a telephone at home elsewhere is barred there.
    assert re.findall(r"src_ip == (\S+)\)", admit) == ["192.0.2.1", "192.0.2.3"]


def test_a_gateway_rewrites_a_number_once_in_every_context() -> None:
    rules = "rewrite: [{match: ^00(.*)$, replace: '+\\1'}, {match: ^(112)$, replace: '+420\\1'}]"
    net = network(
        (
            "protocols: [sip], address: 192.0.2.1, codecs: [alaw], organisation: one, home: core}",
            "protocols: [h323], address: 192.0.2.1, codecs: [ulaw], organisation: one, home: gw}",
        ),
        ("  one: {title: One}", "  one: {title: One, barred: ['+420900'], most_calls: 3}"),
        ("codecs: [alaw, ulaw]}", f"codecs: [alaw, ulaw], {rules}}}"),
        ("arriving: sip, ", ""),
    )
    plan = made(net)["gw/extensions.conf"]
    contexts = {each.partition("]")[0]: each for each in plan.split("\n[")[1:]}
    assert "from-h323-of-one" in contexts
    rewriting = [name for name, text in contexts.items() if "Goto(" in text and name.startswith("dialled-")]
    assert rewriting == ["dialled-sip", "dialled-h323", "dialled-h323-of-one"]
    for name in rewriting:
        (onward,) = set(re.findall(r",1,Goto\(([\w-]+),", contexts[name]))
        assert "{EXTEN:2}" not in contexts[onward]
        assert "routes-" in onward or "rules-" in onward


COUNTED = """\
# Calls of organisations that may have so many at once, each with its own count.
route[COUNT] {
  $var(organisation) = "";
  if (src_ip == 192.0.2.1) { $var(organisation) = "one"; $var(most) = 3; }  # phone, plan.yaml:6
  if ($var(organisation) == "") return;
"""


def test_a_proxy_counts_the_calls_of_organisations_with_a_limit_and_of_no_other() -> None:
    limited = made(network(("  one: {title: One}", "  one: {title: One, most_calls: 3}")))
    text = limited["core/kamailio.cfg"]
    assert COUNTED in text
    assert 'modparam("dialog", "profiles_with_value", "calls")\n' in text
    # What is barred is refused without being counted, and what is counted is routed.
    assert "  route(BARRED);\n  dlg_manage();\n  route(COUNT);\n  route(PREFIXES);\n" in text
    unlimited = made(network())["core/kamailio.cfg"]
    assert "COUNT" not in unlimited


@pytest.mark.parametrize("name", ["carriers", "cesnet", "federation"])
def test_kamailio_accepts_its_configuration(name: str, tmp_path: Path) -> None:
    program = shutil.which("kamailio", path="/usr/sbin:/usr/bin")
    if program is None:
        pytest.skip("needs kamailio (Debian: kamailio)")
    net = ready_network(name)
    put(configs(net, str(tmp_path)), tmp_path, ABOUT)
    proxy = next(engine for engine in net.plan.engines if net.plan.engines[engine].kind == "proxy")
    command = [program, "-c", "-f", tmp_path / proxy / "kamailio.cfg"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_name_server_listens_at_its_address_alone_whichever_version_of_ip() -> None:
    four = made(network())["named/named.conf"]
    assert "listen-on port 53 { 192.0.2.53; }; listen-on-v6 { none; };" in four
    six = made(network(("{ns.example.net: 192.0.2.53}", '{ns.example.net: "2001:db8::53"}')))[
        "named/named.conf"
    ]
    assert "listen-on { none; }; listen-on-v6 port 53 { 2001:db8::53; };" in six
