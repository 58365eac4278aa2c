"""What ``weir calls`` shows: what callers heard, and what calls take on the wire, as tables and sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weirlab.base import quantities
from weirlab.base.quantities import decimals
from weirlab.base.tables import Table
from weirlab.base.units import FCS_BYTES, NS_PER_S, WIRE_OVERHEAD_BYTES
from weirlab.cli.quantities import NOTHING, count, duration, percent, plural, rate, rules, significant
from weirlab.cli.results.tables import left_out, of_device, rules_met
from weirlab.jobs.requiring import HEARD, MEDIAN_MOS, TAKEN, TRIAL, each, median, trial_case
from weirlab.records import DividedLoss, TrialRecord, device_in_words
from weirlab.report import numbers
from weirlab.requirements import GAP, MOS, Demand, DemandJudgement, judge
from weirlab.traffic.calls.spec import describe

if TYPE_CHECKING:
    from weirlab.calls.calls.study import CallsOutcome, CaptureOutcome
    from weirlab.calls.calls.wire import CallSheet, ClassSheet, WireLoad
    from weirlab.quality.distribution import CallerGroup, CallerPercentiles
    from weirlab.store import Run

WORST: Final = (
    "call", "back", "mos", "lost", "sent", "longest_run", "burst_ratio", "delay_mean_ns", "jitter_ns",
    "longest_gap_ns",
)  # fmt: skip
"""What :func:`worst` needs to know about a caller, besides ``late``."""


def worst(callers: Iterable[Mapping[str, Any]], caption: str) -> Table:
    """A row per caller, in the order given; None or NaN for what is not known."""
    columns = (
        "Call", "Direction", "MOS", "Lost", "Longest run", "Burst ratio", "Late", "Mean delay", "Jitter",
        "Longest gap",
    )  # fmt: skip
    rows = [
        (
            str(caller["call"]),
            "back" if caller["back"] else "forward",
            f"{caller['mos']:.2f}",
            f"{caller['lost']:,} of {caller['sent']:,}",
            count(caller["longest_run"]),
            NOTHING if (ratio := caller["burst_ratio"]) is None else numbers.significant(ratio),
            count(caller["late"]),
            *(numbers.duration(caller[name]) for name in ("delay_mean_ns", "jitter_ns", "longest_gap_ns")),
        )
        for caller in callers
    ]
    return Table(caption, columns, rows, spare=("Burst ratio", "Longest gap", "Longest run"))


_WORST = 5
"""Number of callers listed one by one."""

SPOILED: Final = "What callers hear was not measured: no attempt was valid."
"""The answer if the host spoiled the trial, whatever was heard in it."""


def sentence(outcome: CallsOutcome) -> str:
    """How many callers hear well, and who hears worst."""
    record, run = outcome.record, outcome.run
    if not record.valid:
        return _invalid(len(outcome.records), "; ".join(record.invalid))
    lost = _lost(record.loss, record.result.left_out_ratio, record.result.achieved_pps)
    met = record.rules_met
    against = f" But {met.contradiction}." if met is not None and met.contradiction else ""
    return of_device(run.simulated, f"{outcome.quality.sentence()} {lost}; run {run.run_id}.{against}")


def headlines(run: Run) -> tuple[str, ...]:
    """The same for a stored run; empty before its first attempt."""
    from weirlab.jobs.trials import counted, left_out_ratio, loss
    from weirlab.quality.distribution import summarise
    from weirlab.records import CallTable

    trials = run.trials()
    if not trials.height:
        return ()
    trial = counted(trials)
    if not trial["valid"]:
        return (_invalid(trials.height, trial["invalid"]),)
    rows = run.calls().filter(trial_id=trial["trial_id"])
    heard = run.manifest.section("calls").get("jitter_buffer", {}).get("heard", "best")
    columns = {field.name: rows[field.name].to_numpy() for field in fields(CallTable)}
    mos = columns["mos" if heard == "best" else f"mos_{heard}"]
    quality = summarise(CallTable(**{**columns, "mos": mos}))
    lost = _lost(loss(trial), left_out_ratio(trial), trial["achieved_pps"])
    return (of_device(run.simulated, f"{quality.sentence()} {lost}."),)


def _invalid(attempts: int, why: str) -> str:
    return f"{SPOILED} Invalid after {plural(attempts, 'attempt')}: {why}."


def _lost(loss: DividedLoss, left_out_ratio: float, pps: float) -> str:
    if loss.lost == 0:
        return f"All packets arrived ({rate(pps)})"
    lost = f"{percent(loss.ratio)} of the packets were lost (at {rate(pps)})"
    if not left_out_ratio:
        return lost
    rest = f"without {percent(left_out_ratio)} of the time, which the host disturbed"
    return f"{lost}; {rest}, {percent(loss.rest_ratio)}"


def tables(outcome: CallsOutcome) -> list[Table]:
    """The trial; unless the host spoiled it also percentiles over callers, groups, and the worst callers."""
    if not outcome.record.valid:
        return [replace(_trial(outcome), details=False)]
    found = [_trial(outcome), _percentiles(outcome), _groups(outcome)]
    worst = _worst(outcome)
    return [*found, worst] if worst.rows else found


def _trial(outcome: CallsOutcome) -> Table:
    record = outcome.record
    result = record.result
    how = f"{record.lab}, {result.backend} {result.xdp_mode}".rstrip()
    device = device_in_words(record.dut) if record.lab == result.backend else f"{record.dut} ({how})"
    facts = [
        ("run", outcome.run.run_id),
        ("calls", describe(outcome.calls)),
        ("device", f"{device}, {rules(record.spec.rules.position)}"),
        ("valid", "yes" if record.valid else f"no: {'; '.join(record.invalid)}"),
        ("attempts", str(len(outcome.records))),
        *left_out(record),
        ("offered, achieved load", f"{rate(record.offered_pps)}, {rate(result.achieved_pps)}"),
        ("packets lost", f"{percent(result.loss_ratio)} ({count(result.lost)} of {count(result.sent)})"),
        ("duplicated, reordered", f"{count(result.duplicated)}, {count(result.reordered)}"),
        ("jitter buffer", outcome.buffers.describe(outcome.heard)),
        *rules_met(record),
        ("calibration", outcome.calibration or "none"),
    ]
    if outcome.packets is not None:
        facts.append(("packets", str(outcome.packets)))
    return Table("Trial", ("", ""), facts, details=True)


def _percentiles(outcome: CallsOutcome) -> Table:
    everyone, more = outcome.quality.everyone, outcome.spreads
    columns = ("Over callers", "1 %", "5 %", "Median", "95 %", "99 %")
    quantities: list[tuple[str, CallerPercentiles, Callable[[float], str]]] = [
        ("MOS", everyone.mos, decimals),
        ("loss", everyone.loss_ratio, percent),
        ("mean delay", everyone.delay_ns, duration),
        ("jitter (RFC 3550)", more["jitter_ns"], duration),
        ("longest gap", more["longest_gap_ns"], duration),
    ]
    # The scale of R depends on the codec's band; behind a single kind of buffer R is not stored.
    if len(outcome.calls.classes) == 1 and outcome.heard == "best":
        quantities.insert(1, ("R factor", more["r_factor"], lambda r: decimals(r, 1)))
    rows = [
        (name, *(text(value) for value in (s.p1, s.p5, s.p50, s.p95, s.p99))) for name, s, text in quantities
    ]
    return Table("What callers hear", columns, rows)


def _groups(outcome: CallsOutcome) -> Table:
    quality = outcome.quality
    columns = ("Callers", "Number", "Median MOS", "Worst MOS", "Below 4.0", "Below 3.6", "Not measured")
    groups: dict[str, CallerGroup | None] = {
        "all": quality.everyone,
        "hear the sender's side (forward)": quality.forward,
        "hear the receiver's side (back)": quality.back,
    }
    if len(quality.classes) > 1:
        groups |= quality.classes
    rows = [
        (
            name,
            count(group.callers),
            decimals(group.mos.p50),
            NOTHING if group.worst is None else decimals(group.worst.mos),
            percent(group.below_satisfied),
            percent(group.below_dissatisfied),
            count(group.not_measured),
        )
        for name, group in groups.items()
        if group is not None
    ]
    return Table("Groups of callers", columns, rows, spare=("Not measured",))


def _worst(outcome: CallsOutcome) -> Table:
    table = outcome.table
    loss = table.lost.astype(np.float64) / np.maximum(table.sent, 1)
    order = np.lexsort((-loss, table.mos))[:_WORST]
    late = _late(outcome)
    rows = [
        {**{name: getattr(table, name)[i].item() for name in WORST}, "late": int(late[i])}
        for i in order
        if not np.isnan(table.mos[i])
    ]
    return worst(rows, "Worst callers")


def _late(outcome: CallsOutcome) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Packets that came too late for the buffer whose MOS is shown."""
    table = outcome.table
    if outcome.heard == "fixed":
        return table.late_fixed
    if outcome.heard == "adaptive":
        return table.late_adaptive
    return np.where(table.mos_fixed >= table.mos_adaptive, table.late_fixed, table.late_adaptive)


CALLS: Final = (*HEARD, *TRIAL)

_SMALL_SHARE: Final = 0.05
"""Share of the lost packets below which it does not matter what the host did when they were sent."""


def of_calls(demands: Sequence[Demand], outcome: CallsOutcome) -> tuple[DemandJudgement, ...]:
    """Judge quantities of the trial by all packets but those that the host disturbed, and what callers hear
    by every packet."""
    record = outcome.record
    if not record.valid:
        return tuple(judge(demand, [trial_case(demand.quantity, (record,))]) for demand in demands)
    table = outcome.table
    callers = [
        f"call {call} {'back' if back else 'forward'}"
        for call, back in zip(table.call, table.back, strict=True)
    ]
    heard = {MOS: table.mos, GAP: table.longest_gap_ns}
    judged = []
    for demand in demands:
        quantity = demand.quantity
        if quantity in TAKEN:
            cases = [trial_case(quantity, (record,))]
        elif quantity == MEDIAN_MOS:
            cases = [median(table.mos, "callers")]
        else:
            cases = each(heard[quantity], callers, "too little arrived to tell")
        found = judge(demand, cases)
        if quantity not in TAKEN and found.verdict == "not met":
            note = "; ".join(filter(None, (found.case.note, _hosts_part(record))))
            found = replace(found, case=replace(found.case, note=note))
        judged.append(found)
    return tuple(judged)


def _hosts_part(record: TrialRecord) -> str:
    """What the host may have had to do with what callers heard; empty if nothing."""
    left_out_ratio, share = record.result.left_out_ratio, record.loss.disturbed_share
    if not left_out_ratio or share <= _SMALL_SHARE:
        return ""
    of_time = f"the host disturbed {percent(left_out_ratio)} of the time"
    return (
        of_time
        if math.isnan(share)
        else f"{of_time}, in which {percent(share)} of the lost packets were sent"
    )


_bit_rate = partial(quantities.bit_rate, digits=4)

_PUBLISHED = "published definition (2^30 bit/s)"


def sheet_tables(sheet: CallSheet) -> list[Table]:
    """Packets, load and line, a row per kind of call."""
    return [_packets(sheet), _load(sheet), _line(sheet)]


def sheet_sentence(sheet: CallSheet) -> str:
    """Rate, and what the line carries."""
    media = sheet.media
    verb = "sends" if sheet.calls.count == 1 else "send"
    told = (
        f"{plural(sheet.calls.count, 'call')} {verb} {count(media.rate_pps)} packets/s in a direction, one "
        f"every {duration(NS_PER_S / media.rate_pps)}: {_bit_rate(media.wire_bps)} on the wire. A line of "
        f"{_bit_rate(sheet.line_bps)} carries {plural(sheet.line_calls, 'such call')}"
    )
    with_control = ", control packets included" if sheet.control.rate_pps else ""
    published = f"by the published definition a gigabit line carries {count(sheet.published[1])}"
    return f"{told}{with_control}; {published}."


def written(outcome: CaptureOutcome) -> str:
    """Where the capture is."""
    done = outcome.captured
    before = f", the first {outcome.warmup_s:g} s for setting up calls" if outcome.warmup_s else ""
    held = f"{plural(done.frames, 'packet')} of {plural(outcome.flows, 'flow')}"
    planted = ""
    if outcome.planted:
        told = ", ".join(f"{count(number)} {name}" for name, number in outcome.planted.items())
        planted = f"; of the speech {told}"
    return (
        f"{done.path}: {held} in {significant(done.lasts_ns / NS_PER_S)} s{before}, {count(done.file_bytes)} "
        f"bytes{planted}; open it in Wireshark, or: weir quality {done.path}"
    )


def _packets(sheet: CallSheet) -> Table:
    columns = (
        "Calls of", "Over", "Calls", "Per packet", "Payload B", "Headers B", "Frame B with FCS",
        "Without FCS", "On the wire",
    )  # fmt: skip
    rows = [
        (
            _title(each),
            each.kind.transport,
            significant(each.calls) if each.calls % 1 else count(each.calls),
            str(each.calls_per_packet),
            str(each.kind.stream.payload_bytes),
            _headers(each),
            str(each.frame_bytes),
            str(each.frame_bytes - FCS_BYTES),
            str(each.frame_bytes + WIRE_OVERHEAD_BYTES),
        )
        for each in sheet.classes
    ]
    return Table("Packets", columns, rows, spare=("Per packet", "Without FCS", "On the wire"))


def _title(each: ClassSheet) -> str:
    stream = each.kind.stream
    return f"{stream.codec.title}, {stream.packet_ms:g} ms"


def _headers(each: ClassSheet) -> str:
    sizes = each.header_bytes.values()
    return f"{' + '.join(map(str, sizes))} = {sum(sizes)}"


def _load(sheet: CallSheet) -> Table:
    columns = (
        "Traffic",
        "Packets/s",
        "Gap",
        "Frames with FCS",
        "On the wire",
        f"Packets in {sheet.duration_s:g} s",
    )

    def row(name: str, load: WireLoad) -> tuple[str, ...]:
        return (
            name,
            count(load.rate_pps) if load.rate_pps >= 100 else significant(load.rate_pps),
            duration(NS_PER_S / load.rate_pps),
            _bit_rate(load.frame_bps),
            _bit_rate(load.wire_bps),
            count(load.rate_pps * sheet.duration_s),
        )

    rows = []
    if len(sheet.classes) > 1:
        rows += [row(f"{_title(each)}, {each.kind.transport}", each.media) for each in sheet.classes]
    rows.append(row("speech, per direction", sheet.media))
    if sheet.directions == 2:
        rows.append(row("speech, both directions", sheet.media.times(2)))
    if sheet.activity < 1:
        everybody = sheet.media.times(sheet.directions * sheet.activity)
        rows.append(row(f"mean of all, who talk {percent(sheet.activity)} of the time", everybody))
    if sheet.control.rate_pps:
        rows.append(row("control packets (RTCP), per direction", sheet.control))
    return Table("Load while everybody talks", columns, rows)


def _line(sheet: CallSheet) -> Table:
    columns = ("Line", "Calls of", "Frame B", "Max. packets/s", "Calls", "With RTCP")
    rows = []
    for one in sheet.classes:
        title = f"{_title(one)}, {one.kind.transport}"
        line, published = one.line, one.published
        rows.append(
            (
                f"{_bit_rate(line.line_bps)} Ethernet, per direction",
                title,
                f"{line.frame_bytes} with FCS",
                count(int(line.max_pps)),
                count(line.calls),
                count(line.calls_with_control),
            )
        )
        rows.append(
            (
                _PUBLISHED,
                title,
                f"{published.frame_bytes} without FCS",
                count(published.max_pps),
                count(published.calls),
                "",
            )
        )
    if len(sheet.classes) > 1:
        max_pps, calls = sheet.published
        rows.append(
            (f"{_bit_rate(sheet.line_bps)} Ethernet", "this mix", "", "", "", count(sheet.line_calls))
        )
        rows.append((_PUBLISHED, "this mix", "", count(max_pps), count(calls), ""))
    caption = f"Line limits; these calls take {percent(sheet.line_share)} of {_bit_rate(sheet.line_bps)}"
    return Table(caption, columns, rows)
