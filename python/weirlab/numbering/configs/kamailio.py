"""Kamailio 5.6: prefixes from a text table, trees of ENUM in their order, prefixes after them, then 404."""

from __future__ import annotations

from collections.abc import Iterator

from weirlab.numbering.configs import admission, enum, parts
from weirlab.numbering.routing import PlanNetwork, profiles

MODULES = (
    "tm", "tmx", "sl", "rr", "pv", "maxfwd", "textops", "siputils", "xlog", "enum", "ipops", "db_text",
    "mtree", "jsonrpcs", "ctl", "dialog",
)  # fmt: skip

BEGIN = """\
request_route {
  if (!mf_process_maxfwd_header("10")) { sl_send_reply("483", "Too Many Hops"); exit; }
  if (is_method("CANCEL")) { if (t_check_trans()) t_relay(); exit; }
  if (is_method("OPTIONS") && $rU == $null) { sl_send_reply("200", "OK"); exit; }
  if (has_totag()) { route(DIALOG); exit; }
  t_check_trans();
  if (!is_method("INVITE")) { sl_send_reply("405", "Method Not Allowed"); exit; }
  record_route();
  # Only the plan says where a call goes.
  remove_hf("Route");
  route(ADMIT);
  route(NUMBER);
  if ($var(number) == "") { sl_send_reply("484", "Address Incomplete"); exit; }
  $var(num) = $var(number);
  # A call that was here with the same number goes round in a loop.
  $var(here) = ";at-NAME=" + $(var(number){s.replace,+,p});
  $var(been) = $var(here) + "[;>]";
  if ($(hdr(Record-Route)[*]) =~ $var(been)) { sl_send_reply("482", "Loop Detected"); exit; }
  add_rr_param("$var(here)");
  $ru = "sip:" + $var(number) + "@SOCKET";
  route(REWRITE);
  if (!($rU =~ "^\\+[1-9][0-9]*$")) { sl_send_reply("484", "Address Incomplete"); exit; }
  route(BARRED);
  dlg_manage();
"""

NUMBER = """\
# The number in the one spelling that is compared and passed on: without escapes (RFC 3261, 19.1.4),
# separators and parameters (RFC 3966). It is empty for other text.
route[NUMBER] {
  $var(text) = "";
  $var(text) = $(rU{s.select,0,;}{s.unescape.user});
  $var(number) = "";
  if ($var(text) =~ "^(\\+[(). -]*)?[0-9][0-9(). -]*$")
    $var(number) = $(var(text){s.rm,-}{s.rm,.}{s.rm,(}{s.rm,)}{s.rmws});
}

# Requests within a call. One that can move it has to be of a call that began here (by Call-ID and tags), and
# moves it to no barred number. Others begin nothing: their call may be older than this process, or a branch.
route[DIALOG] {
  if (!is_method("ACK")) t_check_trans();
  if (!is_known_dlg()) {
    if (is_method("ACK|BYE|PRACK|INFO|UPDATE") && loose_route()) { t_relay(); exit; }
    if (is_method("ACK")) { if (t_check_trans()) t_relay(); exit; }
    xlog("L_NOTICE", "REJECTED num=$rU without a call, from $si\\n");
    sl_send_reply("481", "Call Does Not Exist");
    exit;
  }
  if (!loose_route()) {
    if (is_method("ACK")) { if (t_check_trans()) t_relay(); }
    else sl_send_reply("404", "Not Here");
    exit;
  }
  $var(uri) = $ru;
  $var(peer) = $dlg(to_contact);
  if ($ft != $dlg(from_tag)) $var(peer) = $dlg(from_contact);
  if (is_method("INVITE") && $var(uri) != $var(peer)) {
    route(NUMBER);
    if ($var(number) != "") $rU = $var(number);
    route(REWRITE);
    if ($rU =~ "^\\+[1-9]") route(BARRED);
    $ru = $var(uri);
  }
  t_relay();
}

"""

END = """\
  xlog("L_NOTICE", "ROUTE num=$var(num) via=none\\n");
  sl_send_reply("404", "No route to number");
  exit;
}
"""

PREFIXES = """\
# The longest prefix decides; the targets in its value are tried one after the other.
route[NAME] {
  if (!mt_match("TABLE", "$rU", "0")) return;
  $avp(targets) = $(var(found){s.select,2,,});
  $var(from) = 1 + $(var(found){s.select,0,,}{s.int});
  if ($var(from) > 1 || $(var(found){s.select,1,,}{s.len}) > 0) {
    $rU = "+" + $(var(found){s.select,1,,}) + $(rU{s.substr,$var(from),0});
  }
  $avp(tried) = 0;
  xlog("L_NOTICE", "HOW num=$var(num) via=static target=$avp(targets)\\n");
  if ($rU == "+") { sl_send_reply("484", "Address Incomplete"); exit; }
  route(NEXT);
}

"""

AFTER_TREES = """\
  $var(how) = "ROUTE";
  route(AFTER);
"""

AFTER_RECORDS = """\
  $ru = "sip:" + $avp(number) + "@" + $Ri;
  $var(num) = $avp(number);
  $var(how) = "REROUTE";
  route(AFTER);
"""

NEXT = """\
route[NEXT] {
  $var(rank) = $avp(tried);
  $var(target) = $(avp(targets){s.select,$var(rank),|});
  if ($var(target) == $null || $var(target) == "") return;
  $avp(tried) = $var(rank) + 1;
  $du = $var(target);
  t_on_failure("NEXT");
  route(RELAY);
}

failure_route[NEXT] {
  if (t_is_canceled()) exit;
FORWARDED  if (t_check_status("FALL_BACK")) route(NEXT);
}

""".replace("FALL_BACK", profiles.FALL_BACK)

FORWARDED = """\
  if (t_check_status("302")) route(FORWARD);
"""

FORWARD = """\
# An endpoint forwards: the number in its Contact is decided anew.
route[FORWARD] {
  $var(to) = $(T_rpl($ct){nameaddr.uri}{uri.user});
  if (!($var(to) =~ "^\\+[0-9]+$")) return;
  $avp(forwards) = $avp(forwards) + 1;
  if ($avp(forwards) > 5) { t_reply("482", "Loop Detected"); exit; }
  $ru = "sip:" + $var(to) + "@" + $Ri;
  $var(num) = $var(to);
DECIDE  xlog("L_NOTICE", "ROUTE num=$var(num) via=none\\n");
  t_reply("404", "No route to number");
  exit;
}

"""

RELAY = """\
route[RELAY] {
  if (!t_relay()) sl_reply_error();
  exit;
}
"""


def files(network: PlanNetwork, name: str, root: str) -> dict[str, str]:
    """``kamailio.cfg`` and the tables of prefixes."""
    found = {"kamailio.cfg": "\n".join(_lines(network, name, root)) + "\n"}
    tables = _tables(network, name)
    for table in tables:
        found[f"db/mtree_{table}"] = "\n".join(_table(network, name, table)) + "\n"
    if tables:
        known = "".join(f"mtree_{table}:1\n" for table in tables)
        found["db/version"] = f"table_name(string) table_version(int)\n{known}mtree:1\nmtrees:2\n"
    return found


def _tables(network: PlanNetwork, name: str) -> list[str]:
    """The tables of prefixes that have some: ``plan``, and ``after`` for routes after the trees."""
    return [
        table
        for table in ("plan", "after")
        if [*parts.routes(network, name, "sip", after_trees=table == "after")]
    ]


def _table(network: PlanNetwork, name: str, table: str) -> Iterator[str]:
    """strip,prepend,targets by prefix. A colon separates columns, so those within are escaped."""
    yield "id(int,auto) tprefix(string) tvalue(string)"
    listed = parts.routes(network, name, "sip", after_trees=table == "after")
    for count, (_, route) in enumerate(listed, 1):
        uris = "|".join(parts.sip_uri(network, each) for each in route.to)
        value = f"{route.strip},{route.prepend.removeprefix('+')},{uris}"
        escaped = value.replace(":", "\\:")
        yield f"{count}:{route.prefix}:{escaped}"


def _lines(network: PlanNetwork, name: str, root: str) -> Iterator[str]:
    plan = network.plan
    engine = plan.engines[name]
    tables = _tables(network, name)
    yield "#!KAMAILIO"
    where = parts.place(network, "engines", name)
    yield f"# Proxy {name} of plan {plan.plan} ({where}), made by weir voice: change the plan instead."
    yield "debug=2\nlog_stderror=yes\nfork=yes\nchildren=4"
    host = parts.address(network, name)
    socket = f"{f'[{host}]' if ':' in host else host}:{engine.port('sip')}"
    yield f"listen=udp:{socket}"
    if parts.uses_tcp(network):
        yield f"listen=tcp:{socket}\ntcp_children=2"
    yield "auto_aliases=no\ndns_cache_negative_ttl=5\ndns_use_search_list=no"
    yield "# The next target of an SRV record if one does not answer.\nuse_dns_failover=on"
    for module in MODULES:
        if tables or module not in ("db_text", "mtree"):
            yield f'loadmodule "{module}.so"'
    counted = admission.counts(network, name)
    yield "# 2: by Call-ID and tags, not by what a Route header says."
    yield 'modparam("dialog", "dlg_match_mode", 2)'
    if counted:
        yield from admission.modules()
    yield f'modparam("ctl", "binrpc", "unix:{root}/ctl")'
    yield 'modparam("jsonrpcs", "transport", 6)'
    yield f'modparam("jsonrpcs", "fifo_name", "{root}/fifo")'
    if tables:
        yield "# 1: no cache, so that mtree.reload reads the table again."
        yield 'modparam("db_text", "db_mode", 1)'
        yield f'modparam("mtree", "db_url", "text://{root}/db")'
        for table in tables:
            yield f'modparam("mtree", "mtree", "name={table};dbtable=mtree_{table};type=0")'
        yield 'modparam("mtree", "char_list", "0123456789+")'
        yield 'modparam("mtree", "pv_value", "$var(found)")'
    yield 'modparam("tm", "contacts_avp", "$avp(contacts)")'
    yield 'modparam("tm", "contact_flows_avp", "$avp(flows)")'
    yield 'modparam("tm", "fr_timer", 3000)\n'
    calls = "  route(PREFIXES);\n" if "plan" in tables else ""
    calls += "  route(TREES);\n" if engine.trees else ""
    calls += AFTER_TREES if "after" in tables else ""
    forwarded = FORWARDED if parts.forwards(network) else ""
    begun = (admission.CALL if counted else "") + ("  $avp(forwards) = 0;\n" if forwarded else "")
    yield BEGIN.replace("SOCKET", socket).replace("NAME", name) + begun + calls + END
    yield NUMBER.rstrip("\n") + "\n"
    yield from _admission(network, name)
    yield from _rewriting(network, name)
    yield from _permissions(network, name)
    if counted:
        yield from admission.route(network, name)
    if tables:
        for table in tables:
            block, how = ("PREFIXES", "ROUTE") if table == "plan" else ("AFTER", "$var(how)")
            text = PREFIXES.replace("NAME", block).replace("TABLE", table).replace("HOW", how)
            yield text.rstrip("\n") + "\n"
        yield NEXT.replace("FORWARDED", forwarded).rstrip("\n") + "\n"
    if engine.trees:
        yield from enum.blocks(network, name, forwarded, AFTER_RECORDS if "after" in tables else "")
    if forwarded:
        yield FORWARD.replace("DECIDE", calls).rstrip("\n") + "\n"
    yield RELAY.rstrip("\n")


def _admission(network: PlanNetwork, name: str) -> Iterator[str]:
    engine = network.plan.engines[name]
    yield "route[ADMIT] {"
    if network.admitted(engine) is None:
        yield "  return;  # calls from any address: the plan has no admits for it\n}\n"
        return
    where = parts.place(network, *network.admission(name))
    yield f"  # Engines of admitted organisations, and telephones at home here: {where}"
    for other in admission.senders(network, name):
        yield f"  if (src_ip == {parts.address(network, other)}) return;  # {other}"
    yield '  xlog("L_NOTICE", "REJECTED num=$rU not admitted from $si\\n");'
    yield '  sl_send_reply("403", "Not admitted");\n  exit;\n}\n'


def _rewriting(network: PlanNetwork, name: str) -> Iterator[str]:
    yield "# Numbers as they are dialled to international ones; the first rule that matches."
    yield "route[REWRITE] {"
    # Invalid rules are refused with their place.
    rules = zip(network.plan.engines[name].rewrite, network.rewrites[name], strict=True)
    for i, (rule, _) in enumerate(rules):
        location = ("engines", name, "rewrite", i)
        if limit := profiles.rewrite_limit(network.plan.engines[name], rule):
            raise parts.refuse(network, location, limit)
        shape = profiles.simple(rule)
        if shape is not None:
            goes, comes = shape
            pattern = "^" + goes.replace("+", "\\+")
            yield f"  # {parts.place(network, *location)}"
            change = f'$rU = "{comes}" + $(rU{{s.substr,{len(goes)},0}});'
            yield f'  if ($rU =~ "{pattern}") {{ {change} return; }}'
        else:
            yield f"  # {parts.place(network, *location)}"
            yield f"  if (subst_user('/{rule.match}/{rule.replace}/')) return;"
    yield "  return;\n}\n"


def _permissions(network: PlanNetwork, name: str) -> Iterator[str]:
    yield "# What callers may not call; the longest prefix decides."
    yield "route[BARRED] {"
    for other, caller in network.plan.engines.items():
        if caller.home != name or not caller.address or caller.organisation is None:
            continue
        permissions = network.permissions[caller.organisation]
        if [*permissions] == [""]:
            continue
        where = parts.place(network, "organisations", caller.organisation)
        yield f"  if (src_ip == {caller.address}) {{  # {other} of {caller.organisation}, {where}"
        for prefix in sorted(permissions, key=lambda each: (-len(each), each)):
            action = "return;" if permissions.get(prefix) else 'sl_send_reply("403", "Barred"); exit;'
            yield f'    if ($rU =~ "^\\+{prefix}") {{ {action} }}'
        if "" not in permissions:
            yield '    sl_send_reply("403", "Barred"); exit;'
        yield "  }"
    yield "  return;\n}\n"
