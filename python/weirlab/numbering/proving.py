"""The commands of ``weir voice`` that use real engines: install, lab, prove and load."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import typer

from weirlab.base import limits
from weirlab.base.errors import InputError
from weirlab.base.quantities import NOTHING, plural
from weirlab.base.tables import Table
from weirlab.cli.options import PERCENT, JsonOption, ReportOptions, ResultOptions, grouped, only, typed
from weirlab.cli.output import Session
from weirlab.numbering.options import (
    DEFAULT_PLAN,
    DateOption,
    NumberingPlanOptions,
    PlanArgument,
    PlanOption,
    ThroughOptions,
    chosen,
    network_of,
)

if TYPE_CHECKING:
    from weirlab.numbering.lab import VoiceLab


INSTALL: Final = """Install Asterisk with H.323 and MGCP for the lab, beside the system.

Gateways need an Asterisk with chan_ooh323 and chan_mgcp, which Debian 11 was
the last release to have. Its packages are fetched from the mirror in this
machine's apt sources, verified with Debian's keys, and unpacked into one
folder below /var/cache. Nothing else on the system changes; --remove undoes
it. Needs root and apt.

Examples:
  weir voice install
  weir voice install --mirror URL        another mirror of Debian
  weir voice install --remove
  weir voice install --json
"""

_COLUMNS: Final = ("Package", "Version")


def add_install(voice: typer.Typer) -> None:
    voice.command("install", help=INSTALL)(install)


def install(
    ctx: typer.Context,
    mirror: Annotated[
        str | None,
        typer.Option(help="Fetch from this mirror.", metavar="URL", show_default=False),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Fetch it again even if installed.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove it.")] = False,
    json: JsonOption = False,
) -> None:
    from weirlab.numbering.lab import chroot

    with Session(ctx, as_json=json) as session:
        if remove and (again or mirror is not None):
            raise InputError("--remove cannot be combined with --again or --mirror")
        if remove:
            gone = chroot.remove()
            conclusion = f"{chroot.FOLDER} is removed." if gone else "Nothing was installed."
            session.finish({"kind": "voice install", "removed": gone, "folder": chroot.FOLDER}, conclusion)
            return
        found = None if again else chroot.installed()
        fetched = found is None
        if found is None:
            found = chroot.install(session.progress, mirror)
        document = {
            "kind": "voice install",
            "folder": chroot.FOLDER,
            "fetched": fetched,
            "version": found.version,
            "suite": found.suite,
            "bytes": found.bytes,
            "packages": found.packages,
        }
        already = "" if fetched else "already "
        conclusion = (
            f"Asterisk {found.version} of Debian's release {found.suite} is {already}in "
            f"{chroot.FOLDER}: {plural(len(found.packages), 'package')}, {found.bytes / 1e6:.0f} MB."
        )
        rows = [(name, version) for name, version in found.packages.items() if "asterisk" in name]
        session.finish(document, conclusion, [Table("Asterisk's packages", _COLUMNS, rows)])


LAB = """Run the engines of a numbering plan in namespaces, until Ctrl-C.

BIND serves the zones, Kamailio and gatekeepers route, Asterisk translates.
Each engine runs at its address in the plan, with the files that weir voice
zones and configs write. Every endpoint has a namespace in which your own
programs can make calls; the table names the namespaces and the logs.

Needs root and Debian's packages bind9, kamailio and sip-tester. Gateways need
weir voice install, gatekeepers need the voice extra of weirlab. Engines whose
program is missing are left out.

Examples:
  weir voice lab --plan campus
  weir voice lab --plan mine.yaml --duration 10min
  weir voice lab --plan campus --duration 1s --json
  ip netns exec NAMESPACE sipp -sf caller.xml 10.93.0.10 -s +420111222001
"""

PROVE = """Prove a numbering plan by a call to each of its test numbers.

The calls pass real engines in namespaces: BIND, Kamailio, Asterisk and
gatekeepers. SIPp, MGCP lines and H.323 telephones call and answer, and both
ends talk. Each call is compared with the plan: the engines on its route, what
each engine based its decision on, what the name servers answered, and how the
call was answered. A number with a fall-back is called again while the
preferred engine is off, answers 503, or is busy; two engines never fail at
once. The second table lists the kinds of routes that the calls prove. With
--dut, all signalling and speech of the caller pass a device under test. The
run is kept, with every message. The exit code is 9 if a call did not go as
planned.

Needs root and Debian's packages bind9, kamailio and sip-tester. Gateways need
weir voice install; gatekeepers and H.323 telephones need the voice extra of
weirlab.

Examples:
  weir voice prove --plan campus
  weir voice prove --plan carriers            all kinds of routes
  weir voice prove --plan mine.yaml --out proof.html
  weir voice prove --plan translations        SIP, H.323 and MGCP by gateways
  weir voice prove --plan federation --partly        without missing programs
  weir voice prove --plan mine.yaml --talk 10 --no-fall-back --json
  weir voice prove --plan campus --dut nftables --rules 50
  weir voice prove --plan campus --dut esp:outage=1s+500ms --talk 5
  weir voice prove --plan campus --dut keepalived:advert=100ms:hard=2s
"""

_LOOK_S: Final = 0.5
"""Interval between checks that all engines of the lab are alive."""


@dataclass(frozen=True)
class ProofOptions:
    """Which calls are made; the fields are keys of ``voice`` in a scenario."""

    PANEL: ClassVar = "Calls"

    fall_back: Annotated[
        bool, typer.Option("--fall-back/--no-fall-back", help="Call again while the preferred engine fails.")
    ] = True
    talk_s: Annotated[
        float,
        typer.Option(
            "--talk", min=0.1, max=limits.LONGEST_S, help="How long caller and callee talk.", metavar="S"
        ),
    ] = 2.0
    partly: Annotated[
        bool,
        typer.Option("--partly", help="Leave out calls through engines that the lab has no program for."),
    ] = False


def add_to(voice: typer.Typer) -> None:
    voice.command("lab", help=LAB)(lab)
    voice.command("prove", help=PROVE)(grouped(prove))


def lab(
    ctx: typer.Context,
    argument: PlanArgument = None,
    plan: PlanOption = DEFAULT_PLAN,
    day: DateOption = None,
    for_: Annotated[
        str | None, typer.Option("--duration", help="End after this time, e.g. 10min.", metavar="TIME")
    ] = None,
    json: JsonOption = False,
) -> None:
    from weirlab.base.amounts import parse_time
    from weirlab.base.interrupts import owned
    from weirlab.base.quantities import duration
    from weirlab.link.stopping import Stop
    from weirlab.numbering.proof.study import open_lab

    with Session(ctx, as_json=json) as session:
        for_s = None if for_ is None else parse_time(for_, "--duration")
        network = network_of(chosen(plan, argument), day)
        session.progress.stage(f"starting the engines of {network.plan.plan}")
        with owned(lambda: open_lab(network, talk_s=1.0)) as running, Stop() as stop:
            listed = _listed(running)
            document = {
                "kind": "voice lab",
                "plan": network.plan.plan,
                "folder": running.folder,
                "engines": listed,
                "left_out": running.left_out,
            }
            until = "Ctrl-C ends it" if for_s is None else f"it ends after {duration(for_s * 1e9)}"
            conclusion = f"{plural(len(running.daemons), 'engine')} running; {until}."
            session.finish(document, conclusion, [_table(listed)], remark=_remark(running))
            end_s = None if for_s is None else time.monotonic() + for_s
            while not stop.requested and (end_s is None or time.monotonic() < end_s):
                running.check()
                stop.wait((), _LOOK_S if end_s is None else min(_LOOK_S, end_s - time.monotonic()))


def _listed(running: VoiceLab) -> list[dict[str, object]]:
    """Every engine that has a program, then the endpoints, each with its address and namespace."""
    rows: list[dict[str, object]] = [
        {
            "engine": daemon.name,
            "program": daemon.program,
            "address": f"{daemon.address}:{daemon.port}",
            "namespace": running.hosts[daemon.address],
            "log": running.log(daemon.name),
        }
        for daemon in running.daemons
    ]
    listed = {daemon.name for daemon in running.daemons}
    for name in running.endpoints:
        if name in listed:
            continue
        namespace = running.at(name).name
        address = running.network.plan.engines[name].address
        rows.append(
            {"engine": name, "program": None, "address": address, "namespace": namespace, "log": None}
        )
    return rows


def _table(listed: list[dict[str, object]]) -> Table:
    columns = ("Engine", "Program", "Address", "Namespace", "Log")
    rows = [
        tuple(NOTHING if row[name.lower()] is None else str(row[name.lower()]) for name in columns)
        for row in listed
    ]
    return Table("Engines and endpoints", columns, rows, spare=("Log",))


def _remark(running: VoiceLab) -> str:
    if not running.left_out:
        return ""
    return f"Left out, because the lab has no program for them: {', '.join(running.left_out)}."


def prove(
    ctx: typer.Context,
    *,
    argument: PlanArgument = None,
    asked: NumberingPlanOptions,
    calls: ProofOptions,
    device: Annotated[ThroughOptions, only("dut", "rules", "stateful", "ruleset")],
    report: ReportOptions,
    result: ResultOptions,
) -> None:
    from weirlab.numbering.checking import check
    from weirlab.numbering.section import VoiceScenario
    from weirlab.studies.commands.scenarios import carry_out

    with result.session(ctx) as session:
        report.check()
        plan = chosen(asked.plan, argument)
        network = network_of(plan, asked.day)
        if errors := sum(finding.severity == "error" for finding in check(network)):
            session.say(f"this plan has {plural(errors, 'error')}: {network.command('check')}")
        section = {**asked.section(plan), **typed(calls), "through": device.through()}
        content = {"name": f"proof of {plan.stem}", "voice": section}
        carry_out(session, content, VoiceScenario, report)


LOAD = """Find how many calls per second the engines of a plan set up.

SIPp calls a test number through the engines of the plan. A search (RFC 9971)
chooses the rates, and ends where too many calls fail or are slow. A few calls
with speech run beside them. By default, the numbers are one that a route
decides, one that ENUM decides, and one for each translation between SIP and
H.323; --number names others. An MGCP line carries one call at a time, so
translations to such a line have no rate. With --dut, all signalling and
speech of the caller pass a device under test.

The result holds only for this machine, because callers, callees and engines
share its CPUs. The table shows how much of a core each engine used. Needs
root and Debian's packages bind9, kamailio and sip-tester. Gateways need weir
voice install.

Examples:
  weir voice load --plan campus
  weir voice load --plan translations --highest 300
  weir voice load --plan mine.yaml --number +420111222001 --out load.html
  weir voice load --plan campus --setup-limit 100 --bad 0.1 --trial 10 --json
  weir voice load --plan campus --dut nftables --rules 1000
"""


@dataclass(frozen=True)
class LoadRateOptions:
    """Which rates are tried, and when one is too high; the fields are keys of ``voice_load``."""

    PANEL: ClassVar = "Rates"

    numbers: Annotated[
        list[str] | None,
        typer.Option("--number", help="Test number to call; may be repeated.", metavar="NUMBER"),
    ] = None
    lowest: Annotated[int, typer.Option(min=1, help="Lowest rate to try.", metavar="CALLS/S")] = 10
    highest: Annotated[int, typer.Option(min=2, help="Highest rate to try.", metavar="CALLS/S")] = 2000
    setup_limit_ms: Annotated[
        int, typer.Option("--setup-limit", min=1, help="Longest set-up of a good call.", metavar="MS")
    ] = 500
    bad_share: Annotated[
        float,
        typer.Option(
            "--bad", min=0.001, max=99, help="Share of bad calls that a trial may have.", metavar="PERCENT"
        ),
        PERCENT,
    ] = 1.0
    trial_s: Annotated[
        float, typer.Option("--trial", min=1, help="Seconds per trial in which calls begin.", metavar="S")
    ] = 5.0
    trials: Annotated[
        int,
        typer.Option(min=1, max=99, help="Maximum trials at a rate; fewer if they agree.", metavar="COUNT"),
    ] = 3
    width: Annotated[
        float,
        typer.Option(
            min=0.1,
            max=50,
            help="Distance of the bounds at which the search ends.",
            metavar="PERCENT",
        ),
        PERCENT,
    ] = 5.0
    media_calls: Annotated[
        int,
        typer.Option(min=0, max=50, help="Calls with speech during each trial.", metavar="COUNT"),
    ] = 4


def add_load(voice: typer.Typer) -> None:
    voice.command("load", help=LOAD)(grouped(load))


def load(
    ctx: typer.Context,
    *,
    argument: PlanArgument = None,
    asked: NumberingPlanOptions,
    rates: LoadRateOptions,
    device: Annotated[ThroughOptions, only("dut", "rules", "stateful", "ruleset")],
    report: ReportOptions,
    result: ResultOptions,
) -> None:
    from weirlab.numbering.section import LoadScenario
    from weirlab.studies.commands.scenarios import carry_out

    with result.session(ctx) as session:
        report.check()
        plan = chosen(asked.plan, argument)
        section = {**asked.section(plan), **typed(rates), "through": device.through()}
        content = {"name": f"load of {plan.stem}", "voice_load": section}
        carry_out(session, content, LoadScenario, report)
