"""Trees of ENUM in the configuration of Kamailio: which record comes first, and what is tried after it."""

from __future__ import annotations

from collections.abc import Iterator

from weirlab.numbering.configs import parts
from weirlab.numbering.routing import PlanNetwork, profiles

DIGITS = """\
route[TREES] {
  if (!($rU =~ "^\\+[0-9]{1,15}$")) return;
  $var(digits) = "";
  $var(i) = 1;
  while ($var(i) < $(rU{s.len})) {
    $var(digits) = $(rU{s.substr,$var(i),1}) + "." + $var(digits);
    $var(i) = $var(i) + 1;
  }
"""

TREE = """\
route[TREE_NAME] {
  if (naptr_query("$var(digits)SUFFIX", "n") != 1) return;
  route(FIRST);
REFERRED  $avp(number) = $rU;
  $avp(gateway) = $var(second);
  $avp(suffix) = "";
  if ($var(first) == "e2u+sip") {
    if (!enum_query("ASKED.")) return;
    xlog("L_NOTICE", "ROUTE num=$var(num) via=VIA target=$ru\\n");
    route(RECORDS);
    t_reply("503", "No target can be reached");
    exit;
  }
H323}

"""

H323 = """\
  if ($var(first) == "e2u+h323") {
    if ($var(sip) == 1) $avp(suffix) = "ASKED.";
    $du = $avp(gateway);
    xlog("L_NOTICE", "ROUTE num=$var(num) via=VIA target=$du\\n");
    t_on_failure("GATEWAY");
    route(RELAY);
  }
"""

REFERRED = """\
  $var(suffix) = "SUFFIX";
  if ($var(first) == "refer") route(REFER);
KNOWN
"""

REFER = """\
# A non-terminal record: its replacement is the name to ask instead, the number below another suffix.
route[REFER] {
  if (naptr_query("$var(refer)", "n") != 1) return;
  $var(skip) = $(var(digits){s.len});
  $var(suffix) = $(var(refer){s.substr,$var(skip),0});
  route(FIRST);
}

"""

FIRST = """\
# Of the services that are used here: which comes first in order and preference, and which are there at all?
route[FIRST] {
  $var(first) = "";
  $var(second) = "";
  $var(sip) = 0;
  $var(order) = 65536;
  $var(preference) = 65536;
  $var(i) = 0;
  while ($var(i) < $naptrquery(n=>count)) {
    $var(service) = $(naptrquery(n=>services[$var(i)]){s.tolower});
NONTERMINAL    $var(o) = $(naptrquery(n=>order[$var(i)]){s.int});
    $var(p) = $(naptrquery(n=>pref[$var(i)]){s.int});
    if (USED) {
SECOND      if ($var(o) < $var(order) || ($var(o) == $var(order) && $var(p) < $var(preference))) {
        $var(first) = $var(service);
        $var(order) = $var(o);
        $var(preference) = $var(p);
CHOSEN      }
    }
    $var(i) = $var(i) + 1;
  }
}

"""

SECOND = """\
      if ($var(service) == "e2u+h323") $var(second) = "GATEWAY";
      if ($var(service) == "e2u+sip") $var(sip) = 1;
"""

RECORD = """\
# One record for SIP after the other: by itself, enum_query makes them branches of one call.
route[RECORDS] {
  t_load_contacts();
  t_next_contacts();
  t_newtran();
  t_set_disable_internal_reply("1");
  t_on_failure("RECORD");
  if (t_relay()) exit;
  route(LATER);
}

# The next record, then what comes after them. A host without an address fails at once.
route[LATER] {
  while (t_next_contacts()) {
    t_on_failure("RECORD");
    if (t_relay()) exit;
  }
TO_GATEWAYAFTER}

failure_route[RECORD] {
  if (t_is_canceled()) exit;
FORWARDED  if (t_check_status("FALL_BACK")) route(LATER);
}

""".replace("FALL_BACK", profiles.FALL_BACK)

TO_GATEWAY = """\
  if ($avp(gateway) != "") {
    $ru = "sip:" + $avp(number) + "@" + $Ri;
    $du = $avp(gateway);
    $avp(gateway) = "";
    t_on_failure("GATEWAY");
    route(RELAY);
  }
"""

GATEWAY = """\
# The gateway failed: the records for SIP, if they come after that for H.323.
failure_route[GATEWAY] {
  if (t_is_canceled()) exit;
FORWARDED  if (!t_check_status("FALL_BACK")) exit;
  if ($avp(suffix) != "") {
    $ru = "sip:" + $avp(number) + "@" + $Ri;
    $du = $null;
    $avp(gateway) = "";
    route(ASK);
  }
AFTER}

route[ASK] {
  if (enum_query("$avp(suffix)")) route(RECORDS);
}

""".replace("FALL_BACK", profiles.FALL_BACK)


def blocks(network: PlanNetwork, name: str, forwarded: str, after: str) -> Iterator[str]:
    """Route blocks.

    ``forwarded`` are the lines for a call that an endpoint forwards, ``after`` those for one whose records
    failed.
    """
    plan = network.plan
    engine = plan.engines[name]
    for i, entry in enumerate(plan.enum):
        if name in network.askers[entry.tree]:
            for j, record in enumerate(entry.naptr):
                if limit := profiles.record_limit(engine, entry, record):
                    raise parts.refuse(network, ("enum", i, "naptr", j), limit)
    gateway = parts.sip_uri(network, engine.hand_over["h323"]) if "h323" in engine.hand_over else ""
    yield "# Trees of ENUM, in the order in which they are asked."
    asked = [
        f"  route(TREE_{_upper(tree)});  # {parts.place(network, 'trees', tree)}" for tree in engine.trees
    ]
    yield DIGITS + "\n".join(asked) + "\n}\n"
    refers = parts.refers(network)
    known = (
        f'  if ($var(suffix) == "{tree.suffix}") $var(via) = "{each}";' for each, tree in plan.trees.items()
    )
    referred = REFERRED.replace("KNOWN", "\n".join(known)) if refers else ""
    for tree in engine.trees:
        text = TREE.replace("REFERRED", referred).replace("H323", H323 if gateway else "")
        text = text.replace("ASKED", "$var(suffix)" if refers else "SUFFIX")
        text = text.replace("VIA", "$var(via)" if refers else tree)
        text = text.replace("SUFFIX", plan.trees[tree].suffix)
        yield text.replace("TREE_NAME", f"TREE_{_upper(tree)}").rstrip("\n") + "\n"
    used = '$var(service) == "e2u+sip"' + (' || $var(service) == "e2u+h323"' if gateway else "")
    nonterminal = chosen = ""
    if refers:
        used += ' || $var(service) == "refer"'
        nonterminal = '    if ($(naptrquery(n=>replace[$var(i)]){s.len}) > 0) $var(service) = "refer";\n'
        chosen = "        $var(refer) = $naptrquery(n=>replace[$var(i)]);\n"
        yield REFER.rstrip("\n") + "\n"
    second = SECOND.replace("GATEWAY", gateway) if gateway else ""
    first = FIRST.replace("SECOND", second).replace("NONTERMINAL", nonterminal)
    yield first.replace("CHOSEN", chosen).replace("USED", used).rstrip("\n") + "\n"
    for failed in (RECORD, GATEWAY) if gateway else (RECORD,):
        text = failed.replace("TO_GATEWAY", TO_GATEWAY if gateway else "").replace("AFTER", after)
        yield text.replace("FORWARDED", forwarded).rstrip("\n") + "\n"


def _upper(tree: str) -> str:
    """A tree's name, as part of the name of its route block."""
    return tree.upper().replace("-", "_")
