"""``weir ipsec``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

import typer

from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.base.quantities import words
from weirlab.base.quoting import quoted
from weirlab.cli.options import (
    PERCENT,
    WORDS,
    IpVersion,
    JsonOption,
    OptionReading,
    ReportOptions,
    ResultOptions,
    SeedOption,
    grouped,
    listed,
    typed,
)
from weirlab.cli.output import Session

if TYPE_CHECKING:
    from weirlab.traffic.calls.codecs import VoiceStream
    from weirlab.traffic.encapsulation.encapsulations import Kind
    from weirlab.traffic.encapsulation.packets import IpVersion as IpNumber
    from weirlab.traffic.encapsulation.suites import CipherSuite

BYTES = """Calculate what IPsec and other tunnels add to calls on the wire.

For every codec and encapsulation, this shows the IP packet, the Ethernet
frame, bit rates, how many calls a line carries, and the longest packet that
still fits into the MTU. Encapsulations (--over): clear, esp-transport,
esp-tunnel, esp-rtp (ESP without UDP), ah-transport, ah-tunnel, gre-in-esp,
wireguard, openvpn, srtp, dtls, gre, vxlan; all of them with --over all.

Suites (--suite): aes-cbc, aes-cbc-hmac-sha1-96, aes-cbc-hmac-md5-96,
aes-cbc-hmac-sha256-128, aes-gcm-16, chacha20-poly1305, null-hmac-sha1-96,
null-hmac-md5-96, null-hmac-sha256-128; AES-GCM and ChaCha20 also with
implicit IV: aes-gcm-16-iiv, chacha20-poly1305-iiv.

Examples:
  weir ipsec bytes
  weir ipsec bytes --codec g711,g729:40ms --line 2Mbps --over esp-tunnel
  weir ipsec bytes --packet-time 10,20,30,60 --suite aes-gcm-16 --natt
  weir ipsec bytes --ip 6 --outer-ip 4 --mtu 1400 --over all --json
  weir ipsec bytes --published
"""

_USUAL_OVER = "clear,esp-transport,esp-tunnel,wireguard,openvpn,srtp,dtls,gre,vxlan"


@dataclass(frozen=True)
class IpsecCallOptions:
    """The calls."""

    PANEL: ClassVar = "Calls"

    codec: Annotated[
        str,
        typer.Option(
            help="Codecs, with optional packet times: g711,g729:40ms,opus@24kbit/s.",
            metavar="CODEC,...",
        ),
    ] = "g711"
    packet_time: Annotated[
        str | None,
        typer.Option(help="Packet times in ms for every codec, e.g. 10,20,30.", metavar="MS,..."),
    ] = None
    ip: Annotated[IpVersion, typer.Option(help="IP version.")] = "4"


@dataclass(frozen=True)
class EncapsulationOptions:
    """What they are put into."""

    PANEL: ClassVar = "Encapsulation"

    over: Annotated[str, typer.Option(help="Encapsulations, or all.", metavar="NAME,...")] = _USUAL_OVER
    suite: Annotated[
        str | None, typer.Option(help="Only these cipher suites of ESP.", metavar="NAME,...")
    ] = None
    outer_ip: Annotated[
        IpVersion | None,
        typer.Option(help="IP version between the gateways (default: as --ip)."),
    ] = None
    natt: Annotated[bool, typer.Option("--natt", help="ESP in UDP, to pass NAT (RFC 3948).")] = False
    esn: Annotated[bool, typer.Option("--esn", help="Extended sequence numbers, which add no bytes.")] = False


@dataclass(frozen=True)
class LineOptions:
    """The line they share, and what else is shown."""

    mtu: Annotated[int, typer.Option(min=68, max=65_535, help="MTU in bytes of IP.", metavar="BYTES")] = 1500
    line: Annotated[str, typer.Option(help="Line to fill: 2Mbps, 100Mbit/s, 1Gbit/s.", metavar="RATE")] = (
        "2Mbit/s"
    )
    published: Annotated[
        bool,
        typer.Option(
            "--published", help="Also show bandwidths as the publication on IPsec and calls counts them."
        ),
    ] = False


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(
        help="What encryption costs calls: bytes, processing time, jitter of endpoints.",
        no_args_is_help=True,
    )
    group.command("bytes", help=BYTES)(grouped(bytes_))
    group.command("cost", help=COST)(grouped(cost))
    group.command("endpoints", help=ENDPOINTS)(grouped(endpoints))
    app.add_typer(group, name="ipsec", rich_help_panel="Measure")


def bytes_(
    ctx: typer.Context,
    *,
    calls: IpsecCallOptions,
    inside: EncapsulationOptions,
    on: LineOptions,
    json: JsonOption = False,
) -> None:
    from weirlab.base.amounts import parse_line
    from weirlab.calls.ipsec.sheet import IpsecQuestion, sentence, sheet, tables

    with Session(ctx, as_json=json) as session:
        version: IpNumber = 4 if calls.ip == "4" else 6
        outer = inside.outer_ip
        kinds = _kinds(inside.over, natt=inside.natt)
        _need_esp(kinds, inside)
        question = IpsecQuestion(
            streams=_streams(calls.codec, calls.packet_time, version),
            kinds=kinds,
            suites=_suites(inside.suite),
            outer_ip=version if outer is None else 4 if outer == "4" else 6,
            natt=inside.natt,
            esn=inside.esn,
            mtu=on.mtu,
            line_bps=parse_line(on.line),
            with_published=on.published,
        )
        found = sheet(question)
        for warning in found.warnings():
            session.say(f"note: {warning}")
        session.finish(found.document(), sentence(found), tables(found))


def _streams(codecs: str, packet_times: str | None, ip: IpNumber) -> tuple[VoiceStream, ...]:
    from weirlab.traffic.calls.codecs import parse_codec

    names = _words(codecs, "--codec")
    if packet_times is None:
        return tuple(parse_codec(name, ip) for name in names)
    if timed := next((name for name in names if ":" in name), None):
        raise InputError(f"codec {quoted(timed)} has a packet time; leave out that or --packet-time")
    times = _words(packet_times, "--packet-time")
    listed(packet_times, float, "--packet-time", "10,20,30")
    return tuple(parse_codec(f"{name}:{time}", ip) for name in names for time in times)


def _kinds(text: str, *, natt: bool) -> tuple[Kind, ...]:
    from weirlab.traffic.encapsulation.encapsulations import KINDS

    names = _words(text.lower(), "--over")
    if names == ["all"]:
        return tuple(kind for kind in KINDS if not (natt and kind.startswith("ah-")))
    if unknown := next((name for name in names if name not in KINDS), None):
        raise InputError(f"there is no encapsulation {quoted(unknown)}; they are {', '.join(KINDS)}, or all")
    return tuple(kind for kind in KINDS if kind in names)


def _need_esp(kinds: Sequence[Kind], inside: EncapsulationOptions) -> None:
    """Raise ``InputError`` for options that would have no effect."""
    from weirlab.traffic.encapsulation.encapsulations import WITH_SUITE

    if not WITH_SUITE.isdisjoint(kinds):
        return
    given = {"--suite": inside.suite is not None}
    if not any(kind.startswith("ah-") for kind in kinds):
        given |= {"--natt": inside.natt, "--esn": inside.esn}
    if told := [option for option, is_given in given.items() if is_given]:
        raise InputError(
            f"{words(told)} {'is' if len(told) == 1 else 'are'} about ESP, but --over {inside.over} has "
            "none: add esp-tunnel, say"
        )


def _suites(text: str | None) -> tuple[CipherSuite, ...]:
    from weirlab.traffic.encapsulation.suites import SUITES, suite

    if text is None:
        return SUITES
    named = {suite(name).name for name in _words(text, "--suite")}
    return tuple(each for each in SUITES if each.name in named)


def _words(text: str, option: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise InputError(f"{option} {quoted(text)}: expected names, divided by commas")
    return words


COST = """Measure what a packet of speech costs with ESP.

Weir's library encapsulates and decapsulates packets in memory, with every
cipher suite (--suite), mode (--mode) and packet time, and hands them to their
calls: with UDP, without, through a queue between IPsec and UDP, or through a
socket of the system. In each round every case has its turn, so a slow moment
of the machine hits all of them. Nothing is sent, and it needs no root.

Examples:
  weir ipsec cost
  weir ipsec cost --suite aes-cbc,aes-cbc-hmac-sha1-96 --out cost.html
  weir ipsec cost --mode tunnel --packet-time 20 --rounds 200 --json
"""


_TIMES: Final = OptionReading(lambda text: listed(text, float, "--packet-time", "10,20"))


@dataclass(frozen=True)
class CostOptions:
    """What is timed; the fields are keys of ``esp`` in a scenario."""

    PANEL: ClassVar = "Packets"

    codec: Annotated[str, typer.Option(help="Codec of the speech.")] = "g711"
    packet_times_ms: Annotated[
        str, typer.Option("--packet-time", help="Packet times in ms.", metavar="MS,..."), _TIMES
    ] = "10,20,30,40,50,60"
    suites: Annotated[
        str | None,
        typer.Option(
            "--suite",
            help="Cipher suites of ESP (see weir ipsec bytes); left out: six usual ones.",
            metavar="NAME,...",
        ),
        WORDS,
    ] = None
    modes: Annotated[str, typer.Option("--mode", help="Modes of ESP.", metavar="NAME,..."), WORDS] = (
        "transport,tunnel"
    )
    ways: Annotated[
        str | None,
        typer.Option(
            help="Some of out, out-each, out-udp, out-rtp, in, in-udp, in-rtp, in-layers, in-system.",
            metavar="NAME,...",
        ),
        WORDS,
    ] = None
    rounds: Annotated[int, typer.Option(min=2, max=10_000, help="Rounds.")] = 40
    packets: Annotated[
        int,
        typer.Option(min=8, max=100_000, help="Packets per round; many leave the CPU's caches."),
    ] = 64
    associations: Annotated[
        int, typer.Option(min=1, max=10_000, help="Security associations, used in turn.")
    ] = 1


def cost(ctx: typer.Context, *, packets: CostOptions, report: ReportOptions, result: ResultOptions) -> None:
    from weirlab.calls.ipsec.cost import EspCostScenario
    from weirlab.studies.commands.scenarios import carry_out

    with result.session(ctx) as session:
        report.check()
        carry_out(session, {"name": "cost of ESP", "esp": typed(packets)}, EspCostScenario, report)


ENDPOINTS = """Measure jitter and delay between endpoints with and without kernel bypass.

Two endpoints in network namespaces, joined by a veth pair, exchange calls.
Each endpoint sends and receives in one thread on its own CPU, with ESP (in
UDP) by Weir's library. The kinds of endpoints (--arms) take turns in one run:
bypass (AF_XDP sockets that real-time threads poll), sockets (UDP sockets of
ordinary threads), and sockets-real-time (UDP sockets of real-time threads).
Each kind is measured with idle CPUs, and beside a CPU hog: a program of
ordinary priority on each endpoint's CPU. Weir then searches for the most
calls that each kind carries in time. Needs root.

Examples:
  weir ipsec endpoints
  weir ipsec endpoints --calls 1,100 --seconds 10 --out endpoints.html
  weir ipsec endpoints --suite none --arms bypass,sockets --beside idle
  weir ipsec endpoints --suite aes-cbc-hmac-sha1-96 --mode tunnel --json
  weir ipsec endpoints --no-search --repetitions 10
"""


_COUNTS: Final = OptionReading(lambda text: listed(text, int, "--calls", "1,100"))


@dataclass(frozen=True)
class EndpointOptions:
    """The endpoints; the fields are keys of ``endpoints`` in a scenario."""

    PANEL: ClassVar = "Endpoints"

    arms: Annotated[str, typer.Option(help="Kinds of endpoints.", metavar="NAME,..."), WORDS] = (
        "bypass,sockets,sockets-real-time"
    )
    beside: Annotated[
        str,
        typer.Option(help="Other work on the endpoints' CPUs: idle (none), hog.", metavar="NAME,..."),
        WORDS,
    ] = "idle,hog"
    suite: Annotated[
        str,
        typer.Option(help="Cipher suite of ESP (see weir ipsec bytes), or none.", metavar="NAME"),
    ] = "aes-gcm-16"
    mode: Annotated[Literal["transport", "tunnel"], typer.Option(help="Mode of ESP.")] = "transport"


@dataclass(frozen=True)
class TalkOptions:
    """The calls; the fields are keys of ``endpoints`` in a scenario."""

    PANEL: ClassVar = "Calls"

    calls: Annotated[str, typer.Option(help="Numbers of calls to compare.", metavar="COUNT,..."), _COUNTS] = (
        "1,100,1000"
    )
    codec: Annotated[str, typer.Option(help="Codec, with an optional packet time.")] = "g711"
    lasts_s: Annotated[
        float, typer.Option("--seconds", min=0.1, max=limits.LONGEST_S, help="Recorded seconds per attempt.")
    ] = 4.0
    repetitions: Annotated[
        int,
        typer.Option(min=1, max=limits.MOST_REPETITIONS, help="Valid attempts of each kind."),
    ] = 5
    seed: SeedOption = 1


@dataclass(frozen=True)
class SearchOptions:
    """The search for the most calls; the fields after the first are keys of ``endpoints.limit``."""

    PANEL: ClassVar = "Most calls"

    search: Annotated[
        bool, typer.Option("--search/--no-search", help="Search for the most calls of each kind.")
    ] = True
    most_calls: Annotated[
        int, typer.Option(min=1, max=20_000, help="Maximum calls to try.", metavar="COUNT")
    ] = 10_000
    late_ms: Annotated[
        float,
        typer.Option(
            "--late",
            min=0.01,
            max=1000,
            help="A packet is bad if it is heard later than this after it was due.",
            metavar="MS",
        ),
    ] = 10.0
    bad_share: Annotated[
        float,
        typer.Option("--bad", min=0.001, max=99, help="Maximum share of bad packets.", metavar="PERCENT"),
        PERCENT,
    ] = 0.1


def endpoints(
    ctx: typer.Context,
    *,
    kinds: EndpointOptions,
    talk: TalkOptions,
    search: SearchOptions,
    report: ReportOptions,
    result: ResultOptions,
) -> None:
    from weirlab.calls.ipsec.endpoints.plan import EndpointScenario
    from weirlab.studies.commands.scenarios import carry_out

    with result.session(ctx) as session:
        report.check()
        limit = typed(search)
        searches = limit.pop("search").value
        section = {**typed(kinds), **typed(talk), "limit": limit if searches else None}
        content = {"name": f"endpoints with {kinds.suite}", "endpoints": section}
        carry_out(session, content, EndpointScenario, report)
