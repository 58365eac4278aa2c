"""Asterisk 16 with PJSIP, ooh323 and MGCP: one instance per gateway; a context per arriving protocol."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from weirlab.numbering.configs import admission, parts
from weirlab.numbering.configs.admission import patterns
from weirlab.numbering.plan.model import Engine, PlanRoute
from weirlab.numbering.plan.values import Protocol
from weirlab.numbering.routing import PlanNetwork, profiles

MODULES = (
    "res_timing_timerfd", "res_sorcery_config", "res_sorcery_memory", "res_sorcery_astdb", "res_pjproject",
    "res_pjsip", "res_pjsip_session", "res_pjsip_sdp_rtp", "res_pjsip_endpoint_identifier_ip",
    "res_pjsip_rfc3326", "res_rtp_asterisk", "res_pjsip_pubsub", "chan_pjsip", "chan_ooh323", "chan_mgcp",
    "codec_alaw", "codec_ulaw", "codec_gsm", "format_wav", "bridge_simple", "bridge_native_rtp", "pbx_config",
    "app_dial", "app_echo", "app_playback", "app_verbose", "func_callerid", "func_logic", "func_enum",
    "func_channel", "func_dialplan", "func_strings",
)  # fmt: skip

LOG: Final = "messages.log"
"""The log of an instance, in the folder ``log`` below its own."""

CALL_AGENT_PORT: Final = 2727
"""Port of an MGCP call agent (RFC 3435, 3.6)."""

_BUSY_TONE_S: Final = 60
"""Of a line whose caller does not hang up."""
_NEEDS: dict[str, Protocol] = {"chan_ooh323": "h323", "chan_mgcp": "mgcp"}
_FAILED = '$["${DIALSTATUS}" != "CHANUNAVAIL" & "${DIALSTATUS}" != "CONGESTION"]'


def files(network: PlanNetwork, name: str, root: str) -> dict[str, str]:
    """The files of one instance, whose folder is ``root``."""
    engine = network.plan.engines[name]
    if limit := profiles.tree_limit(engine):
        raise parts.refuse(network, ("engines", name, "trees"), limit)
    where = parts.place(network, "engines", name)
    head = f"; Gateway {name} of plan {network.plan.plan} ({where}), made by weir voice"
    found = {
        "asterisk.conf": _main(root),
        "modules.conf": _modules(
            engine, more=admission.MODULES if admission.has_rules(network, name) else ()
        ),
        "logger.conf": f"[logfiles]\n{LOG} => notice,warning,error,verbose\n",
        "rtp.conf": "[general]\nrtpstart=20000\nrtpend=24000\n",
        "extensions.conf": _lines(_dial_plan(network, name)),
    }
    if "sip" in engine.speaks:
        found["pjsip.conf"] = _lines(_pjsip(network, name))
    if "h323" in engine.speaks:
        found["ooh323.conf"] = _lines(_ooh323(network, name, root))
    if "mgcp" in engine.speaks:
        found["mgcp.conf"] = _lines(_mgcp(network, name))
    return {file: f"{head}\n; configs: change the plan instead.\n{text}" for file, text in found.items()}


def _lines(lines: Iterator[str]) -> str:
    return "\n".join(lines) + "\n"


def _main(root: str) -> str:
    return (
        f"[directories]\nastetcdir => {root}\nastmoddir => /usr/lib/asterisk/modules\n"
        f"astvarlibdir => /var/lib/asterisk\nastdbdir => {root}/db\nastkeydir => {root}/db\n"
        f"astdatadir => /usr/share/asterisk\nastagidir => /usr/share/asterisk/agi-bin\n"
        f"astspooldir => {root}/spool\nastrundir => {root}/run\nastlogdir => {root}/log\n[options]\nverbose "
        "= 0\n"
    )


def _modules(engine: Engine, more: tuple[str, ...]) -> str:
    wanted = [each for each in MODULES if each not in _NEEDS or _NEEDS[each] in engine.speaks]
    return "[modules]\nautoload=no\n" + "".join(f"load={each}.so\n" for each in (*wanted, *more))


def _codecs(engine: Engine) -> list[str]:
    return ["disallow=all", *(f"allow={codec}" for codec in engine.codecs or ("alaw",))]


def _pjsip(network: PlanNetwork, name: str) -> Iterator[str]:
    engine = network.plan.engines[name]
    # A target that does not answer is given up after 6.4 s, 64 times T1, and the next one is tried.
    yield "[system]\ntype=system\ntimer_t1=100\ntimer_b=6400"
    yield "; Of a number, parameters do not count.\n[global]\ntype=global\nignore_uri_user_options=yes"
    yield f"[udp]\ntype=transport\nprotocol=udp\nbind={parts.address(network, name)}:{engine.port('sip')}"
    near = {*parts.feeders(network, name), *parts.targets(network, name)}
    for other, peer in network.plan.engines.items():
        if other not in near or "sip" not in peer.speaks:
            continue
        yield f"; {parts.place(network, 'engines', other)}"
        yield f"[{other}]\ntype=endpoint\ncontext={admission.context(network, name, other, 'sip')}"
        yield from _codecs(engine)
        yield f"aors={other}\ndirect_media=no\nrtp_symmetric=no"
        yield f"[{other}]\ntype=aor\ncontact={parts.sip_uri(network, other)}"
        yield f"[{other}]\ntype=identify\nendpoint={other}\nmatch={parts.address(network, other)}"


def _ooh323(network: PlanNetwork, name: str, root: str) -> Iterator[str]:
    engine = network.plan.engines[name]
    keeper = parts.gatekeeper(network, name)
    yield f"[general]\nbindaddr={parts.address(network, name)}\nport={engine.port('h323')}"
    yield f"h225portrange=12030,19000\nh323id={name}"
    if keeper is not None:
        for _, route in parts.routes(network, keeper, "h323"):
            if name in route.to and len(route.prefix) > 1:
                yield f"e164={route.prefix[1:]}"
                break
    closed = admission.is_closed(network, name)
    yield f"context={admission.REFUSED if closed else 'from-h323'}"
    yield f"gatekeeper={parts.address(network, keeper) if keeper else 'DISABLE'}"
    yield "faststart=no\nh245tunneling=no"
    yield from _codecs(engine)
    yield f"dtmfmode=rfc2833\ntracelevel=1\nlogfile={root}/log/h323.log"
    near = {*parts.feeders(network, name), *parts.targets(network, name)}
    near.update(admission.senders(network, name) if closed else ())
    for other, peer in network.plan.engines.items():
        if other in near and "h323" in peer.speaks and peer.kind != "gatekeeper":
            context = admission.context(network, name, other, "h323")
            yield f"; {parts.place(network, 'engines', other)}"
            yield f"[{other}]\ntype=friend\ncontext={context}\nip={parts.address(network, other)}"
            yield f"port={peer.port('h323')}"
            yield from _codecs(engine)


def _mgcp(network: PlanNetwork, name: str) -> Iterator[str]:
    yield f"[general]\nport={CALL_AGENT_PORT}\nbindaddr={parts.address(network, name)}"
    yield from _codecs(network.plan.engines[name])
    near = {*parts.feeders(network, name), *parts.targets(network, name)}
    for other, peer in network.plan.engines.items():
        if other in near and parts.call_agent(network, other) == name:
            yield f"; {parts.place(network, 'engines', other)}"
            context = admission.context(network, name, other, "mgcp")
            yield f"[{other}]\ncontext={context}\nhost={parts.address(network, other)}"
            yield f"port={peer.port('mgcp')}"
            yield f"wcardep={peer.line.rpartition('/')[0]}/*\ncanreinvite=no\nline => {peer.line}"


def _dial_plan(network: PlanNetwork, name: str) -> Iterator[str]:
    engine = network.plan.engines[name]
    for arriving in ("sip", "h323", "mgcp"):
        if arriving not in engine.speaks:
            continue
        # A SIP caller's number has its +, those of H.323 and MGCP are digits.
        plus = "+" if arriving == "sip" else ""
        routing = admission.ROUTES.format(arriving)
        yield from admission.entering(f"from-{arriving}", arriving)
        yield from _rewriting(network, name, plus, arriving, routing)
        # Apart, so that a number is rewritten once. Extensions here take precedence over included ones.
        yield f"include => {routing}\n[{routing}]"
        if plus:
            yield f"exten => _+0!,1,Hangup({admission.INCOMPLETE})"
        for index, route in parts.routes(network, name, arriving):
            yield f"; {parts.place(network, 'routes', index)}"
            pattern = f"{plus}{route.prefix[1:]}" + ("" if len(route.prefix) > 1 else "X")
            dials = [_dial(network, engine, each, route, len(plus), index) for each in route.to]
            told = f"ROUTE num=${{EXTEN}} via=static target={'|'.join(route.to)}"
            for each in patterns(pattern, arriving):
                yield f"exten => _{each},1,Log(NOTICE,{told})"
                yield from _incomplete(route, len(plus))
                yield f" same => n{'(left)' if route.strip else ''},{dials[0]}"
                for dial in dials[1:]:
                    yield f" same => n,GotoIf({_FAILED}?done)"
                    yield f" same => n,{dial}"
                yield from _ending(arriving)
        yield from admission.nowhere(arriving)
        rewriting = partial(_rewriting, network, name, plus, arriving)
        yield from admission.contexts(network, name, arriving, plus, rewriting)
    if admission.is_closed(network, name):
        yield from admission.refusing()


def _ending(arriving: Protocol) -> Iterator[str]:
    """Lines for a call that all targets have refused, or that is over."""
    done = " same => n(done),"
    if arriving == "mgcp":
        # Hangup alone gives a line the reorder tone, whatever the cause.
        yield f'{done}GotoIf($["${{DIALSTATUS}}" != "BUSY"]?end)'
        yield f" same => n,Busy({_BUSY_TONE_S})"
        done = " same => n(end),"
    elif arriving == "h323":
        yield f'{done}GotoIf($["${{DIALSTATUS}}" = "ANSWER"]?end)'
        yield admission.WAIT
        done = " same => n(end),"
    yield f"{done}Hangup()"


def _incomplete(route: PlanRoute, plus: int) -> Iterator[str]:
    """Lines that end a call of which stripping leaves no digits."""
    if route.strip and not route.prepend.removeprefix("+"):
        yield f' same => n,GotoIf($["${{EXTEN:{plus + route.strip}}}" != ""]?left)'
        yield f" same => n,Hangup({admission.INCOMPLETE})"


def _dial(network: PlanNetwork, engine: Engine, target: str, route: PlanRoute, plus: int, index: int) -> str:
    """The application that sends a call to ``target``; ``plus`` characters of the number are no digits."""
    peer = network.plan.engines[target]
    strip = plus + route.strip
    digits = route.prepend.removeprefix("+") + (f"${{EXTEN:{strip}}}" if strip else "${EXTEN}")
    match parts.leaving(engine, peer, route):
        case "sip":
            return f"Dial(PJSIP/+{digits}@{target},30)"
        case "h323":
            if (wrong := parts.past_gatekeeper(network, route, target)) is not None:
                raise parts.refuse(network, ("routes", index), "; ".join(wrong))
            return f"Dial(OOH323/{digits}{'' if peer.kind == 'gatekeeper' else f'@{target}'},30)"
        case "mgcp":
            return f"Dial(MGCP/{peer.line}@{target},30)"
        case None:
            what = f"{route.at} and {target} have no protocol in common; see {network.command('check')}"
            raise parts.refuse(network, ("routes", index), what)


def _rewriting(network: PlanNetwork, name: str, plus: str, arriving: Protocol, onward: str) -> Iterator[str]:
    """Lines that make numbers international, and go on in the context ``onward``."""
    earlier: list[str] = []
    for i, rule in enumerate(network.plan.engines[name].rewrite):
        location = ("engines", name, "rewrite", i)
        shape, number = profiles.simple(rule), profiles.exact(rule)
        if limit := profiles.rewrite_limit(network.plan.engines[name], rule):
            raise parts.refuse(network, location, limit)
        yield f"; {parts.place(network, *location)}"
        if number is not None:
            # Asterisk prefers it to any pattern, and an earlier rule of the plan comes first.
            if not number[0].startswith(tuple(earlier)):
                # At "!", chan_mgcp does not wait for a further digit.
                ends = arriving == "mgcp" and number[0] in network.plan.emergency
                exten = f"_{number[0]}!" if ends else number[0]
                yield f"exten => {exten},1,Goto({onward},{plus}{number[1].removeprefix('+')},1)"
            continue
        assert shape is not None
        goes, comes = shape
        earlier.append(goes)
        new = f"{plus}{comes.removeprefix('+')}"
        for pattern in patterns(goes, arriving):
            # Without an extension, Goto has nowhere to go.
            if new or pattern.endswith((".", "!")):
                yield f"exten => _{pattern},1,Goto({onward},{new}${{EXTEN:{len(goes)}}},1)"
    if plus:
        yield f"exten => _X!,1,Hangup({admission.INCOMPLETE})"
