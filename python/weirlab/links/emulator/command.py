"""``weir link``."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, TypeVar

import typer

from weirlab.base import limits
from weirlab.cli.options import AsOption, JsonOption, StoreOption, given, grouped
from weirlab.cli.options.device import PANEL as DEVICE_PANEL
from weirlab.cli.output import Session

if TYPE_CHECKING:
    from weirlab.base.errors import WeirError
    from weirlab.base.tables import Table
    from weirlab.emulation.reading import LinkSpec
    from weirlab.jobs.simulated import CrossedDevice
    from weirlab.links.emulator.running import EmulatorSettings, LinkEnd, Tell
    from weirlab.links.emulator.tables import LinkDisplay, LinkSnapshot
    from weirlab.store import Store

HELP = """Emulate a link between two interfaces: delay, rate, queue, loss, reordering.

Frames that arrive on A leave by B, and the other way round, as over a real
link. Options apply to both directions; --up (A to B) and --down (B to A)
override them for one direction. No kernel module is needed. Where the kernel
has netem, --by netem lets the kernel carry the frames, with fewer options.
Ctrl-C ends the link and restores every interface.

Weir's own emulator accounts for every frame and reports how late it was
itself. Frames that the host could not carry are counted separately.

With --as, frames of both directions first cross a measured device: they share
its CPU and its queue, and have its delays and losses.

Examples:
  weir link eth1 eth2 --delay 25ms --rate 100Mbps --queue 50pkts --loss 1%
  weir link eth1 eth2 --delay 20ms --up "rate 10Mbps" --down "rate 50Mbps"
  weir link eth1 eth2 --delay 30ms --jitter 5ms,normal --reorder 1%,by=3ms
  weir link eth1 eth2 --loss frames=5,17,/100 --duration 60s --json
  weir link eth1 eth2 --delay 25ms --rate 1Gbps --by netem
  weir link eth1 eth2 --up "trace lte.up" --down "trace lte.down" --delay 20ms
  weir link eth1 eth2 --as firewall.model.json --rules 400
"""


@dataclass(frozen=True)
class PathOptions:
    """What both directions do, in words; a field is called as in profiles and in ``--up``."""

    PANEL: ClassVar = "Link"

    delay: Annotated[str | None, typer.Option(help="One-way delay: 25ms.", metavar="TIME")] = None
    jitter: Annotated[
        str | None,
        typer.Option(
            help="Variation of the delay: 5ms (uniform), 5ms,normal; with ,reorder frames may overtake.",
            metavar="TIME",
        ),
    ] = None
    rate: Annotated[
        str | None, typer.Option(help="Rate, e.g. 100Mbps; frames without FCS.", metavar="RATE")
    ] = None
    trace: Annotated[
        str | None,
        typer.Option(help="Instead of a rate: delivery opportunities in Mahimahi's format.", metavar="FILE"),
    ] = None
    overhead: Annotated[
        str | None,
        typer.Option(
            help="Bytes added to each frame for the rate (24: all of Ethernet's).",
            metavar="BYTES",
        ),
    ] = None
    queue: Annotated[
        str | None,
        typer.Option(help="Queue size: 50pkts, 64kB or 20ms (default: 1000pkts).", metavar="SIZE"),
    ] = None
    aqm: Annotated[
        str | None,
        typer.Option(help="Drop early: codel, or red,min=20pkts,max=60pkts,p=10%.", metavar="NAME"),
    ] = None
    loss: Annotated[
        str | None,
        typer.Option(
            help="1%; 1%,burst=3 (mean run); gemodel=P,R,1-H,1-K; frames=5,17,30-39,/100.",
            metavar="WHICH",
        ),
    ] = None
    reorder: Annotated[
        str | None,
        typer.Option(help="As --loss, with the extra delay of these frames: 1%,by=3ms.", metavar="WHICH"),
    ] = None
    duplicate: Annotated[str | None, typer.Option(help="As --loss.", metavar="WHICH")] = None
    seed: Annotated[
        str | None,
        typer.Option(help="Seed of all random choices (default: drawn, and shown).", metavar="N"),
    ] = None

    def words(self) -> dict[str, str]:
        """What was given, by name."""
        return given(self)


@dataclass(frozen=True)
class CrossingOptions:
    """The measured device that frames cross."""

    as_: AsOption = None
    rules: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=limits.MOST_RULES,
            help="With --as: matching position of all frames (default: 0, no rules).",
            metavar="N",
            rich_help_panel=DEVICE_PANEL,
        ),
    ] = None

    def device(self, store: Store, seed: int) -> CrossedDevice | None:
        """The device, or None without ``--as``.

        Raises
        ------
        InputError, ModelError, StoreError
            There is no such model.
        """
        from weirlab.base.errors import InputError
        from weirlab.jobs.models import model_file
        from weirlab.jobs.simulated import crossed_device

        if self.as_ is None:
            if self.rules is not None:
                raise InputError("--rules goes with --as, the device that has these rules")
            return None
        return crossed_device(model_file(store, self.as_), self.rules or 0, seed)


@dataclass(frozen=True, kw_only=True)
class LinkOptions:
    """What the link does."""

    PANEL: ClassVar = "Link"

    both: PathOptions
    crossing: CrossingOptions
    up: Annotated[
        str | None,
        typer.Option(help="Options for A to B: 'rate 10Mbps queue 20pkts'.", metavar="WORDS"),
    ] = None
    down: Annotated[str | None, typer.Option(help="Options for B to A.", metavar="WORDS")] = None
    profile: Annotated[
        Path | None,
        typer.Option(help="YAML file with these options as keys, and also up and down.", metavar="FILE"),
    ] = None

    def asked(self, draw_seed: Callable[[], int] | None) -> LinkSpec:
        """Both directions, understood; ``draw_seed`` as for ``reading.read_link``."""
        from weirlab.emulation import reading

        device = self.crossing.as_ is not None
        return reading.read_link(
            self.both.words(), self.up, self.down, self.profile, draw_seed, device=device
        )


@dataclass(frozen=True)
class RunOptions:
    """Where the emulator works, how long, and how."""

    PANEL: ClassVar = "Run"

    by: Annotated[
        Literal["weir", "netem"],
        typer.Option(help="What emulates the link: Weir or the kernel's netem."),
    ] = "weir"
    netns: Annotated[str | None, typer.Option(help="Network namespace of the interfaces.", metavar="NS")] = (
        None
    )
    for_: Annotated[
        str | None, typer.Option("--duration", help="End after this time: 90s, 5min, 1h.", metavar="TIME")
    ] = None
    cpu: Annotated[int | None, typer.Option(min=0, help="Run on this CPU.", metavar="N")] = None
    busy: Annotated[bool, typer.Option("--busy", help="Never sleep: use a full CPU to be less late.")] = False
    slack: Annotated[
        str | None,
        typer.Option(help="Let frames leave up to this much late, to save CPU: 50us, 1ms.", metavar="TIME"),
    ] = None
    real_time: Annotated[
        bool,
        typer.Option(
            "--real-time/--no-real-time", help="Real-time priority for the thread that carries frames."
        ),
    ] = True

    def how(self) -> EmulatorSettings:
        """The same for the emulator."""
        from weirlab.base.amounts import parse_time, parse_time_ns
        from weirlab.base.errors import InputError
        from weirlab.emulation.spec import MOST_SLACK_S
        from weirlab.links.emulator.running import EmulatorSettings

        if self.by == "netem":
            of_weir = {
                "--cpu": self.cpu is not None,
                "--busy": self.busy,
                "--slack": self.slack is not None,
                "--no-real-time": not self.real_time,
            }
            for option in (option for option, is_given in of_weir.items() if is_given):
                raise InputError(
                    f"{option} is for Weir's own emulator: leave it out, or leave out --by netem"
                )
        for_s = None if self.for_ is None else parse_time(self.for_, "--duration")
        slack_s = 0.0 if self.slack is None else parse_time_ns(self.slack, "--slack") / 1e9
        if slack_s > MOST_SLACK_S:
            raise InputError(
                f"--slack {self.slack}: at most {MOST_SLACK_S * 1e3:g}ms; --delay makes frames late"
            )
        if self.busy and slack_s:
            raise InputError("--slack saves CPU time and --busy spends it: leave one out")
        return EmulatorSettings(for_s, self.cpu, self.busy, slack_s, self.real_time)


def add_to(app: typer.Typer) -> None:
    app.command("link", help=HELP, rich_help_panel="Link")(grouped(link))


def link(
    ctx: typer.Context,
    *,
    a: Annotated[str, typer.Argument(help="One end: an interface.", metavar="A", show_default=False)],
    b: Annotated[str, typer.Argument(help="The other end.", metavar="B", show_default=False)],
    options: LinkOptions,
    running: RunOptions,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    from weirlab.base.errors import InputError
    from weirlab.links.emulator import tables
    from weirlab.links.emulator.running import LinkEnd

    with Session(ctx, as_json=json, store=store) as session:
        # netem takes no seed.
        asked = options.asked(None if running.by == "netem" else _seed)
        how = running.how()
        device = options.crossing.device(session.store, asked.up.seed)
        if device is not None and running.by == "netem":
            raise InputError("--as is for Weir's own emulator: leave out --by netem")
        notes: list[str] = []
        with tables.screen(sys.stderr) as shown:

            def tell(message: str) -> None:
                notes.append(message)
                shown.note(message)

            if asked.drawn_seed is not None:
                tell(
                    f"random choices have the seed {asked.drawn_seed}: --seed {asked.drawn_seed} repeats them"
                )
            ends = LinkEnd(a, running.netns), LinkEnd(b, running.netns)
            if device is not None:
                tell(f"frames of both directions cross {device.name} at matching position {device.position}")
            if running.by == "netem":
                done = _by_netem(ends, asked, how, shown, tell)
            else:
                done = _by_weir(ends, asked, how, shown, tell, device)
        document = {
            "by": running.by,
            "up": {"asked": dict(asked.up_words), **done.up},
            "down": {"asked": dict(asked.down_words), **done.down},
            **done.more,
            **({} if device is None else {"device": device.name, "position": device.position}),
            "notes": notes,
        }
        session.finish(document, done.conclusion, done.tables, done.problem)
        session.complain(done.problem)


def _seed() -> int:
    """One that is easily typed."""
    return random.SystemRandom().randrange(1, 1_000_000)


@dataclass(frozen=True)
class _LinkResult:
    """What became of the frames of a link, for JSON and for people."""

    up: dict[str, Any]
    down: dict[str, Any]
    more: dict[str, Any]
    conclusion: str
    tables: list[Table]
    problem: WeirError | None = None


A = TypeVar("A", bound="LinkSnapshot", covariant=True)


class _RunningLink(Protocol[A]):
    """A link that carries frames."""

    def account(self) -> A: ...

    def stop(self) -> A: ...


def _by_weir(
    ends: tuple[LinkEnd, LinkEnd],
    asked: LinkSpec,
    how: EmulatorSettings,
    shown: LinkDisplay,
    tell: Tell,
    device: CrossedDevice | None,
) -> _LinkResult:
    from weirlab.emulation import account
    from weirlab.links.emulator import running, tables

    link = running.emulated_link(*ends, asked.up, asked.down, how=how, device=device, tell=tell)
    last = _watched(link, f"{ends[0]} and {ends[1]} are linked", how, shown, tell)
    if last.real_time_refused:
        tell(f"the emulator was not real time: {last.real_time_refused}")
    complaints = account.complaints(last, how.slack_s)
    more = {
        "elapsed_s": last.elapsed_s,
        "cpu_s": last.cpu_s,
        "kept": not complaints and not last.failure,
        "complaints": complaints,
    }
    conclusion, problem = tables.conclusion(last, complaints), account.problem(last)
    return _LinkResult(last.up.document(), last.down.document(), more, conclusion, tables.of(last), problem)


def _by_netem(
    ends: tuple[LinkEnd, LinkEnd], asked: LinkSpec, how: EmulatorSettings, shown: LinkDisplay, tell: Tell
) -> _LinkResult:
    from weirlab.links.emulator import netem, tables

    for note in dict.fromkeys((*netem.notes(asked.up), *netem.notes(asked.down))):
        tell(note)
    a, b = (end.interface for end in ends)
    link = netem.netem_link((a, b), ends[0].netns, asked, tell, for_s=how.for_s)
    last = _watched(link, f"{ends[0]} and {ends[1]} are linked by netem", how, shown, tell)
    more, conclusion = {"elapsed_s": last.elapsed_s}, tables.netem_conclusion(last)
    return _LinkResult(last.up.document(), last.down.document(), more, conclusion, [tables.of_netem(last)])


def _watched(
    link: AbstractContextManager[_RunningLink[A]],
    what: str,
    how: EmulatorSettings,
    shown: LinkDisplay,
    tell: Tell,
) -> A:
    """Show what becomes of frames until Ctrl-C or the end of the time; the last account."""
    from weirlab.link.stopping import Stop
    from weirlab.links.emulator.tables import SHOW_EVERY_S

    with Stop() as stop, link as carrying:
        tell(f"{what}; Ctrl-C ends it")
        while not stop.requested:
            now = carrying.account()
            if now.ended:
                break
            left_s = None if how.for_s is None else max(how.for_s - now.elapsed_s, 0.0)
            shown.show(now, left_s)
            stop.wait((), SHOW_EVERY_S if left_s is None else min(SHOW_EVERY_S, left_s + 0.05))
        return carrying.stop()
