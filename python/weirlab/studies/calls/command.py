"""``weir calls``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from weirlab import limits
from weirlab.cli import options
from weirlab.cli.buffers import jitter_buffer as read_jitter_buffer
from weirlab.cli.output import Session
from weirlab.errors import InputError
from weirlab.studies.calls.faults import impairments

CALLS = """Calculate or make telephone calls: their load on the wire, and what callers hear.

Without --write or --send this only calculates: frame sizes, gaps, packet and
bit rates, and how many such calls a line carries, by true Ethernet and by the
definition of the published table (2006). --write makes a capture file of every packet, for
Wireshark and others. --send makes the calls, through a device or over a plain
cable (--dut none), and reports loss, delay, jitter and MOS of each of them.
With --send, --require says what must hold: mos and gap (the longest) for every
caller, mos-median over all; loss, mean, p99, ... over all packets.

A mix of codecs is CODEC:PACKETms/TRANSPORT:SHARE, divided by commas; all but
the codec may be left out.

Examples:
  weir calls --codec g711 --transport rtp --calls 1000
  weir calls --codec g711:60,g729/iax2:40 --calls 3000 --line 10Gbit/s --json
  weir calls --calls 50 --duration 5 --write calls.pcap
  weir calls --calls 5 --write bad.pcap --loss 2% --loss-burst 4 --jitter 5ms
  weir calls --calls 1000 --send --dut iptables --rules 400
  weir calls --calls 1000 --send --require 'mos>=4' --require 'loss<0.1%'
  weir calls --calls 500 --arrivals poisson --holding 20 --spurts --send
"""

_CALLS = "Calls"
_SEND = "With --send"
_WRITE = "With --write"
_USUAL_DURATION_S = 10.0
_USUAL_WARMUP_S = 0.5


def add_to(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("calls", help=CALLS, rich_help_panel="Measure")(calls)


def calls(
    ctx: typer.Context,
    count: Annotated[
        str, typer.Option("--calls", help="How many: 500, 3,000, 10k.", metavar="N", rich_help_panel=_CALLS)
    ] = "1",
    codec: Annotated[
        str,
        typer.Option(
            "--codec",
            help="g711, g726, gsm-fast, gsm-slow, g729:40ms, opus@24kbit/s, ..., or a mix.",
            metavar="CODEC,...",
            rich_help_panel=_CALLS,
        ),
    ] = "g711",
    transport: Annotated[
        str,
        typer.Option(
            "--transport",
            help="rtp, iax2, iax2-trunk, or iax2-trunk*8 for 8 calls in a packet.",
            rich_help_panel=_CALLS,
        ),
    ] = "rtp",
    directions: Annotated[
        Literal["both", "forward", "back"],
        typer.Option(
            "--directions", help="Who talks; forward: from the sender's side.", rich_help_panel=_CALLS
        ),
    ] = "both",
    phases: Annotated[
        Literal["even", "random"],
        typer.Option(
            "--phases", help="How departures of different calls are spread over time.", rich_help_panel=_CALLS
        ),
    ] = "even",
    arrivals: Annotated[
        Literal["standing", "poisson"],
        typer.Option(
            "--arrivals",
            help="Calls that last all the time, or come and go at random.",
            rich_help_panel=_CALLS,
        ),
    ] = "standing",
    holding: Annotated[
        float | None,
        typer.Option(
            "--holding",
            min=0,
            max=limits.LONGEST_S,
            help="Mean length of calls that come and go (180).",
            metavar="S",
            rich_help_panel=_CALLS,
        ),
    ] = None,
    spurts: Annotated[
        bool,
        typer.Option("--spurts", help="Talk spurts and silences (ITU-T P.59).", rich_help_panel=_CALLS),
    ] = False,
    no_rtcp: Annotated[
        bool, typer.Option("--no-rtcp", help="No control packets beside RTP.", rich_help_panel=_CALLS)
    ] = False,
    rtcp_min: Annotated[
        float | None,
        typer.Option(
            "--rtcp-min",
            min=0,
            max=limits.LONGEST_S,
            help="Least mean time between them (5, as in RFC 3550; 0: use the whole 5 %).",
            metavar="S",
            rich_help_panel=_CALLS,
        ),
    ] = None,
    no_signalling: Annotated[
        bool,
        typer.Option("--no-signalling", help="No SIP or IAX2 set-up and tear-down.", rich_help_panel=_CALLS),
    ] = False,
    ip: Annotated[options.IpVersion, typer.Option("--ip", help="IP version.", rich_help_panel=_CALLS)] = "4",
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            min=0,
            max=limits.HIGHEST_SEED,
            help="Seed of every random choice.",
            rich_help_panel=_CALLS,
        ),
    ] = 1,
    line: Annotated[
        str,
        typer.Option("--line", help="Line to fill: 100Mbit/s, 1Gbit/s, 10Gbit/s.", metavar="RATE"),
    ] = "1Gbit/s",
    duration: Annotated[
        float | None,
        typer.Option("--duration", min=0, max=limits.LONGEST_S, help="Seconds (default: 10).", metavar="S"),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option("--write", help="Write every packet to this capture file.", metavar="FILE.pcap"),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            "--loss", help="Share of the speech that is lost.", metavar="SHARE", rich_help_panel=_WRITE
        ),
    ] = None,
    loss_burst: Annotated[
        float | None,
        typer.Option(
            "--loss-burst",
            min=1,
            max=limits.LONGEST_LOSS_RUN,
            help="Mean length of a run of losses (Gilbert model); without it they are independent.",
            metavar="N",
            rich_help_panel=_WRITE,
        ),
    ] = None,
    jitter: Annotated[
        str | None,
        typer.Option(
            "--jitter",
            help="Mean random delay of the speech, e.g. 5ms.",
            metavar="TIME",
            rich_help_panel=_WRITE,
        ),
    ] = None,
    reorder: Annotated[
        str | None,
        typer.Option(
            "--reorder", help="Share that the next packet overtakes.", metavar="SHARE", rich_help_panel=_WRITE
        ),
    ] = None,
    duplicate: Annotated[
        str | None,
        typer.Option(
            "--duplicate", help="Share that arrives twice.", metavar="SHARE", rich_help_panel=_WRITE
        ),
    ] = None,
    send: Annotated[bool, typer.Option("--send", help="Make the calls.")] = False,
    warmup: Annotated[
        float | None,
        typer.Option(
            "--warmup",
            min=0,
            max=limits.LONGEST_S,
            help="Seconds before, in which calls are set up (0.5).",
            metavar="S",
        ),
    ] = None,
    lab: options.LabOption = "auto",
    dut: options.DutOption = None,
    rules: options.RulesOption = None,
    ruleset: options.RulesetOption = None,
    match: options.MatchOption = None,
    stateful: options.StatefulOption = False,
    backend: options.BackendOption = "auto",
    jitter_buffer: Annotated[
        str,
        typer.Option(
            "--jitter-buffer",
            help="MOS behind which: fixed:60ms, adaptive, or the better one.",
            metavar="KIND",
            rich_help_panel=_SEND,
        ),
    ] = "best",
    keep_packets: Annotated[
        bool,
        typer.Option("--keep-packets", help="Keep a table of all packets in the run.", rich_help_panel=_SEND),
    ] = False,
    attempts: Annotated[
        int | None,
        typer.Option(
            "--attempts",
            min=1,
            max=limits.MOST_ATTEMPTS,
            help="How often to try a spoiled trial.",
            rich_help_panel=_SEND,
        ),
    ] = None,
    require: options.RequireOption = None,
    store: options.StoreOption = None,
    json: options.JsonOption = False,
) -> None:
    """Calculate, write or make calls."""
    from weirlab.cli import gates
    from weirlab.records import RuleSetup
    from weirlab.studies.calls import heard, requiring, sheets
    from weirlab.studies.calls.study import make_calls, write_calls
    from weirlab.studies.calls.wire import calls_sheet
    from weirlab.traffic.calls.lines import parse_line
    from weirlab.traffic.calls.spec import parse_calls

    with Session(ctx, as_json=json, store=store) as session:
        if send and write is not None:
            raise InputError("--send and --write exclude each other: --write makes the file without sending")
        if not send:
            _only_with_send(
                **{
                    "--lab": lab != "auto",
                    "--dut": dut is not None,
                    "--rules": rules is not None,
                    "--ruleset": ruleset is not None,
                    "--match": match is not None,
                    "--stateful": stateful,
                    "--backend": backend != "auto",
                    "--jitter-buffer": jitter_buffer != "best",
                    "--keep-packets": keep_packets,
                    "--attempts": attempts is not None,
                    "--require": bool(require),
                }
            )
        faults = impairments(loss, loss_burst, jitter, reorder, duplicate, seed)
        if faults is not None and write is None:
            raise InputError("--loss, --jitter, --reorder and --duplicate go with --write FILE")
        if holding is not None and arrivals != "poisson":
            raise InputError("--holding goes with --arrivals poisson: standing calls do not end")
        standing = parse_calls(count, codec, transport, 4 if ip == "4" else 6)
        wanted = replace(
            standing,
            directions=directions,
            phases=phases,
            arrivals=arrivals,
            spurts=spurts,
            rtcp=not no_rtcp,
            signalling=not no_signalling,
            seed=seed,
            holding_s=standing.holding_s if holding is None else holding,
            rtcp_min_s=standing.rtcp_min_s if rtcp_min is None else rtcp_min,
        )
        duration_s = _USUAL_DURATION_S if duration is None else duration
        warmup_s = _USUAL_WARMUP_S if warmup is None else warmup
        if send:
            device = options.device(dut, ruleset, stateful, match)
            if device.name == "ruleset" and rules is not None:
                raise InputError("--rules does not go with --ruleset: your ruleset has its own rules")
            kind, buffers = read_jitter_buffer(jitter_buffer)
            demands = gates.demands(require, requiring.CALLS)
            outcome = make_calls(
                session.store,
                options.lab(lab, backend),
                device,
                wanted,
                session.progress,
                duration_s=duration_s,
                warmup_s=warmup_s,
                rules=RuleSetup(rules or 0, stateful),
                buffers=buffers,
                heard=kind,
                attempts=attempts or 3,
                keep_packets=keep_packets,
                command=session.command,
            )
            gates.finish(
                session,
                outcome.document(),
                heard.sentence(outcome),
                heard.tables(outcome),
                requiring.of_calls(demands, outcome),
                outcome.problem(),
            )
        elif write is not None:
            capture = write_calls(wanted, write, duration_s=duration_s, warmup_s=warmup_s, faults=faults)
            session.finish(capture.document(), sheets.written(capture))
        else:
            sheet = calls_sheet(wanted, duration_s=duration_s, line_bps=parse_line(line))
            session.finish(sheet.document(), sheets.sentence(sheet), sheets.tables(sheet))


def _only_with_send(**given: bool) -> None:
    names = [name for name, is_given in given.items() if is_given]
    if names:
        goes = "goes" if len(names) == 1 else "go"
        raise InputError(f"{', '.join(names)} {goes} with --send, without which no calls are made")
