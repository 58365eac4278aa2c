"""Counts the calls of organisations at a proxy, with profiles of Kamailio's dialog module."""

from __future__ import annotations

from collections.abc import Iterator

from weirlab.numbering.configs import admission, parts
from weirlab.numbering.routing import PlanNetwork

CALL = "  route(COUNT);\n"
"""Counts a call that the caller may make, before it is routed."""

_COUNT = """\
  if ($var(organisation) == "") return;
  dlg_manage();
  # The call counts before it is compared, so that two at the same time are never one too many.
  set_dlg_profile("calls", "$var(organisation)");
  if (get_profile_size("calls", "$var(organisation)", "$var(calls)") && $var(calls) > $var(most)) {
    xlog("L_NOTICE", "REJECTED num=$rU $var(organisation) has $var(most) calls\\n");
    unset_dlg_profile("calls", "$var(organisation)");
    sl_send_reply("503", "Too Many Calls");
    exit;
  }
}
"""


def counts(network: PlanNetwork, name: str) -> bool:
    """Does the proxy have to count calls?"""
    return any(True for _ in _callers(network, name))


def modules() -> Iterator[str]:
    """Modules of the script. A call counts from its INVITE to its BYE, or to its refusal."""
    yield 'loadmodule "dialog.so"'
    yield 'modparam("dialog", "profiles_with_value", "calls")'


def route(network: PlanNetwork, name: str) -> Iterator[str]:
    """The part of the script that counts."""
    yield "# Calls of organisations that may have so many at once, each with its own count."
    yield "route[COUNT] {"
    yield '  $var(organisation) = "";'
    for other, address, organisation, most in _callers(network, name):
        where = parts.place(network, "organisations", organisation, "most_calls")
        known = f'$var(organisation) = "{organisation}"; $var(most) = {most};'
        yield f'  if ($si == "{address}") {{ {known} }}  # {other}, {where}'
    yield _COUNT


def _callers(network: PlanNetwork, name: str) -> Iterator[tuple[str, str, str, int]]:
    """Endpoints of organisations with a limit whose home is the proxy: name, address, organisation, limit."""
    for other, caller in network.plan.engines.items():
        most = admission.most_calls(network, name, caller)
        if most is not None and caller.kind == "endpoint" and caller.address and caller.organisation:
            yield other, caller.address, caller.organisation, most
