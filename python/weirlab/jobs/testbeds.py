"""Builds the test bed that a scenario describes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

from weirlab.base.errors import InputError, MissingCapability
from weirlab.base.files import NO_FILES, Inputs
from weirlab.base.interrupts import shielded
from weirlab.jobs.progress import Progress, SilentProgress
from weirlab.lab.base import AimingBed, Driver, TestBed
from weirlab.lab.clean import owners
from weirlab.records import RuleSetup, caution
from weirlab.scenario import NO_DEVICE, Dut, Lab
from weirlab.scenario.conflicts import ONE_CPU
from weirlab.traffic.calls.spec import Calls
from weirlab.traffic.flows import describe_headers, min_frame_bytes
from weirlab.traffic.sizes import Constant, SizeMix, largest_bytes, smallest_bytes, validate
from weirlab.traffic.spec import Flows, Rate, Traffic

if TYPE_CHECKING:
    from weirlab.lab.dut.aiming import RuleTraffic

BUSY_LOAD: Final = 0.5
"""Load average per CPU above which other work will disturb trials."""


USUAL_FLOWS: Final = Flows()

ONE_SENDER: Final = "packets of calls, and of answered flows, have one sender: leave --senders out"


def tell_if_busy(lab: str, progress: Progress) -> None:
    """Note if a real ``lab`` (``netns``) is about to run on a busy machine, which disturbs the trials."""
    if lab == "sim":
        return
    if others := sorted({*owners()} - {0, os.getpid()}):
        progress.note(
            f"Weir already measures on this machine (process {', '.join(map(str, others))}). Each run spoils "
            "trials of the other, which are then repeated; best let it finish first"
        )
        return
    if _loads_before:
        return
    cpus, load = os.cpu_count() or 1, os.getloadavg()[0]
    _loads_before.append(load)
    if load > BUSY_LOAD * cpus:
        progress.note(
            f"load average {load:.2f} on {cpus} CPUs before Weir began: work other than Weir's spoils "
            "trials, which are then repeated; best let it finish first"
        )


_loads_before: Final[list[float]] = []
"""The load average before this process measured for the first time: later, it counts Weir's own work."""


def choose(lab: Lab, dut: Dut, progress: Progress) -> Literal["netns", "sim", "wired"]:
    """The lab to use. ``auto`` is ``netns`` if that works, otherwise ``sim``, with a note.

    Raises
    ------
    MissingCapability, InputError
        The simulated lab would have to replace the user's own rules or a cable; a model is given for
        another lab.
    """
    from weirlab.lab import doctor

    if lab.kind in ("netns", "wired"):
        if lab.model is not None:
            raise InputError(f"{lab.model} can only be simulated: use --lab sim, or leave out --as")
        return lab.kind
    if lab.model is not None:
        return "sim"
    is_real = dut.name in ("ruleset", "image", NO_DEVICE)
    why = ""
    if lab.kind == "auto":
        if is_real:
            doctor.need_namespaces(f"the device {dut.name!r} needs")
            return "netns"
        if (missing := doctor.missing_for_namespaces()) is None:
            return "netns"
        why = f"network namespaces do not work here ({missing}): "
    elif is_real:
        raise InputError(f"the simulated lab cannot replace the device {dut.name!r}; use --lab netns as root")
    progress.note(
        f"{why}simulating a device in place of {dut.name}; nothing real is measured. For the real one, use "
        "--lab netns as root"
    )
    return "sim"


@contextmanager
@shielded
def open_bed(
    lab: Lab,
    dut: Dut,
    progress: Progress,
    demand: Flows | Calls = USUAL_FLOWS,
    sizes: Iterable[SizeMix] = (),
    inputs: Inputs = NO_FILES,
    *,
    aim: RuleTraffic | Literal["any verdict"] | None = None,
) -> Iterator[TestBed]:
    """A test bed for the duration of the block.

    Traffic through the user's own rules is made to match one of them, as close to ``demand`` as
    that allows; a note says which one before anything is sent. ``sizes`` that cannot pass the device are
    refused before it is built. ``inputs`` opens the files that the device needs. ``aim`` is traffic that
    other rules accept, to be sent here, too; "any verdict": the rule that the user names may drop it.

    Raises
    ------
    MissingCapability, LabError, InputError
        From the lab and the driver.
    """
    flows, calls = (USUAL_FLOWS, demand) if isinstance(demand, Calls) else (demand, None)
    chosen = choose(lab, dut, progress)
    if dut.cpus > 1 and chosen != "sim":
        raise InputError(ONE_CPU)
    if chosen == "wired":
        if lab.senders > 1 and (calls is not None or flows.answered):
            raise InputError(ONE_SENDER)
        if lab.senders > flows.count:
            raise InputError(
                f"a flow has one sender, so {lab.senders} senders need as many flows: --flows {lab.senders}"
            )
        version = flows.ip if calls is None else calls.classes[0].stream.ip
        with open_wired(lab, dut, progress, version) as wired:
            yield wired
        return
    if chosen == "sim":
        from weirlab.jobs.simulated import simulated_model
        from weirlab.lab.sim import SimDevice, SimLab

        measured = None if lab.model is None else simulated_model(lab.model, inputs)
        with SimLab(SimDevice(**lab.device.model_dump()), measured, dut.cpus) as simulated:
            yield simulated
        return
    progress.stage(f"building the lab for {dut.name}")
    if dut.name == NO_DEVICE:
        with open_cable(lab) as cable:
            yield cable
        return
    from weirlab.lab.dut import make
    from weirlab.lab.dut.ruleset import RulesetDriver
    from weirlab.lab.namespaces import check_fit
    from weirlab.lab.netns import NetnsLab

    driver = make(dut.name, dut.file, inputs, dut.files_beside)
    sizes = tuple(sizes)
    for mix in sizes:
        check_fit(driver, largest_bytes(mix), flows.ip)
    for kind in () if calls is None else calls.classes:
        check_fit(driver, kind.stream.frame_bytes, kind.stream.ip)
    for note in driver.source.left_out if isinstance(driver, RulesetDriver) else ():
        progress.note(note)
    aimed = (
        driver.aim(dut.match, flows, calls, None if aim == "any verdict" else aim)
        if isinstance(driver, RulesetDriver)
        else None
    )
    if aimed is not None:
        progress.note(aimed.note)
        if aimed.drops and aim != "any verdict":
            raise InputError(
                f"{dut.ruleset}: {aimed.rule} drops test traffic; weir trial measures at which rate, and all "
                "other commands need a rule that accepts: --match another one"
            )
        sent = replace(flows, l4=aimed.l4, ip=aimed.ip)
        for mix in sizes:
            validate(mix, min_frame_bytes(sent), describe_headers(sent))
    with NetnsLab(driver, backend=lab.backend, aimed=aimed, answered=flows.answered) as bed:
        if aimed is None and isinstance(driver, RulesetDriver):
            progress.note(
                f"{dut.ruleset}: the device takes these rules, but Weir cannot read them: test traffic is "
                "that of the benchmarking ranges, and which rule it meets is not known"
            )
        if known := caution({"dut": bed.dut, **bed.facts}):
            progress.note(known)
        yield bed


def roomy(bed: TestBed, flows: Flows, sizes: Sequence[SizeMix]) -> tuple[SizeMix, ...]:
    """``sizes``, those that are too small for packets of the user's rules as small as these can be."""
    if not isinstance(bed, AimingBed) or not sizes:
        return tuple(sizes)
    least = min_frame_bytes(bed.as_sent(Traffic(Rate(1.0), sizes[0], flows)).flows)
    return tuple(dict.fromkeys(mix if least <= smallest_bytes(mix) else Constant(least) for mix in sizes))


@contextmanager
@shielded
def open_wired(
    lab: Lab,
    dut: Dut,
    progress: Progress,
    version: Literal[4, 6],
    tell: Callable[[str], None] = lambda checked: None,
) -> Iterator[TestBed]:
    """The user's own device between two ports, or a patch cable, for the duration of the block. ``tell`` gets
    what was checked before, sentence by sentence."""
    from weirlab.lab import cores
    from weirlab.lab.wired.bed import WiredBed
    from weirlab.lab.wired.ends import WiredSetting, wired_ends

    cpus = cores.choose(senders=lab.senders)
    progress.stage(f"borrowing the ports {' and '.join(lab.between)}")
    ends = wired_ends(lab.between, lab.addresses, lab.gateways)
    setting = WiredSetting(ends, lab.mode, lab.take, lab.shared, lab.allow)
    with (
        _elsewhere(lab, dut, progress) as driver,
        WiredBed(setting, driver, lab.backend, cpus, version=version, tell=tell) as bed,
    ):
        yield bed


@contextmanager
@shielded
def _elsewhere(lab: Lab, dut: Dut, progress: Progress) -> Iterator[Driver | None]:
    """The driver of a device that is not built here, with the login open; None for a patch cable."""
    if dut.name == NO_DEVICE:
        yield None
        return
    from weirlab.lab.linux.inventory import look
    from weirlab.lab.remote.changes import make_change
    from weirlab.lab.remote.device import ExternalDevice
    from weirlab.lab.remote.target import SshTarget, parse_address

    target = None if dut.at is None else SshTarget(parse_address(dut.at))
    change = make_change(dut.change, dut.name, target, dut.restore_s)
    driver = ExternalDevice(dut.name, target, change, dut.ports)
    driver.note = progress.note
    try:
        if missing := driver.check():
            raise MissingCapability(f"device {dut.name}: {'; '.join(missing)}")
        known = look()
        for port in lab.between:
            addresses = known[port].addresses if port in known else ()
            if target is not None and target.client() in (each.partition("/")[0] for each in addresses):
                raise InputError(
                    f"{dut.at} is reached through {port}, which the test takes: log in through another port"
                )
        yield driver
    finally:
        driver.stop()


@contextmanager
@shielded
def open_cable(lab: Lab) -> Iterator[TestBed]:
    """A cable without a device, for the duration of the block: between the ports of a wired lab, or a veth
    pair."""
    if lab.kind == "wired":
        with open_wired(lab, Dut(name=NO_DEVICE), SilentProgress(), 4) as wired:
            yield wired
        return
    from weirlab.lab.namespaces import PlainPair

    with PlainPair(backend=lab.backend) as pair:
        yield pair


def positions(bed: TestBed, wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Matching positions of trials in ``bed``: ``wanted``, or the number of the user's own rules that packets
    meet."""
    own = bed.position if isinstance(bed, AimingBed) else None
    return wanted if own is None else (own,)


def rule_setup(bed: TestBed, wanted: RuleSetup) -> RuleSetup:
    """``wanted`` with the number of the user's own rules that packets meet, if ``bed`` has such."""
    (position,) = positions(bed, (wanted.position,))
    return replace(wanted, position=position)


def facts(bed: TestBed, command: str = "") -> dict[str, Any]:
    """The facts about ``bed`` for the manifest, and the ``command`` that the user gave."""
    known: dict[str, Any] = {"lab": bed.lab, "dut": bed.dut, "backend": bed.backend, **bed.facts}
    return {**known, "command": command} if command else known


def require_same(facts: Mapping[str, Any], recorded: Mapping[str, Any], run_id: str) -> None:
    """Refuse to resume a run in another lab or with another device than it was begun with."""
    for what in ("lab", "dut", "backend"):
        now, before = facts.get(what), recorded.get(what)
        if None not in (now, before) and before != now:
            raise InputError(
                f"run {run_id} was begun with the {what} {before!r}, but here it would be {now!r}; "
                "resume it where it was begun (same machine, same privileges), or start a new run"
            )
