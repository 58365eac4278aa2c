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
REFERRED  if ($var(first) == "e2u+sip") {
    $avp(number) = $rU;
    $avp(gateway) = $var(second);
    if (!enum_query("ASKED.")) return;
    # One record after the other: by itself, enum_query makes them branches of one call.
    t_load_contacts();
    t_next_contacts();
    xlog("L_NOTICE", "ROUTE num=$var(num) via=VIA target=$ru\\n");
    t_on_failure("RECORD");
    route(RELAY);
  }
  if ($var(first) == "e2u+h323") {
    $du = "GATEWAY";
    xlog("L_NOTICE", "ROUTE num=$var(num) via=VIA target=$du\\n");
    route(RELAY);
  }
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
# Of the services that are used here: which comes first in order and preference, and does H.323 come after it?
route[FIRST] {
  $var(first) = "";
  $var(second) = "";
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

# The record for SIP failed: the next one, then the number to the gateway, if there is a record for H.323.
failure_route[RECORD] {
  if (t_is_canceled()) exit;
FORWARDED  if (!t_check_status("FALL_BACK")) exit;
  if (t_next_contacts()) {
    t_on_failure("RECORD");
    route(RELAY);
  }
  if ($avp(gateway) != "") {
    $ru = "sip:" + $avp(number) + "@" + $Ri;
    $du = $avp(gateway);
    route(RELAY);
  }
}

""".replace("FALL_BACK", profiles.FALL_BACK)


def blocks(network: PlanNetwork, name: str, forwarded: str) -> Iterator[str]:
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
        text = TREE.replace("REFERRED", referred).replace("TREE_NAME", f"TREE_{_upper(tree)}")
        text = text.replace("ASKED", "$var(suffix)" if refers else "SUFFIX")
        text = text.replace("VIA", "$var(via)" if refers else tree)
        text = text.replace("SUFFIX", plan.trees[tree].suffix)
        if not gateway:
            text = text[: text.index('  if ($var(first) == "e2u+h323")')] + "}\n\n"
        yield text.replace("GATEWAY", gateway).rstrip("\n") + "\n"
    used = '$var(service) == "e2u+sip"' + (' || $var(service) == "e2u+h323"' if gateway else "")
    nonterminal = chosen = ""
    if refers:
        used += ' || $var(service) == "refer"'
        nonterminal = '    if ($(naptrquery(n=>replace[$var(i)]){s.len}) > 0) $var(service) = "refer";\n'
        chosen = "        $var(refer) = $naptrquery(n=>replace[$var(i)]);\n"
        yield REFER.rstrip("\n") + "\n"
    second = '      if ($var(service) == "e2u+h323") $var(second) = "GATEWAY";\n' if gateway else ""
    first = (
        FIRST.replace("SECOND", second)
        .replace("NONTERMINAL", nonterminal)
        .replace("CHOSEN", chosen)
        .replace("USED", used)
    )
    yield first.replace("FORWARDED", forwarded).replace("GATEWAY", gateway).rstrip("\n") + "\n"


def _upper(tree: str) -> str:
    """A tree's name, as part of the name of its route block."""
    return tree.upper().replace("-", "_")
