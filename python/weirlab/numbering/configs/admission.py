"""Admission rules: at a gateway, which knows callers by addresses, and at a proxy, which counts calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from weirlab.numbering.configs import parts
from weirlab.numbering.plan.model import Engine
from weirlab.numbering.plan.values import Protocol
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.routing.calls import emergency

REFUSED = "refused"
"""The dial-plan context of callers that are not admitted."""

ROUTES: Final = "routes-{}"
"""The dial-plan context in which numbers that arrive by a protocol are routed, once they are rewritten."""

_NOWHERE, _REJECTED, INCOMPLETE, _FULL = 1, 21, 28, 34
"""Causes (Q.850): unallocated number, rejected, invalid number, no circuit; 404, 403, 484, 503 in SIP."""

WAIT = " same => n,Wait(2)"
"""chan_ooh323 sends cause 111 instead of any other before it has sent Call Proceeding."""


def patterns(begin: str, arriving: Protocol) -> list[str]:
    """Patterns of the dial plan for all numbers that begin with ``begin``, itself included.

    An MGCP telephone dials digit by digit, and a number is complete when no further digit comes: only a ``.``
    makes Asterisk wait for further digits, but it stands for one at least.
    """
    return [begin, f"{begin}."] if arriving == "mgcp" else [f"{begin}!"]


_SEPARATORS: Final = "\\x28\\x29\\x2d\\x2e\\x20"


def entering(context: str, arriving: Protocol) -> Iterator[str]:
    """The context where calls begin, and the head of the one where they go on.

    The number gets the one spelling that patterns are made for: digits, behind a + in SIP. A line dials them.
    """
    yield f"[{context}]"
    if arriving == "mgcp":
        return
    onward = f"dialled{context.removeprefix('from')}"
    plus = '${IF($["${EXTEN:0:1}" = "+"]?+)}' if arriving == "sip" else ""
    begin, waits = ("[+0-9]", []) if arriving == "sip" else ("X", [WAIT])
    kept = f"${{FILTER(0-9{_SEPARATORS},${{EXTEN:1}})}}"
    yield f"exten => _{begin}!,1,Set(number={plus}${{FILTER(0-9,${{EXTEN}})}})"
    yield f" same => n,GotoIf($[${{LEN(${{EXTEN:1}})}} != ${{LEN({kept})}}]?wrong)"
    yield f" same => n,GotoIf(${{DIALPLAN_EXISTS({onward},${{number}},1)}}?{onward},${{number}},1)"
    yield from waits
    yield f" same => n,Hangup({_NOWHERE})"
    yield from (line.replace("n,", "n(wrong),") for line in waits)
    yield f" same => n{'' if waits else '(wrong)'},Hangup({INCOMPLETE})"
    yield f"[{onward}]"


def permissions(network: PlanNetwork, name: str, caller: Engine) -> dict[str, bool]:
    """May an endpoint call numbers, by prefix without +? Only its home asks; empty means yes."""
    if caller.home != name or caller.organisation is None:
        return {}
    found = network.permissions[caller.organisation]
    return {} if [*found] == [""] else dict(found.items())


def most_calls(network: PlanNetwork, name: str, caller: Engine) -> int | None:
    """Calls that an endpoint's organisation may have at once at the engine, if that is its home."""
    return network.most_calls(caller.organisation) if caller.home == name else None


def senders(network: PlanNetwork, name: str) -> list[str]:
    """Engines and telephones that the engine ``name`` takes calls from: telephones call their home.

    In direct mode, telephones of gatekeepers call gateways, too.
    """
    engines = network.plan.engines
    engine = engines[name]
    found = []
    for other, sender in engines.items():
        common = {*engine.speaks}.intersection(sender.speaks)
        homes = [sender.home, *([] if sender.home is None else [engines[sender.home].kind])]
        near = sender.kind != "endpoint" or name in homes or ("h323" in common and "gatekeeper" in homes)
        if other != name and sender.address and common and near:
            found.append(other)
    return [other for other in found if network.admits(engine, engines[other].organisation)]


def context(network: PlanNetwork, name: str, other: str, protocol: Protocol) -> str:
    """Where a call from ``other`` begins in the dial plan of the gateway ``name``."""
    caller = network.plan.engines[other]
    # Where a call to an endpoint that forwards goes on, too.
    makes_calls = caller.kind != "endpoint" or (caller.home is not None and caller.forwards_to is None)
    is_admitted = network.admits(network.plan.engines[name], caller.organisation)
    if is_closed(network, name) and not (other in senders(network, name) if makes_calls else is_admitted):
        return REFUSED
    limited = permissions(network, name, caller) or most_calls(network, name, caller) is not None
    if caller.kind == "endpoint" and limited:
        return f"from-{protocol}-of-{caller.organisation}"
    return f"from-{protocol}"


def is_closed(network: PlanNetwork, name: str) -> bool:
    """Does the engine take calls of :func:`senders` only?"""
    return network.admitted(network.plan.engines[name]) is not None


MODULES = ("func_groupcount",)
"""Modules that the contexts of organisations need."""


def has_rules(network: PlanNetwork, name: str) -> bool:
    """Are there contexts of organisations at the gateway?"""
    callers = network.plan.engines.values()
    return any(permissions(network, name, caller) or most_calls(network, name, caller) for caller in callers)


def contexts(
    network: PlanNetwork, name: str, arriving: Protocol, plus: str, rewriting: Callable[[str], Iterator[str]]
) -> Iterator[str]:
    """The contexts of organisations with rules, for calls that arrive by a protocol.

    ``plus`` is how numbers begin there; ``rewriting`` gives the lines that make numbers international and go
    on in a context.
    """
    told = set()
    for other, caller in network.plan.engines.items():
        own = context(network, name, other, arriving)
        if caller.home != name or arriving not in caller.speaks or own in (REFUSED, f"from-{arriving}"):
            continue
        if own in told:
            continue
        told.add(own)
        yield f"; {parts.place(network, 'organisations', caller.organisation or '')}"
        ruling, routing = f"rules{own.removeprefix('from')}", ROUTES.format(arriving)
        yield from entering(own, arriving)
        yield from rewriting(ruling)
        yield f"include => {ruling}\n[{ruling}]"
        rules = {"": False, **(permissions(network, name, caller) or {"": True})}
        who, most = caller.organisation or "", most_calls(network, name, caller)
        waits = [WAIT] if arriving == "h323" else []
        for number in emergency(network, name, arriving) if most is not None else ():
            if network.may_call(who, number):
                yield from _passing(who, None, f"exten => {plus}{number},1,", routing, waits)
        if rules[""] and most is None:
            yield f"include => {routing}"
            del rules[""]
        for prefix, may in sorted(rules.items()):
            for pattern in patterns(f"{plus}{prefix or 'X'}", arriving):
                begin = f"exten => _{pattern},1,"
                if may:
                    yield from _passing(who, most, begin, routing, waits)
                    continue
                yield f"{begin}Log(NOTICE,REJECTED num=${{EXTEN}} barred for {who})"
                yield from waits
                yield f" same => n,Hangup({_REJECTED})"


def _passing(who: str, most: int | None, pattern: str, onward: str, waits: list[str]) -> Iterator[str]:
    """Lines for a call that is allowed unless ``who`` has too many."""
    goes = f"GotoIf(${{DIALPLAN_EXISTS({onward},${{EXTEN}},1)}}?{onward},${{EXTEN}},1)"
    if most is None:
        yield f"{pattern}{goes}"
        yield from waits
        yield f" same => n,Hangup({_NOWHERE})"
        return
    yield f"{pattern}Set(GROUP(calls)={who})"
    yield f" same => n,GotoIf($[${{GROUP_COUNT({who}@calls)}} > {most}]?full)"
    yield f" same => n,{goes}"
    yield from waits
    yield f" same => n,Hangup({_NOWHERE})"
    yield f" same => n(full),Log(NOTICE,REJECTED num=${{EXTEN}} {who} has {most} calls)"
    yield from waits
    yield f" same => n,Hangup({_FULL})"


def nowhere(arriving: Protocol) -> Iterator[str]:
    """The end of calls that no route fits once a rule has changed them.

    Without it, Asterisk declines them in SIP, and clears them in H.323 like answered calls.
    """
    if arriving == "sip":
        yield f"exten => i,1,Hangup({_NOWHERE})"
    elif arriving == "h323":
        yield f"exten => i,1,Wait(2)\n same => n,Hangup({_NOWHERE})"


def refusing() -> Iterator[str]:
    """The context of those who are not admitted; numbers of H.323 have no +."""
    yield f"[{REFUSED}]"
    for pattern, waits in (("+X", []), ("X", [WAIT])):
        yield f"exten => _{pattern}!,1,Log(NOTICE,REJECTED num=${{EXTEN}} not admitted)"
        yield from waits
        yield f" same => n,Hangup({_REJECTED})"


CALL = "  route(COUNT);\n"
"""Counts a call that the caller may make, before it is routed."""

_COUNT = """\
  if ($var(organisation) == "") return;
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
    yield 'modparam("dialog", "profiles_with_value", "calls")'


def route(network: PlanNetwork, name: str) -> Iterator[str]:
    """The part of the script that counts."""
    yield "# Calls of organisations that may have so many at once, each with its own count."
    yield "route[COUNT] {"
    if numbers := emergency(network, name, "sip"):
        yield f'  if ($rU =~ "^\\+({"|".join(numbers)})$") return;  # emergency numbers'
    yield '  $var(organisation) = "";'
    for other, address, organisation, most in _callers(network, name):
        where = parts.place(network, "organisations", organisation, "most_calls")
        known = f'$var(organisation) = "{organisation}"; $var(most) = {most};'
        yield f"  if (src_ip == {address}) {{ {known} }}  # {other}, {where}"
    yield _COUNT


def _callers(network: PlanNetwork, name: str) -> Iterator[tuple[str, str, str, int]]:
    """Endpoints of organisations with a limit whose home is the proxy: name, address, organisation, limit."""
    for other, caller in network.plan.engines.items():
        most = most_calls(network, name, caller)
        if most is not None and caller.kind == "endpoint" and caller.address and caller.organisation:
            yield other, caller.address, caller.organisation, most
