"""``weir calls``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import typer

from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.cli.options import (
    DeviceOptions,
    IpVersion,
    JudgementOptions,
    PacketTimeOption,
    given,
    grouped,
    reading,
    without,
    work_of,
)
from weirlab.cli.options.reading import jitter_buffer as read_jitter_buffer
from weirlab.cli.output import Session

if TYPE_CHECKING:
    from weirlab.traffic.calls.impairments import Impairments
    from weirlab.traffic.calls.spec import Calls


@dataclass(frozen=True)
class FaultOptions:
    """What is wrong with the speech in a file."""

    PANEL: ClassVar = "With --write"

    loss: Annotated[
        str | None, typer.Option(help="Share of speech packets that are lost.", metavar="SHARE")
    ] = None
    loss_burst: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=limits.LONGEST_LOSS_RUN,
            help="Mean length of a run of losses (Gilbert model); without it, losses are independent.",
            metavar="N",
        ),
    ] = None
    jitter: Annotated[
        str | None,
        typer.Option(help="Mean random delay of speech packets, e.g. 5ms.", metavar="TIME"),
    ] = None
    reorder: Annotated[
        str | None,
        typer.Option(help="Share of packets that the next one overtakes.", metavar="SHARE"),
    ] = None
    duplicate: Annotated[
        str | None, typer.Option(help="Share of packets that arrive twice.", metavar="SHARE")
    ] = None


def impairments(options: FaultOptions, seed: int) -> Impairments | None:
    """The faults that the options ask for; None for none.

    Raises
    ------
    InputError
        A value is not understood or impossible.
    """
    if not given(options):
        return None
    from weirlab.base.amounts import parse_time_ns
    from weirlab.traffic.calls.impairments import Impairments

    loss, burst = options.loss, options.loss_burst
    if burst is not None and loss is None:
        raise InputError("--loss-burst goes with --loss: it says how long the runs of losses are")
    return Impairments(
        loss_ratio=_share("--loss", loss),
        loss_burst=burst,
        jitter_ns=0.0 if options.jitter is None else parse_time_ns(options.jitter, "--jitter"),
        reorder_ratio=_share("--reorder", options.reorder),
        duplicate_ratio=_share("--duplicate", options.duplicate),
        seed=seed,
    )


def _share(option: str, text: str | None) -> float:
    return 0.0 if text is None else reading.one_share(text, option, "2%")


CALLS = """Calculate or make telephone calls: load on the wire, and what callers hear.

Without --write or --send, this only calculates: frame sizes, gaps, packet and
bit rates, and how many such calls a line carries, with true Ethernet overhead
and by the definition of the published table (2006). --write writes every
packet to a capture file, for Wireshark and other programs. --send makes the
calls, through a device or over a plain cable (--dut none), and reports loss,
delay, jitter and MOS of each call. With --send, --require sets limits: mos
and gap (the longest) for every caller, mos-median over all callers, and loss,
mean, p99, ... over all packets sent while the host did not disturb. Callers
hear every packet.

A mix of codecs is a comma-separated list of CODEC:PACKETms/TRANSPORT:SHARE.
Only CODEC is required.

Examples:
  weir calls --codec g711 --transport rtp --calls 1000
  weir calls --codec g711:60,g729/iax2:40 --calls 3000 --line 10Gbit/s --json
  weir calls --calls 50 --duration 5 --write calls.pcap
  weir calls --calls 5 --write bad.pcap --loss 2% --loss-burst 4 --jitter 5ms
  weir calls --calls 1000 --send --dut iptables --rules 400
  weir calls --calls 1000 --send --require 'mos>=4' --require 'loss<0.1%'
  weir calls --calls 500 --arrivals poisson --holding 20 --spurts --send
"""

_USUAL_DURATION_S = 10.0
_USUAL_WARMUP_S = 0.5


@dataclass(frozen=True)
class CallOptions:
    """Which calls, and who talks when."""

    PANEL: ClassVar = "Calls"

    count: Annotated[
        str, typer.Option("--calls", help="How many calls: 500, 10k, 20erl, 1200bhca@180s.", metavar="N")
    ] = "1"
    codec: Annotated[
        str,
        typer.Option(
            help="g711, g726, gsm-fast, gsm-slow, g729:40ms, opus@24kbit/s, ..., or a mix.",
            metavar="CODEC,...",
        ),
    ] = "g711"
    packet_time: PacketTimeOption = None
    transport: Annotated[
        str,
        typer.Option(help="rtp, iax2, iax2-trunk, or iax2-trunk*8 for 8 calls per packet."),
    ] = "rtp"
    directions: Annotated[
        Literal["both", "forward", "back"],
        typer.Option(help="Who talks; forward: from the sender's side."),
    ] = "both"
    phases: Annotated[
        Literal["even", "random"],
        typer.Option(help="How the packets of different calls are spread over time."),
    ] = "even"
    arrivals: Annotated[
        Literal["standing", "poisson"],
        typer.Option(help="Calls last the whole time, or begin and end at random."),
    ] = "standing"
    holding: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=limits.LONGEST_S,
            help="Mean duration of calls with --arrivals poisson (180).",
            metavar="S",
        ),
    ] = None
    spurts: Annotated[bool, typer.Option("--spurts", help="Talk spurts and silences (ITU-T P.59).")] = False
    no_rtcp: Annotated[bool, typer.Option("--no-rtcp", help="Send no RTCP packets.")] = False
    rtcp_min: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=limits.LONGEST_S,
            help="Minimum mean RTCP interval (5, as in RFC 3550; 0: use the whole 5 %).",
            metavar="S",
        ),
    ] = None
    no_signalling: Annotated[
        bool, typer.Option("--no-signalling", help="No SIP or IAX2 set-up and tear-down.")
    ] = False
    ip: Annotated[IpVersion, typer.Option(help="IP version.")] = "4"
    seed: Annotated[int, typer.Option(min=0, max=limits.HIGHEST_SEED, help="Seed of all random choices.")] = 1

    def calls(self) -> Calls:
        """The calls; raises ``InputError`` for impossible ones."""
        from weirlab.traffic.calls.mix import with_packet_time
        from weirlab.traffic.calls.spec import parse_calls

        if self.holding is not None and self.arrivals != "poisson":
            raise InputError("--holding goes with --arrivals poisson: standing calls do not end")
        codecs = with_packet_time(self.codec, self.packet_time)
        standing = parse_calls(self.count, codecs, self.transport, 4 if self.ip == "4" else 6)
        return replace(
            standing,
            directions=self.directions,
            phases=self.phases,
            arrivals=self.arrivals,
            spurts=self.spurts,
            rtcp=not self.no_rtcp,
            signalling=not self.no_signalling,
            seed=self.seed,
            holding_s=standing.holding_s if self.holding is None else self.holding,
            rtcp_min_s=standing.rtcp_min_s if self.rtcp_min is None else self.rtcp_min,
        )


@dataclass(frozen=True, kw_only=True)
class ActionOptions:
    """What becomes of the calls: by default they are only calculated."""

    line: Annotated[str, typer.Option(help="Line to fill: 100Mbit/s, 1Gbit/s, 10Gbit/s.", metavar="RATE")] = (
        "1Gbit/s"
    )
    duration: Annotated[
        float | None,
        typer.Option(min=0, max=limits.LONGEST_S, help="Seconds (default: 10).", metavar="S"),
    ] = None
    write: Annotated[
        Path | None,
        typer.Option(help="Write every packet to this capture file.", metavar="FILE.pcap"),
    ] = None
    faults: FaultOptions
    send: Annotated[bool, typer.Option("--send", help="Make the calls.")] = False
    warmup: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=limits.LONGEST_S,
            help="Seconds before recording, for call set-up (0.5).",
            metavar="S",
        ),
    ] = None

    @property
    def duration_s(self) -> float:
        return _USUAL_DURATION_S if self.duration is None else self.duration

    @property
    def warmup_s(self) -> float:
        return _USUAL_WARMUP_S if self.warmup is None else self.warmup


@dataclass(frozen=True)
class CallSendOptions:
    """How calls are made and assessed."""

    PANEL: ClassVar = "With --send"

    jitter_buffer: Annotated[
        str,
        typer.Option(
            help="Jitter buffer for the MOS: fixed:60ms, adaptive, or best: the better of both.",
            metavar="KIND",
        ),
    ] = "best"
    keep_packets: Annotated[
        bool, typer.Option("--keep-packets", help="Keep a table of all packets in the run.")
    ] = False
    attempts: Annotated[
        int | None,
        typer.Option(min=1, max=limits.MOST_ATTEMPTS, help="Maximum attempts per trial."),
    ] = None


def add_to(app: typer.Typer) -> None:
    app.command("calls", help=CALLS, rich_help_panel="Measure")(grouped(calls))


def calls(
    ctx: typer.Context,
    which: CallOptions,
    action: ActionOptions,
    device: Annotated[DeviceOptions, without("positions", "places", "cross_traffic")],
    sending: CallSendOptions,
    result: JudgementOptions,
) -> None:
    from weirlab.base.amounts import parse_line
    from weirlab.calls.calls import tables
    from weirlab.calls.calls.study import write_calls
    from weirlab.calls.calls.wire import calls_sheet

    with result.session(ctx) as session:
        if action.send and action.write is not None:
            raise InputError("--send and --write exclude each other: --write makes the file without sending")
        if not action.send:
            _refuse_what_goes_with_send(device, sending, result)
        faults = impairments(action.faults, which.seed)
        if faults is not None and action.write is None:
            raise InputError("--loss, --jitter, --reorder and --duplicate go with --write FILE")
        wanted = which.calls()
        duration_s, warmup_s = action.duration_s, action.warmup_s
        if action.send:
            _send(session, wanted, action, device, sending, result)
        elif action.write is not None:
            capture = write_calls(
                wanted, action.write, duration_s=duration_s, warmup_s=warmup_s, faults=faults
            )
            session.finish(capture.document(), tables.written(capture))
        else:
            sheet = calls_sheet(wanted, duration_s=duration_s, line_bps=parse_line(action.line))
            session.finish(sheet.document(), tables.sheet_sentence(sheet), tables.sheet_tables(sheet))


def _send(
    session: Session,
    wanted: Calls,
    action: ActionOptions,
    device: DeviceOptions,
    sending: CallSendOptions,
    result: JudgementOptions,
) -> None:
    from weirlab.calls.calls import tables
    from weirlab.calls.calls.study import CallTrialPlan, make_calls
    from weirlab.cli.results import gates

    dut = device.device()
    kind, buffers = read_jitter_buffer(sending.jitter_buffer)
    demands = gates.demands(result.require, tables.CALLS)
    course = CallTrialPlan(
        duration_s=action.duration_s,
        warmup_s=action.warmup_s,
        rules=device.rule_setup(),
        buffers=buffers,
        heard=kind,
        attempts=sending.attempts or 3,
        keep_packets=sending.keep_packets,
    )
    outcome = make_calls(work_of(session), device.where(session.store), dut, wanted, course)
    gates.finish(
        session,
        outcome.document(),
        tables.sentence(outcome),
        tables.tables(outcome),
        tables.of_calls(demands, outcome),
        outcome.problem(),
    )


def _refuse_what_goes_with_send(
    device: DeviceOptions, sending: CallSendOptions, result: JudgementOptions
) -> None:
    given = {
        "--lab": device.lab != "auto",
        "--as": device.as_ is not None,
        "--dut": device.dut is not None,
        "--rules": device.rules is not None,
        "--ruleset": device.ruleset is not None,
        "--image": device.image is not None,
        "--match": device.match is not None,
        "--stateful": device.stateful,
        "--backend": device.backend != "auto",
        "--jitter-buffer": sending.jitter_buffer != "best",
        "--keep-packets": sending.keep_packets,
        "--attempts": sending.attempts is not None,
        "--require": bool(result.require),
    }
    if names := [name for name, is_given in given.items() if is_given]:
        goes = "goes" if len(names) == 1 else "go"
        raise InputError(f"{', '.join(names)} {goes} with --send, without which no calls are made")
