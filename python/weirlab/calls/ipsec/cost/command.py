"""``weir ipsec cost``: the processing time of packets with ESP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import typer

from weirlab.cli.options import WORDS, OptionReading, ReportOptions, ResultOptions, grouped, listed, typed

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


def add_to(ipsec: typer.Typer) -> None:
    """Add the command to the group ``ipsec``."""
    ipsec.command("cost", help=COST)(grouped(cost))


def cost(ctx: typer.Context, *, packets: CostOptions, report: ReportOptions, result: ResultOptions) -> None:
    from weirlab.calls.ipsec.cost.section import EspCostScenario
    from weirlab.studies.commands.scenarios import carry_out

    with result.session(ctx) as session:
        report.check()
        carry_out(session, {"name": "cost of ESP", "esp": typed(packets)}, EspCostScenario, report)
